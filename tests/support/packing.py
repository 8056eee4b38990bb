"""The definition of packing in plain Python, with which the core is compared."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from fastload.plan.intervals import edges_of
from fastload.plan.permutation import permutation, stream_values
from fastload.plan.read_plan import PADDING
from fastload.plan.units.packed import PackedWindows, Packer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from fastload.plan.intervals import Int64s
    from fastload.plan.units.packed import Segments
    from fastload.plan.units.windows import WindowRows


def documents(
    rows: NDArray[np.uint32], kept: NDArray[np.uint32], lengths: NDArray[np.uint32]
) -> Segments:
    """Return the tokens to pack of each document, as one segment a document, without empty ones.

    Args:
        rows: rows of the documents in their window, in order, (n,).
        kept: tokens of each row of the window that are packed.
        lengths: tokens of each row of the window.
    """
    sizes = kept[rows]
    segments = np.empty((len(rows), 4), np.uint32)
    segments[:, 0], segments[:, 1], segments[:, 2], segments[:, 3] = rows, 0, sizes, lengths[rows]
    return segments if sizes.all() else segments[sizes > 0]


def best_fit(lengths: NDArray[np.uint32], capacity: int) -> NDArray[np.int32]:
    """Return the bin of each item, int32 (n,): best fit decreasing.

    Items are placed from the longest to the shortest, equal ones in their order. An item goes to
    the bin with the least room that suffices, of equal ones to the latest that came to this room;
    if no bin has room, to a new bin.

    Args:
        lengths: lengths of the items, each between 1 and `capacity`, (n,).
        capacity: length that a bin holds.
    """
    bins = np.empty(len(lengths), np.int32)
    by_room: dict[int, list[int]] = {}
    count = 0
    for item in np.argsort(-lengths.astype(np.int64), kind="stable").tolist():
        length = int(lengths[item])
        fitting = [room for room, those in by_room.items() if those and room >= length]
        if fitting:
            room = min(fitting)
            chosen = by_room[room].pop()
        else:
            room, chosen, count = capacity, count, count + 1
        bins[item] = chosen
        by_room.setdefault(room - length, []).append(chosen)
    return bins


def balanced_order(work: Sequence[int], key: int) -> list[int]:
    """Return the unit at each position of a random order in which every run has about equal work.

    The units, from the most work to the least and equal ones in their order, are dealt to the two
    halves of the positions. Of two neighbours, the one with more work goes to the first half if
    the next bit of the stream `key` is 0, else to the second half, and its neighbour to the other
    half; a last unit without a neighbour goes like one with more work. The units of the first half
    are dealt in the same way, then those of the second. Bits come from the lowest bit of the
    stream's first number on.

    Args:
        work: the work of each unit.
        key: key of the stream.
    """
    bits = (
        int(stream_values(key, 1, first=number)[0]) >> bit & 1
        for number in itertools.count()
        for bit in range(64)
    )

    def dealt(units: list[int]) -> list[int]:
        if len(units) < 2:
            return units
        halves: tuple[list[int], list[int]] = ([], [])
        for first in range(0, len(units), 2):
            bit = next(bits)
            for unit, half in zip(units[first : first + 2], (bit, 1 - bit), strict=False):
                halves[half].append(unit)
        return dealt(halves[0]) + dealt(halves[1])

    return dealt(sorted(range(len(work)), key=lambda unit: -work[unit]))


def pack_windows(rows: WindowRows, kept: NDArray[np.uint32], length: int) -> PackedWindows:
    """Pack the documents of windows; arguments and result as for `PackWindows`."""
    lengths, edges, first, stop, keys, unit_keys = rows
    segments, row_edges, counts = [np.zeros((0, 4), np.uint32)], [np.zeros(0, np.int64)], []
    for window, (start, end) in enumerate(itertools.pairwise(edges.tolist())):
        count = end - start
        order = np.arange(count) if keys is None else permutation(count, int(keys[window]))
        packed_rows = order[max(0, first - start) : max(0, stop - start)].astype(np.uint32)
        key = None if unit_keys is None else int(unit_keys[window])
        documents_of_window = packed_rows, kept[start:end], lengths[start:end]
        packed, edges_of_rows = pack_window(*documents_of_window, length, key)
        segments.append(packed)
        row_edges.append(np.diff(edges_of_rows))
        counts.append(len(edges_of_rows) - 1)
    return PackedWindows(
        np.concatenate(segments),
        edges_of(np.concatenate(row_edges)),
        edges_of(np.array(counts, np.int64)),
    )


def pack_window(
    rows: NDArray[np.uint32],
    kept: NDArray[np.uint32],
    lengths: NDArray[np.uint32],
    length: int,
    key: int | None,
) -> tuple[Segments, Int64s]:
    """Pack the documents of a window by best fit; a longer document is cut every `length` first.

    Args:
        rows: as for `documents`.
        kept: as for `documents`.
        lengths: as for `documents`.
        length: tokens of a packed row.
        key: key of the balanced order of the packed rows; None = packed rows come in the order of
            their first documents.

    Returns:
        The segments of all packed rows, with padding, and the edges of the packed rows among the
        segments, (packed rows + 1,).
    """
    items = _cut_long(documents(rows, kept, lengths), length)
    bins = best_fit(items[:, 2], length)
    by_bin: dict[int, list[int]] = {}
    for item, chosen in enumerate(bins.tolist()):
        by_bin.setdefault(chosen, []).append(item)
    order = [*by_bin]
    if key is not None:
        squares = np.zeros(len(by_bin), np.uint64)
        np.add.at(squares, bins, items[:, 2].astype(np.uint64) ** 2)
        order = balanced_order(squares.tolist(), key)
    packed = [np.zeros((0, 4), np.uint32)]
    for chosen in order:
        row = items[by_bin[chosen]]
        room = length - int(row[:, 2].sum())
        padding = np.array([[PADDING, 0, room, 0]] if room else np.zeros((0, 4)), np.uint32)
        packed.append(np.concatenate([row, padding]))
    return np.concatenate(packed), edges_of(np.array([len(row) for row in packed[1:]], np.int64))


def split_window(
    rows: NDArray[np.uint32],
    kept: NDArray[np.uint32],
    lengths: NDArray[np.uint32],
    length: int,
    first: int,
    start: int,
    stop: int,
) -> Segments:
    """Cut the stream of a window's documents; arguments and result as for `SplitWindow`."""
    docs = documents(rows, kept, lengths)
    edges = edges_of(docs[:, 2].astype(np.int64))
    row_edges = np.arange(-(-(first + start) // length) * length, first + stop, length) - first
    cuts = np.concatenate([[start], edges[(edges > start) & (edges < stop)], row_edges])
    cuts.sort(kind="stable")  # merges ascending parts
    cuts = cuts[np.diff(cuts, prepend=-1) > 0]
    owner = np.searchsorted(edges, cuts, side="right") - 1
    segments = docs[owner].copy()
    segments[:, 1] = cuts - edges[owner]
    segments[:, 2] = np.diff(np.append(cuts, stop))
    return segments


def _cut_long(docs: Segments, length: int) -> Segments:
    """Cut documents longer than `length` every `length` tokens."""
    parts = -(-docs[:, 2].astype(np.int64) // length)
    if not len(parts) or parts.max() <= 1:
        return docs
    items = np.repeat(docs, parts, axis=0)
    number = np.arange(len(items)) - np.repeat(np.cumsum(parts) - parts, parts)
    items[:, 1] = number * length
    items[:, 2] = np.minimum(np.repeat(docs[:, 2], parts) - items[:, 1], length)
    return items


PACKER = Packer(pack_windows, split_window)
