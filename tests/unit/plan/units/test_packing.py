"""Documents in packed rows: best fit beside its plain definition, and packing by plain lists."""

import itertools
import resource

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastload.plan.options import Options
from fastload.plan.permutation import permutation
from fastload.plan.read_plan import PADDING
from fastload.plan.sequence import RowGroups
from fastload.plan.units.packed import PackedUnits, Packing
from fastload.plan.units.windows import Lengths, WindowRows, Windows
from fastload.runtime.native import core
from support.packing import (
    PACKER,
    balanced_order,
    best_fit,
    documents,
    pack_window,
    pack_windows,
    split_window,
)


def numbers(values):
    return np.array(values, np.uint32)


def pack(pack_windows, lengths, capacity):
    """The packed rows of documents in order, which are one window."""
    n = len(lengths)
    rows = WindowRows(numbers(lengths), np.array([0, n]), 0, n, None, None)
    return pack_windows(rows, rows.lengths, capacity)


def assert_core_fits(lengths, capacity):
    of_core, want = (pack(way, lengths, capacity) for way in (core.pack_windows, pack_windows))
    for got, expected in zip(of_core, want, strict=True):
        assert got.tolist() == expected.tolist()


CASES = {
    "nothing": ([], 5),
    "one": ([3], 5),
    "full": ([7] * 40, 7),
    "ones": ([1] * 200, 64),
    "capacity 1": ([1] * 9, 1),
    "halves": ([32, 33, 31, 32] * 20, 64),
    # Best fit decreasing wastes room: two thirds, thirds and what is just above.
    "thirds": ([21, 22, 21, 22, 43, 42] * 20, 64),
    # Rooms at both ends of words of 64 bits, and of words of words.
    "words": ([1, 63, 64, 65, 127, 128, 4095, 4096, 4097, 8191, 8192] * 9, 8192),
    "ascending": (list(range(1, 301)), 300),
    "descending": (list(range(300, 0, -1)), 300),
    # Each item opens a bin of a room of its own.
    "no two fit": (list(range(5001, 5201)), 10_000),
    "wide": ([2**20, 1, 2**20 - 1, 2**19] * 5, 2**20),
    "all fit": ([3, 1, 2] * 5, 2**31 - 1),
    "two thirds of a huge row": ([2**30 + 2**29] * 3 + [5], 2**31 - 1),
}


@pytest.mark.parametrize("name", CASES)
def test_the_core_fits_as_the_definition(name):
    assert_core_fits(*CASES[name])


def test_a_long_row_costs_by_its_documents():
    """Rooms of each length up to 2**31 would take 17 GB."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert_core_fits([3, 1, 2] * 1000, 10**8)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10  # KiB


@settings(max_examples=300, deadline=None)
@given(st.data(), st.one_of(st.integers(1, 12), st.integers(1, 300), st.just(8192)))
def test_the_core_fits_as_the_definition_at_random(data, capacity):
    lengths = data.draw(st.lists(st.integers(1, capacity), max_size=120))
    assert_core_fits(lengths, capacity)


@pytest.mark.parametrize("mean", [6, 600])
def test_the_core_fits_many_documents(mean):
    random = np.random.default_rng(3)
    lengths = numbers(np.clip(random.lognormal(np.log(mean), 1, 3000), 1, 8192))
    assert_core_fits(lengths, 8192)


def test_best_fit_takes_the_latest_of_equal_rooms():
    # 6, 6 and 5 open bins 0, 1 and 2; 4 fills bin 1, which came last to the room of 4.
    assert best_fit(numbers([6, 6, 5, 4]), 10).tolist() == [0, 1, 2, 1]
    segments, edges, _ = pack(core.pack_windows, [6, 6, 5, 4], 10)
    rows = [shown(segments[start:stop]) for start, stop in itertools.pairwise(edges)]
    assert rows == [[(0, 0, 6)], [(1, 0, 6), (3, 0, 4)], [(2, 0, 5)]]


# The definition, on plain lists of (row, first token, tokens).


def plain_documents(lengths, packing):
    found = []
    for row, length in enumerate(lengths):
        if length > packing.length and packing.long == "drop":
            continue
        cut = packing.long == "truncate"
        kept = min(length, packing.length) if cut else length
        if kept:
            found.append((row, 0, kept))
    return found


def plain_pieces(docs, length):
    return [
        (row, first + at, min(length, tokens - at))
        for row, first, tokens in docs
        for at in range(0, tokens, length)
    ]


def plain_best(docs, length, key):
    """Packed rows of pieces; bins in the order of their first pieces, or of a key."""
    pieces = plain_pieces(docs, length)
    rows = {}
    for piece, where in zip(
        pieces, best_fit(numbers([p[2] for p in pieces]), length).tolist(), strict=True
    ):
        rows.setdefault(where, []).append(piece)
    if key is None:
        return list(rows.values())
    work = [sum(tokens**2 for _, _, tokens in rows[number]) for number in range(len(rows))]
    return [rows[number] for number in balanced_order(work, key)]


def plain_split(docs, length):
    """Packed rows of a stream of tokens."""
    stream = [(row, first + at) for row, first, tokens in docs for at in range(tokens)]
    rows = [stream[at : at + length] for at in range(0, len(stream), length)]
    return [joined(row) for row in rows]


def joined(tokens):
    pieces = []
    for row, token in tokens:
        if pieces and pieces[-1][0] == row and sum(pieces[-1][1:]) == token:
            pieces[-1] = (row, pieces[-1][1], pieces[-1][2] + 1)
        else:
            pieces.append((row, token, 1))
    return pieces


def shown(segments):
    """Segments as pieces, without padding."""
    return [tuple(s[:3]) for s in segments.tolist() if s[0] != PADDING]


lengths_and_packing = st.tuples(
    st.lists(st.one_of(st.integers(0, 9), st.integers(0, 40)), max_size=30),
    st.builds(
        Packing,
        st.integers(1, 12),
        st.just("best"),
        st.sampled_from(["split", "truncate", "drop", "raise"]),
    ),
)


@settings(max_examples=300, deadline=None)
@given(lengths_and_packing, st.booleans())
def test_rows_of_best_fit_are_those_of_the_definition(case, shuffled):
    lengths, packing = case
    length = packing.length
    rows = numbers(range(len(lengths)))
    kept = packing.kept(numbers(lengths))
    docs = documents(rows, kept, numbers(lengths))
    assert shown(docs) == plain_documents(lengths, packing)
    assert docs[:, 3].tolist() == [lengths[row] for row in docs[:, 0].tolist()]

    key = 7 if shuffled else None
    segments, edges = pack_window(rows, kept, numbers(lengths), length, key)
    want = plain_best(shown(docs), length, key)
    assert len(want) == len(edges) - 1
    whole = np.array([0, len(lengths)])
    unit_keys = np.array([7], np.uint64) if shuffled else None
    window = WindowRows(numbers(lengths), whole, 0, len(lengths), None, unit_keys)
    of_core = core.pack_windows(window, kept, length)
    assert np.array_equal(of_core[0], segments)
    assert np.array_equal(of_core[1], edges)
    assert of_core[2].tolist() == [0, len(want)]
    for row, (start, stop) in zip(want, itertools.pairwise(edges), strict=True):
        assert shown(segments[start:stop]) == row
        assert segments[start:stop, 2].sum() == length
        # Padding is one segment, at the end.
        assert PADDING not in segments[start : stop - 1, 0]


@settings(max_examples=300, deadline=None)
@given(lengths_and_packing, st.integers(0, 30), st.data())
def test_a_stream_is_cut_as_the_definition(case, first, data):
    lengths, packing = case
    length = packing.length
    order = data.draw(st.permutations(range(len(lengths))))
    given_documents = numbers(order), packing.kept(numbers(lengths)), numbers(lengths)
    docs = documents(*given_documents)
    total = int(docs[:, 2].sum())
    if not total:
        return
    # `first` tokens of windows before: they shift where rows begin.
    before = [(1000, 0, first)] if first else []
    rows = plain_split([*before, *shown(docs)], length)
    start = data.draw(st.integers(0, total - 1))
    stop = data.draw(st.integers(start + 1, total))
    want, at = [], -first
    for row in rows:
        for document, token, tokens in row:
            low, high = max(start, at), min(stop, at + tokens)
            if low < high:
                want.append((document, token + low - at, high - low))
            at += tokens
    plain, of_core = (
        split(*given_documents, length, first, start, stop)
        for split in (split_window, core.split_window)
    )
    assert shown(plain) == want
    assert np.array_equal(of_core, plain)


@settings(max_examples=200, deadline=None)
@given(lengths_and_packing, st.lists(st.integers(0, 12), max_size=6), st.booleans(), st.data())
def test_the_core_packs_windows_as_the_definition_does(case, sizes, shuffled, data):
    lengths, packing = case
    rows = sum(sizes)
    all_lengths = numbers((lengths * rows)[:rows] if lengths else [3] * rows)
    edges = np.cumsum([0, *sizes])
    first = data.draw(st.integers(-5, rows + 2))
    stop = data.draw(st.integers(first, rows + 5))
    keys = np.arange(len(sizes), dtype=np.uint64)
    both = (keys, keys + np.uint64(99)) if shuffled else (None, None)
    windows = WindowRows(all_lengths, edges, first, stop, *both)
    arguments = windows, packing.kept(all_lengths), packing.length
    plain, of_core = pack_windows(*arguments), core.pack_windows(*arguments)
    assert all(np.array_equal(a, b) for a, b in zip(plain, of_core, strict=True))


def test_long_documents_of_an_epoch_are_counted_once():
    orders = []

    def permute(rows, key):
        orders.append(rows)
        return permutation(rows, key)

    row_groups = RowGroups(*(np.array([values]) for values in (40, 0, 0)))
    lengths = Lengths(row_groups, numbers(range(40)))
    options = Options(batch_size=2, shuffle=True, shuffle_window=10, limit=25)
    units = PackedUnits(lengths, options, Packing(20, long="truncate"), permute, PACKER)
    counts = [units.long_documents(0, epoch) for epoch in range(4)]
    windows = Windows(lengths, options, 3, permutation)
    taken = np.concatenate([windows.rows_in_order(window)[1] for window in range(4)])
    assert counts[3] == (taken > 20).sum()
    orders.clear()
    assert units.long_documents(0, 3) == counts[3]
    assert not orders


@pytest.mark.parametrize("length", [512, 4096])
def test_the_core_packs_many_documents_as_the_definition_does(length):
    lengths = numbers(np.random.default_rng(3).lognormal(4, 1, 3000)) + 1
    assert (lengths.max() > length) == (length == 512)  # long documents are cut
    edges = np.array([0, 1000, 3000])
    keys = np.array([5, 2**63 + 7], np.uint64)
    for both in ((None, None), (keys, keys + np.uint64(6))):
        arguments = WindowRows(lengths, edges, 10, 2500, *both), lengths, length
        plain, of_core = pack_windows(*arguments), core.pack_windows(*arguments)
        assert all(np.array_equal(a, b) for a, b in zip(plain, of_core, strict=True))


@pytest.mark.parametrize(
    ("edges", "keys"), [([0, 2], None), ([1, 3], None), ([], None), ([0, 4, 3], None), ([0, 3], 2)]
)
def test_the_core_refuses_windows_without_lengths_or_keys(edges, keys):
    keys = keys and np.arange(keys, dtype=np.uint64)
    lengths = numbers([1, 2, 3])
    windows = WindowRows(lengths, np.array(edges, np.int64), 0, 3, keys, None)
    with pytest.raises(ValueError, match="Expected"):
        core.pack_windows(windows, lengths, 5)


@pytest.mark.parametrize("rows", [[0, 3], [2**32 - 1]])
def test_the_core_refuses_documents_without_lengths(rows):
    lengths = numbers([1, 2, 3])
    with pytest.raises(ValueError, match="Expected rows that have lengths"):
        core.split_window(numbers(rows), lengths, lengths, 5, 0, 0, 3)
    with pytest.raises(ValueError, match="Expected a length"):
        core.split_window(numbers([0]), lengths, lengths, 0, 0, 0, 3)
    with pytest.raises(ValueError, match="Expected numbers of tokens"):
        core.split_window(numbers([0]), lengths, lengths, 5, -1, 0, 3)
