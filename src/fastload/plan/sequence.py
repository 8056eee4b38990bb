"""The epoch's sequence of rows before windows are permuted, and where its row groups lie. Pure.

A position is an index into the sequence.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from fastload.plan.intervals import Int64s, cut, edges_of
from fastload.plan.permutation import permutation, stream_key

if TYPE_CHECKING:
    from fastload.plan.options import Options

__all__ = ["ROW_GROUP_STREAM", "EpochSequence", "RowGroups", "row_group_order"]

# The third part, after seed and epoch, in the name of a stream of random numbers.
ROW_GROUP_STREAM = 0
# A row group of which fewer than one row in so many stays costs what its stored rows cost.
_SPARSE = 4


@dataclass(frozen=True, slots=True, eq=False)
class RowGroups:
    """All row groups of all files in canonical order; int64 (row groups,) each.

    Raises:
        ValueError: the lengths differ, or a row count is negative.
    """

    rows: Int64s
    file: Int64s  # index of the file
    index: Int64s  # index of the row group in its file
    stored: Int64s | None = None  # rows in the file, where filters leave fewer in `rows`

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
        """Rows of all row groups."""
        return int(self.rows.sum())


class EpochSequence:
    """The row groups of an epoch, one after the other.

    Args:
        row_groups: all, in canonical order.
        order: their order in the epoch, (row groups,).
    """

    def __init__(self, row_groups: RowGroups, order: Int64s) -> None:
        self._order = order
        self._row_groups = row_groups
        self._rows = row_groups.rows[order]
        filled = self._rows > 0
        if not filled.all():
            self._order, self._rows = order[filled], self._rows[filled]
        self._edges = edges_of(self._rows)

    @property
    def rows(self) -> int:
        """Rows of all of them."""
        return int(self._edges[-1])

    def sparse_edges(self, stored_rows: int) -> Int64s:
        """The sequence cut where row groups begin, after so many stored rows of which few stay."""
        ends = self._edges[[0, -1]]
        if self._row_groups.stored is None:
            return ends
        stored = self._row_groups.stored[self._order]
        sparse = np.where(self._rows * _SPARSE < stored, stored, 0)
        before = np.cumsum(sparse) - sparse
        return np.union1d(ends, self._edges[np.flatnonzero(np.diff(before // stored_rows)) + 1])

    def pieces(self, starts: Int64s, stops: Int64s) -> tuple[Int64s, Int64s]:
        """Pieces (P, 4) of the ranges [starts, stops) (n,), and how many each range has (n,)."""
        cuts = cut(self._edges, starts, stops)
        pieces = np.empty((len(cuts.cell), 4), np.int64)
        pieces[:, 2:] = self._edges[cuts.cell, np.newaxis]
        np.subtract(cuts.start, pieces[:, 2], out=pieces[:, 2])
        np.subtract(cuts.stop, pieces[:, 3], out=pieces[:, 3])
        group = self._order[cuts.cell]
        pieces[:, 0] = self._row_groups.file[group]
        pieces[:, 1] = self._row_groups.index[group]
        return pieces, np.bincount(cuts.owner, minlength=len(starts))


def row_group_order(count: int, options: Options, epoch: int) -> Int64s:
    """The order of so many row groups in an epoch: int64 (count,)."""
    if not options.shuffle:
        return np.arange(count)
    return _permuted(count, stream_key(options.seed, epoch, ROW_GROUP_STREAM))


@lru_cache(maxsize=2)
def _permuted(count: int, key: int) -> Int64s:
    order = permutation(count, key)
    order.setflags(write=False)
    return order
