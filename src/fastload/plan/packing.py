"""The packing of documents into rows of equal size. Pure.

A document is a row whose list of tokens has some length. A packed row holds segments: runs of the
tokens of documents, one after another, then padding. Within a shuffle window, documents come in
the window's order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from fastload.plan.intervals import edges_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastload.plan.intervals import Int64s

__all__ = [
    "PADDING",
    "BestFit",
    "Packing",
    "Segments",
    "best_fit",
    "documents",
    "pack_best",
    "pack_split",
    "packed_rows",
]

Segments = NDArray[np.uint32]
"""Segments, (n, 4): row in the window, first token, number of tokens, tokens of the document."""

PADDING = 2**32 - 1
"""The row of a segment that is padding."""


class BestFit(Protocol):
    """A function that puts items into bins, as `best_fit` does."""

    def __call__(self, lengths: NDArray[np.uint32], capacity: int) -> NDArray[np.int32]:
        """Return the bin of each item."""


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


def documents(rows: NDArray[np.uint32], lengths: NDArray[np.uint32], packing: Packing) -> Segments:
    """Return the tokens to pack of each document, as one segment a document, without empty ones.

    Args:
        rows: rows of the documents in their window, in order, (n,).
        lengths: tokens of each document, (n,).
        packing: the way of packing.
    """
    kept = packing.kept(lengths)
    segments = np.empty((len(rows), 4), np.uint32)
    segments[:, 0], segments[:, 1], segments[:, 2], segments[:, 3] = rows, 0, kept, lengths
    return segments[kept > 0]


def pack_best(
    docs: Segments,
    length: int,
    fit: BestFit,
    permuted: Callable[[int], NDArray[np.uint32] | None],
) -> tuple[Segments, Int64s]:
    """Pack the documents of a window by best fit; a longer document is cut every `length` first.

    Args:
        docs: the documents, as segments.
        length: tokens of a packed row.
        fit: the function that puts items into bins.
        permuted: returns the order in which a number of packed rows come; None = in the order of
            their first documents.

    Returns:
        The segments of all packed rows, with padding, and the edges of the packed rows among the
        segments, (packed rows + 1,).
    """
    items = _cut_long(docs, length)
    bins = fit(np.ascontiguousarray(items[:, 2]), length)
    count = int(bins.max()) + 1 if len(bins) else 0
    order = permuted(count)
    if order is None:
        # Numbers bins by their first items.
        first = np.full(count, len(bins))
        np.minimum.at(first, bins, np.arange(len(bins)))
        order = np.argsort(first).astype(np.uint32)
    rank = np.empty(count, np.int64)
    rank[order] = np.arange(count)
    row_of = rank[bins]
    by_row = np.argsort(row_of, kind="stable")
    filled = np.bincount(row_of, weights=items[:, 2], minlength=count).astype(np.int64)
    short = np.flatnonzero(filled < length)
    ends = np.cumsum(np.bincount(row_of, minlength=count))
    padding = np.zeros((len(short), 4), np.uint32)
    padding[:, 0], padding[:, 2] = PADDING, length - filled[short]
    segments = np.insert(items[by_row], ends[short], padding, axis=0)
    counts = np.bincount(row_of, minlength=count)
    counts[short] += 1
    return segments, edges_of(counts)


def packed_rows(docs: Segments, length: int, fit: BestFit) -> int:
    """Return the number of packed rows that `pack_best` makes of the documents of a window."""
    items = _cut_long(docs, length)
    if not len(items):
        return 0
    return int(fit(np.ascontiguousarray(items[:, 2]), length).max()) + 1


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
    cuts = np.union1d(edges[(edges > start) & (edges < stop)], row_edges)
    cuts = np.union1d(cuts, [start])
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
