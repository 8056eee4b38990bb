"""The epoch's sequence of rows before windows are permuted: row groups one by one. Pure.

A position is an index into the sequence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fastload.plan.intervals import Int64s, cut, edges_of
from fastload.plan.permutation import permutation, stream_key

if TYPE_CHECKING:
    from fastload.plan.options import Options
    from fastload.plan.permutation import Permute

__all__ = ["ROW_GROUP_STREAM", "EpochSequence", "RowGroups"]

# Third part, after seed and epoch, of the name of the random stream that orders row groups.
ROW_GROUP_STREAM = 0
# A row group in which fewer than one row in _SPARSE stays costs as much as all its stored rows.
_SPARSE = 4


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
        order: index of each row group in the order of the epoch, (row groups,).
    """

    def __init__(self, row_groups: RowGroups, order: Int64s) -> None:
        self._order = order
        self._row_groups = row_groups
        self._rows = row_groups.rows[order]
        filled = self._rows > 0
        if not filled.all():
            self._order, self._rows = order[filled], self._rows[filled]
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
        count = len(row_groups.rows)
        if not options.shuffle:
            return cls(row_groups, np.arange(count))
        order = permute(count, stream_key(options.seed, epoch, ROW_GROUP_STREAM))
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
