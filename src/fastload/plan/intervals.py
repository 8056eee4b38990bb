"""Half-open integer intervals as numpy arrays. Pure.

A set of intervals is an int64 array (n, 2) of starts and stops. Its intervals are non-empty,
disjoint and ascending.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Int64s", "cut", "edges_of", "near_equal", "select"]

Int64s = NDArray[np.int64]


class Cuts(NamedTuple):
    """Parts of intervals that were cut at the edges of cells, in the order of the intervals.

    Attributes:
        owner: index of the interval that each part comes from, int64 (m,).
        cell: index of the cell that each part lies in, int64 (m,).
        start: start of each part, int64 (m,).
        stop: stop of each part, int64 (m,).
    """

    owner: Int64s
    cell: Int64s
    start: Int64s
    stop: Int64s


def cut(edges: Int64s, starts: Int64s, stops: Int64s) -> Cuts:
    """Cut the intervals [starts, stops) at the edges of cells.

    Args:
        edges: edges of the cells, (cells + 1,), strictly ascending.
        starts: starts of the intervals, (n,). Intervals may overlap and come in any order.
        stops: stops of the intervals, (n,). Every interval is non-empty and lies between the
            first and the last edge.
    """
    first = np.searchsorted(edges, starts, side="right") - 1
    count = np.searchsorted(edges, stops, side="left") - first
    owner = np.repeat(np.arange(len(starts)), count)
    cell = np.repeat(first - (np.cumsum(count) - count), count)
    cell += np.arange(len(owner))
    # These calls work in place, because there may be millions of parts.
    start, stop = edges[cell], edges[1:][cell]
    np.maximum(start, starts[owner], out=start)
    np.minimum(stop, stops[owner], out=stop)
    return Cuts(owner, cell, start, stop)


def edges_of(lengths: Int64s) -> Int64s:
    """Return the running sum of `lengths` (n,), beginning with 0, as int64 (n + 1,)."""
    edges = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=edges[1:])
    return edges


def near_equal(total: Int64s, parts: int) -> tuple[Int64s, Int64s]:
    """Split `total` elements into `parts` contiguous slices; the first slices are one longer.

    Args:
        total: numbers of elements, of any shape (...).
        parts: number of slices.

    Returns:
        The starts and the lengths of the slices, each of shape (..., parts).
    """
    base, more = np.divmod(total[..., np.newaxis], parts)
    part = np.arange(parts)
    return part * base + np.minimum(part, more), base + (part < more)


def select(intervals: Int64s, starts: Int64s, stops: Int64s) -> Int64s:
    """Select ranges of elements of the sequence that `intervals` spell out.

    Args:
        intervals: a set of intervals, (n, 2).
        starts: index in the sequence at which each range starts, (m,). Ranges are disjoint and
            ascending, and may be empty.
        stops: index in the sequence at which each range stops, (m,).

    Returns:
        The selected elements as a set of intervals; intervals that touch are merged.
    """
    filled = starts < stops
    edges = edges_of(intervals[:, 1] - intervals[:, 0])
    cuts = cut(edges, starts[filled], stops[filled])
    shift = intervals[cuts.cell, 0] - edges[cuts.cell]
    parts = np.stack([cuts.start + shift, cuts.stop + shift], axis=1)
    touching = parts[1:, 0] == parts[:-1, 1]
    begins = np.concatenate([[True], ~touching])[: len(parts)]
    ends = np.concatenate([~touching, [True]])[: len(parts)]
    return np.stack([parts[begins, 0], parts[ends, 1]], axis=1)
