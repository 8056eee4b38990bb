"""How positions of an epoch are split among ranks, and what workers have taken of that.

Pure. Each rank gets one contiguous slice, and cuts it into batches; a worker delivers a run of
consecutive batches of its rank.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fastload.plan.intervals import Int64s, near_equal, select

if TYPE_CHECKING:
    from fastload.plan.options import Options

__all__ = ["RankSplit", "Share", "whole_epoch"]


@dataclass(frozen=True, slots=True, eq=False)
class Share:
    """What one worker of one rank delivers next: some positions, then perhaps a repeated one."""

    positions: Int64s  # (n, 2): intervals of positions
    repeats: int  # 0, or 1 where "wrap" or "pad" repeat a row
    repeated: int  # the position that is repeated; -1 without repeats

    @property
    def rows(self) -> int:
        """Rows delivered, the repeated one included."""
        return int((self.positions[:, 1] - self.positions[:, 0]).sum()) + self.repeats


def whole_epoch(rows: int) -> Int64s:
    """All positions of an epoch of so many rows, as intervals."""
    return np.array([[0, rows]] if rows else np.empty((0, 2)), np.int64)


class RankSplit:
    """The split of some positions over ranks.

    Args:
        intervals: those positions.
        world: number of ranks.
        options: the dataset's parameters.
        epoch_rows: rows of the whole epoch, of which a rank without rows repeats the last.

    Attributes:
        batches: of each rank, int64 (world,); the same for all unless `uneven` is "keep".
        total: of the positions.
    """

    def __init__(self, intervals: Int64s, world: int, options: Options, epoch_rows: int) -> None:
        self.total = int((intervals[:, 1] - intervals[:, 0]).sum())
        # Elements of the intervals' sequence.
        self._start, self._own = near_equal(np.array(self.total), world)
        if options.uneven == "keep":
            self._rows = self._own
        elif options.uneven == "drop":
            self._rows = np.full(world, self._own[-1])
        else:
            self._rows = np.full(world, self._own[0])
        if options.drop_last:
            self._rows = self._rows - self._rows % options.batch_size
        self.batches = -(-self._rows // options.batch_size)
        self._intervals = intervals
        self._world = world
        self._batch_size = options.batch_size
        self._epoch_rows = epoch_rows

    @property
    def most(self) -> int:
        """Batches of the rank that has the most."""
        return int(self.batches.max())

    def expect_delivered(self, delivered: int) -> None:
        """Refuses more than there were."""
        if delivered > self.most:
            raise ValueError(
                f"Expected at most {self.most} delivered batches of each rank, got {delivered} - "
                f"in the progress on {self._world} ranks; were other arguments used then?"
            )

    def share(self, rank: int, first: int, stop: int) -> Share:
        """The batches [first, stop) of a rank."""
        rows, own, start = (int(of[rank]) for of in (self._rows, self._own, self._start))
        high = min(stop * self._batch_size, rows)
        low = min(first * self._batch_size, high)
        # A rank's output is its own rows and at most one more, so a repeat is always the last row.
        repeats = high - max(low, min(high, own))
        positions = select(
            self._intervals, np.array([start + min(low, own)]), np.array([start + min(high, own)])
        )
        repeated = -1
        if repeats and own:
            last = np.array([start + own])
            repeated = int(select(self._intervals, last - 1, last)[0, 0])
        elif repeats:
            repeated = self._epoch_rows - 1
        return Share(positions, repeats, repeated)

    def without(self, first: Int64s, count: Int64s, delivered: Int64s) -> Int64s:
        """The positions that are left, as intervals.

        Args:
            first: the first batch of each worker's run, (world or 1, workers); the runs follow
                one another from batch 0 on.
            count: batches of each run.
            delivered: of those, how many were; (world or 1, workers).
        """
        size, end = self._batch_size, np.minimum(self._rows, self._own)[:, np.newaxis]
        stop = first + count
        # The undelivered tail of each run, then what comes after the last or would be dropped.
        starts = np.concatenate([first + delivered, stop[:, -1:]], axis=1)
        starts = np.minimum(starts * size, end)
        stops = np.concatenate([np.minimum(stop * size, end), self._own[:, np.newaxis]], axis=1)
        shift = self._start[:, np.newaxis]
        return select(self._intervals, (starts + shift).ravel(), (stops + shift).ravel())
