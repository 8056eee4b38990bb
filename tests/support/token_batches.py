"""The definition of batches by tokens in NumPy, with which the core is compared."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from fastload.plan.permutation import permutation
from fastload.plan.units.by_tokens import BatchedWindows
from support.packing import balanced_order

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fastload.plan.intervals import Int64s
    from fastload.plan.units.windows import WindowRows


def batch_windows(
    rows: WindowRows, tokens: int, padded: bool, max_rows: int | None
) -> BatchedWindows:
    """Form batches of the rows of windows; arguments and result as for `BatchWindows`."""
    lengths, edges, first, stop, keys, unit_keys = rows
    orders, sizes = [np.zeros(0, np.uint32)], [np.zeros(0, np.int64)]
    for window, (start, end) in enumerate(itertools.pairwise(edges.tolist())):
        count = end - start
        order = np.arange(count) if keys is None else permutation(count, int(keys[window]))
        own = order[max(0, first - start) : max(0, stop - start)]
        of_rows, most = lengths[start:end][own], max_rows or count
        if not padded:
            sizes.append(_sizes(of_rows, tokens, most))
            continue
        key = None if unit_keys is None else int(unit_keys[window])
        batched, of_window = _padded(of_rows, tokens, most, key)
        # Rows outside the epoch keep their positions before and after the others.
        rest = np.setdiff1d(np.arange(count), own)
        before = min(len(rest), max(0, first - start))
        orders += [rest[:before], own[batched], rest[before:]]
        sizes.append(of_window)
    return BatchedWindows(np.concatenate(orders).astype(np.uint32), np.concatenate(sizes))


def _padded(
    lengths: NDArray[np.uint32], tokens: int, most: int, key: int | None
) -> tuple[Int64s, Int64s]:
    """Return the places of rows in the order of padded batches, and the rows of each batch."""
    longest_first = np.argsort(-lengths.astype(np.int64), kind="stable")
    sizes = _padded_sizes(lengths[longest_first], tokens, most)
    batch_of = np.repeat(np.arange(len(sizes)), sizes)
    if key is None:
        first = np.full(len(sizes), len(lengths))
        np.minimum.at(first, batch_of, longest_first)
        order = np.argsort(first)
    else:
        longest = lengths[longest_first[np.cumsum(sizes) - sizes]].tolist()
        work = [size * length**2 for size, length in zip(sizes.tolist(), longest, strict=True)]
        order = np.array(balanced_order(work, key), np.int64)
    rank = np.empty(len(sizes), np.int64)
    rank[order] = np.arange(len(sizes))
    place = np.lexsort((longest_first, rank[batch_of]))
    return longest_first[place], sizes[order]


def _sizes(lengths: NDArray[np.uint32], tokens: int, most: int) -> Int64s:
    """Cut rows, in order, into batches of at most `tokens` tokens."""
    ends = np.cumsum(lengths, dtype=np.int64)
    sizes, at, before = [], 0, 0
    while at < len(ends):
        stop = int(np.searchsorted(ends, before + tokens, side="right"))
        stop = min(max(stop, at + 1), at + most)
        sizes.append(stop - at)
        at, before = stop, int(ends[stop - 1])
    return np.array(sizes, np.int64)


def _padded_sizes(lengths: NDArray[np.uint32], tokens: int, most: int) -> Int64s:
    """Cut rows, the longest first, into batches of at most `tokens` tokens with padding."""
    sizes, at = [], 0
    while at < len(lengths):
        longest = int(lengths[at])
        fit = tokens // longest if longest else most
        size = min(max(1, fit), most, len(lengths) - at)
        sizes.append(size)
        at += size
    return np.array(sizes, np.int64)
