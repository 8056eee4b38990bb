"""The plan of a rank's slice of an epoch step by step, so that rows are counted when needed. Pure.

A step is a shuffle window, or several small ones; without shuffle some row groups. Its plan
needs the counts of its own row groups only. Together the steps deliver what the rank's part of
`read_plan` does, and in the same order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fastload.plan.intervals import Int64s, edges_of, near_equal
from fastload.plan.read_plan import sequence_plan, window_count, window_edges, window_of
from fastload.plan.sequence import RowGroups, Sequence, row_group_order

if TYPE_CHECKING:
    from fastload.plan.options import Options
    from fastload.plan.read_plan import ReadPlan

__all__ = ["PlanSteps"]

# Filters are evaluated on so many rows at a time: fewer cost as much.
_STEP_PLACES = 1 << 18


class PlanSteps:
    """The steps of one rank, as the only one of its workers, from the start of an epoch.

    Args:
        row_groups: all, with places; their `rows` may be written as they become known.
        options: with `total_places` and without `limit`.
        epoch: its number.
        world: number of ranks.
        rank: this one.
        stripe_rows: as `read_plan` takes it.
    """

    def __init__(
        self,
        row_groups: RowGroups,
        options: Options,
        epoch: int,
        world: int,
        rank: int,
        stripe_rows: int,
    ) -> None:
        self._row_groups = row_groups
        self._options = options
        self._epoch = epoch
        self._stripe_rows = stripe_rows
        order = row_group_order(len(row_groups.rows), options, epoch)
        self._order = order[row_groups.own_places[order] > 0]
        self._first_places = edges_of(row_groups.own_places[self._order])
        total = int(self._first_places[-1])
        starts, lengths = near_equal(np.array(total), world)
        self._start = int(starts[rank])
        self._stop = self._start + int(lengths[rank])
        self._edges = np.zeros(1, np.int64)
        if self._start < self._stop:
            self._edges = self._window_edges(total) if options.shuffle else self._stripe_edges()

    def __len__(self) -> int:
        return len(self._edges) - 1

    def groups(self, step: int) -> Int64s:
        """The row groups whose counts the plan of a step needs, by number."""
        return self._order[self._range(step, step + 1)]

    def rows(self, step: int) -> int:
        """Rows that a step delivers; its counts have to be known."""
        start, stop = self._positions(self._sequence(step, step + 1), step, step + 1)
        return stop - start

    def plan(self, first: int, stop: int) -> ReadPlan:
        """The plan of the steps [first, stop); their counts have to be known."""
        sequence = self._sequence(first, stop)
        interval = self._positions(sequence, first, stop)
        intervals = np.array([interval], np.int64)[: interval[0] < interval[1]]
        return sequence_plan(sequence, intervals, self._options, self._epoch, self._stripe_rows)

    def _window_edges(self, total: int) -> Int64s:
        window = self._options.shuffle_window
        count = window_count(total, window)
        first, last = (window_of(p, total, count) for p in (self._start, self._stop - 1))
        some = max(1, _STEP_PLACES * count // total)
        numbers = np.append(np.arange(first, last + 1, some), last + 1)
        return window_edges(total, window, numbers)

    def _stripe_edges(self) -> Int64s:
        edges = [self._start]
        while edges[-1] < self._stop:
            least = min(edges[-1] + _STEP_PLACES, self._stop)
            edges.append(int(self._first_places[np.searchsorted(self._first_places, least)]))
        return np.array(edges, np.int64)

    def _range(self, first: int, stop: int) -> slice:
        """The row groups, in the epoch's order, that some steps touch."""
        low, high = self._edges[[first, stop]]
        begin = int(np.searchsorted(self._first_places, low, side="right")) - 1
        return slice(begin, int(np.searchsorted(self._first_places, high, side="left")))

    def _sequence(self, first: int, stop: int) -> Sequence:
        some = self._range(first, stop)
        return Sequence(self._row_groups, self._order[some], int(self._first_places[some.start]))

    def _positions(self, sequence: Sequence, first: int, stop: int) -> tuple[int, int]:
        """What the slice has of some steps."""
        ends = np.clip(self._edges[[first, stop]], self._start, self._stop)
        start, end = sequence.positions_of(ends).tolist()
        return start, end
