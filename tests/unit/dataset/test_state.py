"""The saved state: plain JSON that goes back to the position it came from."""

import base64
import json
import random
import zlib
from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastload import SourceChangedError
from fastload.dataset.state import decode_state, encode_state
from fastload.plan.options import Options
from fastload.plan.position import Leg, Position
from fastload.rows.predicate import Predicate, Split

SOURCE = SimpleNamespace(
    fingerprint="0123456789abcdef" * 2,
    file_sums=(2**52, 1),
    files=(SimpleNamespace(path="a.parquet"),),
    num_rows=1000,
    table=None,
    commits="",
)
OPTIONS = Options(batch_size=10, shuffle=True, seed=5)
ALL = Predicate()

legs = st.integers(1, 10**6).flatmap(
    lambda world: st.builds(
        Leg, st.just(world), st.integers(1, min(999, 2**20 // world)), st.integers(0, 10**12)
    )
)
positions = st.builds(
    Position,
    st.integers(-(2**63), 2**64 - 1),
    st.integers(0, 2**24 - 1),
    st.lists(legs, max_size=9).map(tuple),
    st.integers(0, 10**9),
)


def through_json(position, options, worker=None):
    text = json.dumps(encode_state(SOURCE, options, ALL, position, worker))
    assert len(text) < 2000
    return json.loads(text)


@given(positions)
def test_there_and_back(position):
    position = replace(position, taken=0)
    state = through_json(position, Options(batch_size=10, seed=7))
    assert decode_state(state, SOURCE, Options(batch_size=10), ALL) == (position, False)


@given(positions)
def test_of_a_worker(position):
    state = through_json(position, OPTIONS, (2, 4))
    assert decode_state(state, SOURCE, OPTIONS, ALL, (2, 4)) == (position, True)
    for other, name in [(None, "a whole rank"), ((1, 4), "worker 1 of 4"), ((2, 3), "2 of 3")]:
        with pytest.raises(ValueError, match=rf"{name}, got that of worker 2 of 4: .*num_workers"):
            decode_state(state, SOURCE, OPTIONS, ALL, other)


def test_many_resumes_on_other_worlds_keep_a_state_small():
    drawn = random.Random(0)
    progress = tuple(
        Leg((8, 6, 16)[n % 3], (2, 4)[n % 2], drawn.randrange(1, 10**5)) for n in range(150)
    )
    position = Position(5, 2**20, progress, 0)
    assert decode_state(through_json(position, OPTIONS), SOURCE, OPTIONS, ALL)[0] == position


@pytest.mark.parametrize("columns", [("c" * 5000,), ("user", "c" * 5000)])
def test_long_names_of_split_columns_keep_a_state_small(columns):
    def predicate(stop):
        return Predicate(None, Split(columns, 0.0, stop))

    state = encode_state(SOURCE, OPTIONS, predicate(0.5), Position(5, 0, ()))
    assert len(json.dumps(state)) < 2000
    decode_state(state, SOURCE, OPTIONS, predicate(0.5))
    with pytest.raises(ValueError, match="Expected split="):
        decode_state(state, SOURCE, OPTIONS, predicate(0.25))


@pytest.mark.parametrize(
    "data", [b"", b"[", b"[" * 10**5, b"[[1]]", b'[["a",1,1]]', b"3", b" " * 2**21, b"\xff"]
)
@pytest.mark.parametrize("encode", [zlib.compress, bytes], ids=["compressed", "plain"])
def test_compressed_progress_that_is_none(data, encode):
    state = encode_state(SOURCE, OPTIONS, ALL, Position(5, 0, ()))
    state["progress"] = base64.b85encode(encode(data)).decode()
    with pytest.raises(ValueError, match=r"Expected a state made by state_dict\(\)"):
        decode_state(state, SOURCE, OPTIONS, ALL)


@pytest.mark.parametrize("leg", [[1, 10**9, 1], [10**9, 1, 1], [2**62, 2**62, 0]])
def test_progress_of_more_workers_than_there_can_be(leg):
    state = encode_state(SOURCE, OPTIONS, ALL, Position(5, 0, ()))
    state["progress"] = [leg]
    with pytest.raises(
        ValueError, match=r"made by state_dict\(\), .* 1048576 workers of all ranks"
    ):
        decode_state(state, SOURCE, OPTIONS, ALL)


def test_the_state_of_a_loader_with_worker_processes_is_named():
    state = {"_snapshot": {"_snapshot_step": 1}, "_iterator_finished": False}
    with pytest.raises(ValueError, match=r"StatefulDataLoader with worker processes: load it into"):
        decode_state(state, SOURCE, OPTIONS, ALL)


def test_window_does_not_matter_in_order():
    state = encode_state(SOURCE, Options(batch_size=10, shuffle_window=3), ALL, Position(5, 0, ()))
    decode_state(state, SOURCE, Options(batch_size=10, shuffle_window=4), ALL)


def test_window_matters_in_order_where_batches_are_formed_in_windows():
    options = Options(batch_size=10, shuffle_window=3, forms_in_windows=True)
    state = encode_state(SOURCE, options, ALL, Position(5, 0, ()))
    decode_state(state, SOURCE, options, ALL)
    other = replace(options, shuffle_window=4)
    with pytest.raises(ValueError, match=r"Expected shuffle_window=3, .*, got shuffle_window=4"):
        decode_state(state, SOURCE, other, ALL)


def test_column_whose_tokens_are_counted():
    options = replace(OPTIONS, pack="ids, 3, fit=best, long=split", tokens_of="ids")
    state = encode_state(SOURCE, options, ALL, Position(5, 0, ()))
    decode_state(state, SOURCE, options, ALL)
    other = replace(options, tokens_of="labels")
    with pytest.raises(ValueError, match=r"Expected tokens_of='ids', .*, got tokens_of='labels'"):
        decode_state(state, SOURCE, other, ALL)


def test_other_files():
    state = encode_state(SOURCE, OPTIONS, ALL, Position(5, 0, ()))
    other = SimpleNamespace(**{**vars(SOURCE), "fingerprint": "f" * 32, "num_rows": 7})
    with pytest.raises(SourceChangedError, match=r"\(1 files, 1000 rows\), got 1 files with 7"):
        decode_state(state, other, OPTIONS, ALL)


@pytest.mark.parametrize(
    "missing", ["version", "fingerprint", "file_sums", "seed", "epoch", "progress", "order"]
)
def test_missing_parts(missing):
    state = encode_state(SOURCE, OPTIONS, ALL, Position(5, 3, (Leg(1, 1, 4),)))
    del state[missing]
    with pytest.raises(ValueError, match="Expected a state made by state_dict"):
        decode_state(state, SOURCE, OPTIONS, ALL)


def test_a_state_of_another_version_is_refused_by_name():
    state = encode_state(SOURCE, OPTIONS, ALL, Position(5, 3, (Leg(1, 1, 4),)))
    assert state["version"] == 1
    with pytest.raises(ValueError, match="got version 2, which stands for another order"):
        decode_state({**state, "version": 2}, SOURCE, OPTIONS, ALL)


@pytest.mark.parametrize("name", ["batch_size", "shuffle_window", "uneven", "offset"])
def test_an_order_that_lacks_a_value_or_has_one_more_is_refused(name):
    state = encode_state(SOURCE, OPTIONS, ALL, Position(5, 0, ()))
    del state["order"][name]
    with pytest.raises(ValueError, match=f"Expected {name}=None, as when the state was saved"):
        decode_state(state, SOURCE, OPTIONS, ALL)
    state = encode_state(SOURCE, OPTIONS, ALL, Position(5, 0, ()))
    state["order"]["unknown"] = 7
    with pytest.raises(ValueError, match=r"Expected unknown=7, .*, got unknown=None"):
        decode_state(state, SOURCE, OPTIONS, ALL)


@pytest.mark.parametrize("state", [None, 3, "text", []])
def test_no_state_at_all(state):
    with pytest.raises(ValueError, match="Expected a state made by state_dict"):
        decode_state(state, SOURCE, OPTIONS, ALL)
