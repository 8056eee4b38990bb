"""The epoch's sequence of rows before windows are permuted, and where its row groups lie. Pure.

A position is an index into the sequence. A place is what windows and slices are cut by: an index
into the stored rows, where filters have left some of them out and nobody has counted how many,
else the same as a position. The k rows that stay of a row group of n places count as spread
evenly over these: the one number j lies at place ceil((j + 1) * n / k) - 1. So a cut at place x
of a row group comes before its row number floor(x * k / n), and what lies between two cuts is
known from the counts of the row groups there alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from fastload.plan.intervals import Int64s, cut, edges_of, near_equal
from fastload.plan.permutation import permutation, stream_key

if TYPE_CHECKING:
    from fastload.plan.options import Options

__all__ = ["ROW_GROUP_STREAM", "RowGroups", "Sequence", "Slices", "row_group_order", "slices_of"]

# The third part, after seed and epoch, in the name of a stream of random numbers.
ROW_GROUP_STREAM = 0
# A row group of which fewer than one row in so many stays costs what its stored rows cost.
_SPARSE = 4

Slices = Callable[[int], Int64s]
"""From a number of ranks to the positions where their slices of a whole epoch begin, and its end:
int64 (ranks + 1,)."""


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
    places: Int64s | None = None  # at least as many as `rows`; None = as many

    def __post_init__(self) -> None:
        given = (self.rows, self.file, self.index, self.stored, self.places)
        arrays = [array for array in given if array is not None]
        if len({len(array) for array in arrays}) > 1:
            raise ValueError(
                "Expected rows, file, index, stored and places of equal lengths, got "
                f"{', '.join(str(len(array)) for array in arrays)}"
            )
        if len(self.rows) and self.rows.min() < 0:
            raise ValueError(f"Expected row counts of at least 0, got {self.rows.min()}")

    @property
    def total_rows(self) -> int:
        """Rows of all row groups."""
        return int(self.rows.sum())

    @property
    def own_places(self) -> Int64s:
        """Places of each row group."""
        return self.rows if self.places is None else self.places


class Sequence:
    """Row groups one after the other: those of an epoch, or some neighbours of these.

    Args:
        row_groups: all, in canonical order.
        order: which of them, (n,).
        first_place: of the first one.
    """

    def __init__(self, row_groups: RowGroups, order: Int64s, first_place: int = 0) -> None:
        self._order = order
        self._row_groups = row_groups
        self._rows = row_groups.rows[order]
        # The same arrays where they hold the same: there may be millions of row groups.
        alike = row_groups.places is None
        self._places = self._rows if alike else row_groups.own_places[order]
        self._first_place = edges_of(self._places)[:-1]
        self._first_place += first_place
        filled = self._rows > 0
        if not filled.all():
            self._order, self._rows = order[filled], self._rows[filled]
            self._first_place = self._first_place[filled]
            self._places = self._rows if alike else self._places[filled]
        self._edges = edges_of(self._rows)

    @property
    def rows(self) -> int:
        """Rows of all of them."""
        return int(self._edges[-1])

    def positions_of(self, places: Int64s) -> Int64s:
        """How many rows lie before each of the places (n,)."""
        if not len(self._order):
            return np.zeros(len(places), np.int64)
        group = np.maximum(np.searchsorted(self._first_place, places, side="right") - 1, 0)
        into = np.clip(places - self._first_place[group], 0, self._places[group])
        return self._edges[group] + _scaled(into, self._rows[group], self._places[group])

    def places_of(self, positions: Int64s) -> Int64s:
        """The place of the row at each of the positions (n,)."""
        group = np.searchsorted(self._edges, positions, side="right") - 1
        number = positions - self._edges[group]
        into = -_scaled(-(number + 1), self._places[group], self._rows[group]) - 1
        return self._first_place[group] + into

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


def _scaled(values: Int64s, by: Int64s, of: Int64s) -> Int64s:
    """floor(values * by / of), exactly; (n,) each."""
    if len(values) and int(np.abs(values).max()) * int(by.max()) > np.iinfo(np.int64).max:
        by = by.astype(object)  # of Python's integers
    scaled: Int64s = (values * by // of).astype(np.int64)
    return scaled


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


def slices_of(row_groups: RowGroups, options: Options, epoch: int) -> Slices | None:
    """Where ranks' slices of a whole epoch begin; None if they are near-equal in rows.

    Those of near-equal numbers of places need no counts; with a limit these are needed anyway.
    """
    total = options.total_places
    if total is None or options.limit is not None:
        return None

    def edges(world: int) -> Int64s:
        order = row_group_order(len(row_groups.rows), options, epoch)
        starts, _ = near_equal(np.array(total), world)
        return Sequence(row_groups, order).positions_of(np.append(starts, total))

    return edges
