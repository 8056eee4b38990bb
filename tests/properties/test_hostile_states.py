"""States that anybody may have written: each is refused with a reason, or is a place to go on."""

from __future__ import annotations

import copy
import json
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastload import FastParquetDataset
from fastload.errors import SourceChangedError
from support.sample_files import ids_of, write_sample

ROWS = 300
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=5)
    | st.integers(-2, 12),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    path = write_sample(tmp_path_factory.mktemp("states") / "sample.parquet", ROWS)
    with FastParquetDataset(path, batch_size=30, shuffle=True, threads=0) as opened:
        yield opened


@pytest.fixture(scope="module")
def state(dataset):
    for _ in islice(dataset, 4):
        pass
    return json.loads(json.dumps(dataset.state_dict()))


def places(value, path=()):
    """Where something may be replaced."""
    yield path
    items = value.items() if isinstance(value, dict) else ()
    items = enumerate(value) if isinstance(value, list) else items
    for key, inner in items:
        yield from places(inner, (*path, key))


def replaced(state, path, value):
    if not path:
        return value
    changed = copy.deepcopy(state)
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return changed


@settings(max_examples=settings.default.max_examples, deadline=None)
@given(data=st.data())
def test_a_hostile_state(dataset, state, data):
    hostile = state
    for _ in range(data.draw(st.integers(1, 2))):
        path = data.draw(st.sampled_from(list(places(hostile))))
        hostile = replaced(hostile, path, data.draw(JSON))
    dataset.load_state_dict(state)
    refused = None
    try:
        dataset.load_state_dict(hostile)
    except (ValueError, TypeError, SourceChangedError) as error:
        refused = str(error)
    if refused is not None:
        assert refused.startswith("Expected")
        # Nothing has come of it.
        assert dataset.state_dict() == state
        return
    ids = ids_of(dataset)
    assert len(ids) == len(set(ids)) <= ROWS
