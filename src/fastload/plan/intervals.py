"""Half-open integer intervals as numpy arrays. Pure.

A set of intervals is int64 (n, 2), start and stop, non-empty each, disjoint, ascending.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Cuts", "Int64s", "cut", "edges_of", "near_equal", "select"]

Int64s = NDArray[np.int64]


class Cuts(NamedTuple):
    """Intervals cut at the edges of cells; int64 (m,) each, in the order of the intervals."""

    owner: Int64s  # index of the interval a part comes from
    cell: Int64s  # index of the cell it lies in
    start: Int64s
    stop: Int64s


def cut(edges: Int64s, starts: Int64s, stops: Int64s) -> Cuts:
    """Cuts the intervals [starts, stops) (n,) at `edges` (cells + 1,), strictly ascending.

    Every interval is non-empty and lies between the first and the last edge; intervals may
    overlap and come in any order.
    """
    first = np.searchsorted(edges, starts, side="right") - 1
    count = np.searchsorted(edges, stops, side="left") - first
    owner = np.repeat(np.arange(len(starts)), count)
    cell = np.repeat(first - (np.cumsum(count) - count), count)
    cell += np.arange(len(owner))
    # In place: there may be millions of parts.
    start, stop = edges[cell], edges[1:][cell]
    np.maximum(start, starts[owner], out=start)
    np.minimum(stop, stops[owner], out=stop)
    return Cuts(owner, cell, start, stop)


def edges_of(lengths: Int64s) -> Int64s:
    """The running sum of `lengths` (n,) from 0 on, int64 (n + 1,)."""
    edges = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=edges[1:])
    return edges


def near_equal(total: Int64s, parts: int) -> tuple[Int64s, Int64s]:
    """Starts and lengths of `parts` contiguous slices of `total` things, the first ones longer.

    `total` has any shape (...); the results have shape (..., parts).
    """
    base, more = np.divmod(total[..., np.newaxis], parts)
    part = np.arange(parts)
    return part * base + np.minimum(part, more), base + (part < more)


def select(intervals: Int64s, starts: Int64s, stops: Int64s) -> Int64s:
    """The elements number [starts, stops) of the sequence that `intervals` (n, 2) spell out.

    The ranges (m,) may be empty, are disjoint and ascending. Parts that touch come back as one.
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
