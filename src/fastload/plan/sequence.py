"""The epoch's sequence of rows before windows are permuted, and the windows. Pure.

The sequence is row groups one by one. A position is an index into the sequence.

A shuffled epoch of N rows has N // `shuffle_window` windows of nearly equal sizes, one after the
other. The number of a window is part of the name of its permutation, so windows don't depend on
ranks.

With canonical slices, windows begin and end where slices do, if the epoch has all rows and a slice
has as many rows as a window. No two slices then share a window, which each would have to read. The
same holds for the ranks of the world that chose the windows, where the user chose none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fastload.plan.intervals import Int64s, cut, edges_of
from fastload.plan.options import Window
from fastload.plan.permutation import permutation, stream_key

if TYPE_CHECKING:
    from fastload.plan.options import Options
    from fastload.plan.permutation import Permute

__all__ = [
    "WINDOW_STREAM",
    "EpochSequence",
    "RowGroups",
    "ShuffleWindows",
    "choose_window",
    "rows_of_share",
    "windows_end_with_slices",
]

# Third part, after seed and epoch, of the name of the random stream that orders row groups.
ROW_GROUP_STREAM = 0
# Third part, after seed and epoch, of the names of the random streams of windows.
WINDOW_STREAM = 1
# Edges of windows are computed as uint64 products of two numbers up to the window count.
_MOST_WINDOWS = 2**32 - 1
# A row group in which fewer than one row in _SPARSE stays costs as much as all its stored rows.
_SPARSE = 4
# Shares that begin or end within a window touch up to two windows more than they fill: of windows
# of a quarter of a share, half as many rows again.
_PARTS = 4
# With weights, the rows of an epoch differ by less than this part of them.
_VARYING = 64


@dataclass(frozen=True, slots=True, eq=False)
class RowGroups:
    """All row groups of all files in canonical order.

    Args:
        rows: rows of each row group that stay, int64 (row groups,).
        file: index of each row group's file, int64 (row groups,).
        index: index of each row group in its file, int64 (row groups,).
        stored: rows of each row group in the file, int64 (row groups,), if filters leave
            fewer rows in `rows`; else None.

    Raises:
        ValueError: the lengths differ, or a row count is negative.
    """

    rows: Int64s
    file: Int64s
    index: Int64s
    stored: Int64s | None = None

    def __post_init__(self) -> None:
        given = (self.rows, self.file, self.index, self.stored)
        arrays = [array for array in given if array is not None]
        if len({len(array) for array in arrays}) > 1:
            raise ValueError(
                "Expected rows, file, index and stored of equal lengths, got "
                f"{', '.join(str(len(array)) for array in arrays)}"
            )
        if len(self.rows) and self.rows.min() < 0:
            raise ValueError(f"Expected row counts of at least 0, got {self.rows.min()}")

    @property
    def total_rows(self) -> int:
        """Number of rows of all row groups."""
        return int(self.rows.sum())


class EpochSequence:
    """The row groups of an epoch, one after the other.

    Args:
        row_groups: all row groups, in canonical order.
        order: index of each row group in the order of the epoch, (row groups,); None = canonical
            order.
    """

    def __init__(self, row_groups: RowGroups, order: Int64s | None) -> None:
        self._row_groups = row_groups
        if order is None:  # `rows` is no copy
            order, rows = np.arange(len(row_groups.rows)), row_groups.rows
        else:
            rows = row_groups.rows[order]
        if not rows.all():
            filled = np.flatnonzero(rows)
            order, rows = order[filled], rows[filled]
        self._order, self._rows = order, rows
        self._edges = edges_of(self._rows)
        # The latest result of `pieces`, with the ranges that were cut.
        self._latest: tuple[Int64s, Int64s, tuple[Int64s, Int64s]] | None = None

    @classmethod
    def of(
        cls, row_groups: RowGroups, options: Options, epoch: int, permute: Permute = permutation
    ) -> EpochSequence:
        """Return the sequence of an epoch.

        Args:
            row_groups: all row groups, in canonical order.
            options: the dataset's parameters.
            epoch: number of the epoch.
            permute: the permutation of n row groups by a key, as `permutation`.
        """
        if not options.shuffle:
            return cls(row_groups, None)
        order = permute(len(row_groups.rows), stream_key(options.seed, epoch, ROW_GROUP_STREAM))
        return cls(row_groups, order.astype(np.int64, copy=False))

    @property
    def rows(self) -> int:
        """Number of rows of the epoch."""
        return int(self._edges[-1])

    def sparse_edges(self, stored_rows: int) -> Int64s:
        """Return the positions at which the sequence is cut so that no stripe reads too much.

        In row groups of which few rows stay, the sequence is cut at the beginning of a row group
        after every `stored_rows` stored rows. Without such row groups, only the two ends of the
        sequence are returned.
        """
        ends = self._edges[[0, -1]]
        if self._row_groups.stored is None:
            return ends
        stored = self._row_groups.stored[self._order]
        sparse = np.where(self._rows * _SPARSE < stored, stored, 0)
        before = np.cumsum(sparse) - sparse
        return np.union1d(ends, self._edges[np.flatnonzero(np.diff(before // stored_rows)) + 1])

    def pieces(self, starts: Int64s, stops: Int64s) -> tuple[Int64s, Int64s]:
        """Cut the ranges [starts, stops), each (n,), at row groups.

        The result of the latest call is kept, for a call with the same two arrays.

        Returns:
            The pieces, (P, 4) as in a ReadPlan, and the number of pieces of each range, (n,).
        """
        latest = self._latest
        if latest is not None and latest[0] is starts and latest[1] is stops:
            return latest[2]
        cuts = cut(self._edges, starts, stops)
        pieces = np.empty((len(cuts.cell), 4), np.int64)
        pieces[:, 2:] = self._edges[cuts.cell, np.newaxis]
        np.subtract(cuts.start, pieces[:, 2], out=pieces[:, 2])
        np.subtract(cuts.stop, pieces[:, 3], out=pieces[:, 3])
        group = self._order[cuts.cell]
        pieces[:, 0] = self._row_groups.file[group]
        pieces[:, 1] = self._row_groups.index[group]
        result = pieces, np.bincount(cuts.owner, minlength=len(starts))
        self._latest = starts, stops, result
        return result

    def ranges(self, start: int, stop: int) -> tuple[Int64s, Int64s, Int64s]:
        """Return the row groups of the positions [start, stop), and the rows in each, (n,).

        Returns:
            The index of each row group in canonical order, its first row and the row after its
            last one.
        """
        low = int(np.searchsorted(self._edges, start, side="right")) - 1
        high = int(np.searchsorted(self._edges, stop, side="left")) if start < stop else low
        edges = self._edges[low : high + 1]
        first = np.maximum(start - edges[:-1], 0)
        return self._order[low:high], first, np.minimum(edges[1:], stop) - edges[:-1]


def windows_end_with_slices(options: Options) -> bool:
    """Return whether windows of rows begin and end where canonical slices do, if slices are long.

    Args:
        options: the parameters of the dataset.
    """
    whole = options.limit is None and not options.offset
    formed = options.pack is not None or options.budget is not None
    return options.canonical_ranks is not None and options.shuffle and whole and not formed


def rows_of_share(options: Options, rows: int, world: int) -> int:
    """Return the rows of a rank's share of an epoch, or of a canonical slice; at least 1.

    Args:
        options: the parameters of the dataset.
        rows: rows of the sequence.
        world: number of ranks.
    """
    return max(1, options.limited(rows) // (options.canonical_ranks or world))


def choose_window(options: Options, row_groups: RowGroups, world: int) -> Window:
    """Return the shuffle windows of a dataset for which the user gives none.

    A window has at most the rows of a rank's share, which is all that the rank then decodes, but
    not fewer rows than an average row group. With canonical slices, the share is that of a slice,
    and `world` does not count.

    Args:
        options: the parameters of the dataset; `shuffle_window` is the most rows of a window.
        row_groups: all row groups.
        world: number of ranks.
    """
    slices, rows = options.canonical_ranks or 1, row_groups.total_rows
    if options.canonical_ranks is None and world == 1:
        return Window(options.shuffle_window)
    share, most = rows_of_share(options, rows, world), max(1, options.shuffle_window // slices)
    least = min(most, rows // max(1, int(np.count_nonzero(row_groups.rows))))
    whole = options.limit is None and not options.offset
    formed = options.pack is not None or options.budget is not None
    if not options.shuffle or not whole or formed:  # windows can't end with shares
        return Window(slices * max(1, least, min(most, share // _PARTS)))
    if options.canonical_ranks is not None or share < least:
        return Window(slices * max(1, least, min(most, share)))
    if options.weights is not None:
        share -= share // _VARYING
    return Window(max(1, share // -(-share // most)), world)


@dataclass(frozen=True, slots=True)
class ShuffleWindows:
    """The shuffle windows of an epoch.

    Args:
        rows: rows of the epoch's sequence.
        window: the least rows of a window, if the epoch has as many.
        slices: the slices with which windows begin and end; 1 = none.

    Raises:
        ValueError: the epoch would have more than 2**32 - 1 windows.
    """

    rows: int
    window: int
    slices: int = 1

    def __post_init__(self) -> None:
        if self.count > _MOST_WINDOWS:
            raise ValueError(
                f"Expected at most 2**32 - 1 shuffle windows, got {self.count}: "
                f"shuffle_window is {self.window} rows of {self.rows}"
            )

    @classmethod
    def of(cls, rows: int, options: Options) -> ShuffleWindows:
        """Return the windows of an epoch of rows.

        Args:
            rows: rows of the epoch's sequence.
            options: the parameters; `shuffle_window` counts rows of one slice.
        """
        if options.window_slices > 1:
            return cls(rows, options.shuffle_window, min(options.window_slices, max(1, rows)))
        slices = options.canonical_ranks or 1
        if not windows_end_with_slices(options) or rows // slices < options.shuffle_window:
            slices = 1
        return cls(rows, options.shuffle_window, slices)

    @property
    def count(self) -> int:
        """Number of the windows."""
        return self.slices * self._of_slice

    @property
    def _of_slice(self) -> int:
        """Number of the windows of each slice."""
        return max(1, self.rows // self.slices // self.window)

    def edges(self, number: Int64s) -> Int64s:
        """Return the positions at which windows begin, (n,).

        Args:
            number: numbers of the windows, (n,). The number after the last window gives the end of
                the last window.
        """
        of_slice, place = np.divmod(number, self._of_slice)
        # Windows of a slice have `whole` rows and perhaps one more. The first slices may be longer.
        base, more = divmod(self.rows, self.slices)
        whole, rest = divmod(base, self._of_slice)
        rests = np.where(of_slice < more, rest + 1, rest).astype(np.uint64)
        fraction = place.astype(np.uint64) * rests // np.uint64(self._of_slice)
        start = of_slice * base + np.minimum(of_slice, more)
        edges: Int64s = start + place * whole + fraction.astype(np.int64)
        return edges

    def all_edges(self) -> Int64s:
        """Return the positions at which all windows begin, and the end, (windows + 1,)."""
        return self.edges(np.arange(self.count + 1))

    def number_at(self, position: int) -> int:
        """Return the number of the window in which a position lies."""
        base, more = divmod(self.rows, self.slices)
        long = more * (base + 1)  # rows of the slices that are one row longer
        if position < long:
            of_slice, into = divmod(position, base + 1)
            rows = base + 1
        else:
            of_slice, into = divmod(position - long, base)
            of_slice, rows = of_slice + more, base
        # Window i of a slice begins at i * rows // count.
        return of_slice * self._of_slice + ((into + 1) * self._of_slice - 1) // rows
