"""Batches by tokens: the core beside the definition."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastload.plan.units.windows import WindowRows
from fastload.runtime.native import core
from support.token_batches import batch_windows


def assert_core_batches(*arguments):
    both = batch_windows(*arguments), core.batch_windows(*arguments)
    for plain, of_core in zip(*both, strict=True):
        assert np.array_equal(plain, of_core)


@settings(max_examples=500, deadline=None)
@given(
    st.lists(st.integers(0, 12), max_size=6),
    st.lists(st.integers(0, 9), min_size=1, max_size=9),
    st.integers(1, 20),
    st.booleans(),
    st.one_of(st.none(), st.integers(1, 5)),
    st.booleans(),
    st.data(),
)
def test_the_core_batches_as_the_definition(
    windows, lengths, tokens, padded, max_rows, shuffled, data
):
    edges = np.cumsum([0, *windows])
    rows = int(edges[-1])
    all_lengths = np.array((lengths * rows)[:rows], np.uint32)
    first = data.draw(st.integers(-5, rows + 2))
    stop = data.draw(st.integers(first, rows + 5))
    keys = np.arange(len(windows), dtype=np.uint64)
    both = (keys, keys + np.uint64(99)) if shuffled else (None, None)
    rows_of_windows = WindowRows(all_lengths, edges, first, stop, *both)
    assert_core_batches(rows_of_windows, tokens, padded, max_rows)


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("tokens", [100, 8192])
def test_the_core_batches_many_rows_as_the_definition(padded, tokens):
    random = np.random.default_rng(3)
    lengths = random.lognormal(4, 1, 30_000).astype(np.uint32)  # some are longer than a batch
    edges = np.array([0, 10_000, 30_000])
    keys = np.array([5, 2**63 + 7], np.uint64)
    for both in ((None, None), (keys, keys + np.uint64(6))):
        rows = WindowRows(lengths, edges, 10, 25_000, *both)
        assert_core_batches(rows, tokens, padded, None)


def test_work_beyond_64_bits_is_compared_exactly():
    """16 squares of 2**30 are as much as 64 bits hold, and would count as none."""
    lengths = np.array([2**30] * 16 + [2**29 + 1] * 31 + [7] * 100, np.uint32)
    keys = np.array([5], np.uint64)
    rows = WindowRows(lengths, np.array([0, len(lengths)]), 0, len(lengths), keys, keys)
    assert_core_batches(rows, 2**34, True, None)


@pytest.mark.parametrize(("tokens", "max_rows"), [(0, None), (5, 0)])
def test_the_core_refuses_limits_below_one(tokens, max_rows):
    rows = WindowRows(np.array([1, 2], np.uint32), np.array([0, 2]), 0, 2, None, None)
    with pytest.raises(ValueError, match="Expected limits of at least 1"):
        core.batch_windows(rows, tokens, False, max_rows)
