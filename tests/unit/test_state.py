"""The saved state: plain JSON that goes back to the position it came from."""

import json
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastload import SourceChangedError
from fastload.plan import Leg, Options
from fastload.predicate import Predicate
from fastload.state import Position, decode_state, encode_state

SOURCE = SimpleNamespace(
    fingerprint="0123456789abcdef" * 2, files=(SimpleNamespace(path="a.parquet"),), num_rows=1000
)
OPTIONS = Options(batch_size=10, shuffle=True, seed=5)
ALL = Predicate()

legs = st.builds(Leg, st.integers(1, 10**6), st.integers(1, 999), st.integers(0, 10**12))
positions = st.builds(Position, st.integers(0, 2**24 - 1), st.lists(legs, max_size=9).map(tuple))


@given(positions, st.integers(-(2**63), 2**64 - 1))
def test_there_and_back(position, seed):
    state = encode_state(SOURCE, Options(batch_size=10, seed=seed), ALL, position)
    text = json.dumps(state)
    assert len(text) < 2000
    assert decode_state(json.loads(text), SOURCE, Options(batch_size=10), ALL) == (seed, position)


def test_window_does_not_matter_in_order():
    state = encode_state(SOURCE, Options(batch_size=10, shuffle_window=3), ALL, Position(0, ()))
    decode_state(state, SOURCE, Options(batch_size=10, shuffle_window=4), ALL)


def test_other_files():
    state = encode_state(SOURCE, OPTIONS, ALL, Position(0, ()))
    other = SimpleNamespace(**{**vars(SOURCE), "fingerprint": "f" * 32, "num_rows": 7})
    with pytest.raises(SourceChangedError, match=r"\(1 files, 1000 rows\), got 1 files with 7"):
        decode_state(state, other, OPTIONS, ALL)


@pytest.mark.parametrize(
    "missing", ["version", "fingerprint", "seed", "epoch", "progress", "order"]
)
def test_missing_parts(missing):
    state = encode_state(SOURCE, OPTIONS, ALL, Position(3, (Leg(1, 1, 4),)))
    del state[missing]
    with pytest.raises(ValueError, match="Expected a state made by state_dict"):
        decode_state(state, SOURCE, OPTIONS, ALL)


@pytest.mark.parametrize("state", [None, 3, "text", []])
def test_no_state_at_all(state):
    with pytest.raises(ValueError, match="Expected a state made by state_dict"):
        decode_state(state, SOURCE, OPTIONS, ALL)
