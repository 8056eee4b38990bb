"""The packing of documents into rows of equal size. Pure.

A document is a row whose list of tokens has some length. A packed row holds segments: runs of the
tokens of documents, one after another, then padding. Within a shuffle window, documents come in
the window's order.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from fastload.plan.intervals import edges_of
from fastload.plan.permutation import permutation
from fastload.plan.read_plan import PADDING

if TYPE_CHECKING:
    from fastload.plan.intervals import Int64s

__all__ = [
    "PackWindows",
    "PackedWindows",
    "Packing",
    "Segments",
    "best_fit",
    "documents",
    "pack_split",
    "pack_window",
    "pack_windows",
]

Segments = NDArray[np.uint32]
"""Segments, (n, 4): row in the window, first token, number of tokens, tokens of the document."""


class PackedWindows(NamedTuple):
    """The packed rows of successive windows.

    Attributes:
        segments: the segments of all packed rows, with padding.
        edges: edges of the packed rows among the segments, (packed rows + 1,).
        window_rows: edges of the windows among the packed rows, (windows + 1,).
    """

    segments: Segments
    edges: Int64s
    window_rows: Int64s


class PackWindows(Protocol):
    """A function that packs the documents of windows, as `pack_windows` does."""

    def __call__(
        self,
        kept: NDArray[np.uint32],
        lengths: NDArray[np.uint32],
        edges: Int64s,
        first: int,
        stop: int,
        length: int,
        keys: NDArray[np.uint64] | None,
        unit_keys: NDArray[np.uint64] | None,
    ) -> tuple[Segments, Int64s, Int64s]:
        """Return the attributes of PackedWindows."""


@dataclass(frozen=True, slots=True)
class Packing:
    """The way in which documents are packed.

    Attributes:
        length: tokens of a packed row.
        fit: "best" (whole documents, best fit) or "split" (one stream, cut every `length`).
        long: what becomes of a document longer than `length`.
    """

    length: int
    fit: Literal["best", "split"] = "best"
    long: Literal["split", "truncate", "drop", "raise"] = "split"

    def kept(self, lengths: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """Return how many tokens of each document are packed, (n,)."""
        if self.long == "truncate":
            return np.minimum(lengths, np.uint32(self.length))
        if self.long == "drop":
            return np.where(lengths > self.length, np.uint32(0), lengths)
        return lengths


def best_fit(lengths: NDArray[np.uint32], capacity: int) -> NDArray[np.int32]:
    """Return the bin of each item, int32 (n,): best fit decreasing.

    Items are placed from the longest to the shortest, equal ones in their order. An item goes to
    the bin with the least room that suffices, of equal ones to the latest that came to this room;
    if no bin has room, to a new bin. The core's `best_fit` is compared with this function.

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


def pack_windows(
    kept: NDArray[np.uint32],
    lengths: NDArray[np.uint32],
    edges: Int64s,
    first: int,
    stop: int,
    length: int,
    keys: NDArray[np.uint64] | None,
    unit_keys: NDArray[np.uint64] | None,
) -> PackedWindows:
    """Pack the documents of successive windows by best fit, each window by itself.

    The core's `pack_windows` is compared with this function.

    Args:
        kept: tokens of each row of the windows that are packed, (n,).
        lengths: tokens of each row of the windows, (n,).
        edges: edges of the windows among the rows, (windows + 1,), from 0 to n.
        first: rows of a window's order before this place are left out, counted from the first
            window.
        stop: rows of a window's order from this place on are left out.
        length: tokens of a packed row.
        keys: key of the permutation of the rows of each window; None = rows come in order.
        unit_keys: for each window, as `key` of `pack_window`.
    """
    segments, row_edges, counts = [np.zeros((0, 4), np.uint32)], [np.zeros(0, np.int64)], []
    for window, (start, end) in enumerate(itertools.pairwise(edges.tolist())):
        count = end - start
        order = np.arange(count) if keys is None else permutation(count, int(keys[window]))
        rows = order[max(0, first - start) : max(0, stop - start)].astype(np.uint32)
        key = None if unit_keys is None else int(unit_keys[window])
        packed, edges_of_rows = pack_window(rows, kept[start:end], lengths[start:end], length, key)
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
        key: key of the permutation of the packed rows; None = packed rows come in the order of
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
    order = [*by_bin] if key is None else permutation(len(by_bin), key).tolist()
    packed = [np.zeros((0, 4), np.uint32)]
    for chosen in order:
        row = items[by_bin[chosen]]
        room = length - int(row[:, 2].sum())
        padding = np.array([[PADDING, 0, room, 0]] if room else np.zeros((0, 4)), np.uint32)
        packed.append(np.concatenate([row, padding]))
    return np.concatenate(packed), edges_of(np.array([len(row) for row in packed[1:]], np.int64))


def pack_split(docs: Segments, length: int, first: int, start: int, stop: int) -> Segments:
    """Return the segments of a range of the stream that a window's documents make.

    Args:
        docs: the documents of the window, as segments.
        length: tokens of a packed row.
        first: number of the window's first token in the stream of the epoch.
        start: the first token of the range, counted in the window.
        stop: the token after the last one of the range.
    """
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
