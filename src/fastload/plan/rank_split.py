"""The split of an epoch's positions among ranks, and the positions that workers leave.

Pure. Each rank gets one contiguous slice of the positions and cuts the slice into batches. A
worker delivers consecutive batches of its rank.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fastload.plan.intervals import Int64s, near_equal, select

if TYPE_CHECKING:
    from fastload.plan.options import Options

__all__ = [
    "RankSplit",
    "Share",
    "expect_delivered",
    "whole_epoch",
]


@dataclass(frozen=True, slots=True, eq=False)
class Share:
    """Positions that one worker of one rank delivers next, perhaps with one position repeated.

    Attributes:
        positions: intervals of positions, (n, 2).
        repeats: 1 if "wrap" or "pad" repeat a row at the end, else 0.
        repeated: the position that is repeated; -1 without repeats.
        slices: the canonical slices that the rank delivers, if positions are steps; else None.
    """

    positions: Int64s
    repeats: int
    repeated: int
    slices: range | None = None

    @property
    def rows(self) -> int:
        """Number of rows delivered, the repeated row included."""
        return int((self.positions[:, 1] - self.positions[:, 0]).sum()) + self.repeats

    @property
    def intervals(self) -> Int64s:
        """The intervals of positions, with the repeated position as the last, (n, 2)."""
        if not self.repeats:
            return self.positions
        again = np.array([[self.repeated, self.repeated + 1]], np.int64)
        return np.concatenate([self.positions, again])


def expect_delivered(delivered: int, most: int, world: int) -> None:
    """Raise a ValueError if each of `world` ranks has delivered more than `most` batches."""
    if delivered > most:
        raise ValueError(
            f"Expected at most {most} delivered batches of each rank, got {delivered} - in the "
            f"progress on {world} ranks; was the state saved with other arguments, or did "
            "fastload.skip leave out more steps than the epoch has left?"
        )


def whole_epoch(total_rows: int, options: Options) -> Int64s:
    """Return all positions of an epoch, as intervals, when the files have `total_rows` rows."""
    first, rows = options.offset, options.limited(total_rows)
    return np.array([[first, first + rows]] if rows else np.empty((0, 2)), np.int64)


class RankSplit:
    """The split of some positions of an epoch over ranks.

    Args:
        intervals: the positions to split, as intervals.
        world: number of ranks.
        options: the dataset's parameters.
        epoch_rows: rows of the whole epoch. A rank that gets no rows repeats the epoch's last row.

    Attributes:
        batches: number of batches of each rank, int64 (world,); the same for all ranks unless
            `uneven` is "keep".
        total: number of the positions.
    """

    def __init__(self, intervals: Int64s, world: int, options: Options, epoch_rows: int) -> None:
        self.total = int((intervals[:, 1] - intervals[:, 0]).sum())
        # Start and length of each rank's slice, in elements of the sequence of `intervals`.
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
        self._epoch_stop = options.offset + epoch_rows

    @property
    def most(self) -> int:
        """Number of batches of the rank that has the most."""
        return int(self.batches.max())

    def expect_delivered(self, delivered: int) -> None:
        """Raise a ValueError if more batches were delivered than a rank has."""
        expect_delivered(delivered, self.most, self._world)

    def share(self, rank: int, first: int, stop: int) -> Share:
        """Return the share of a worker that delivers the batches [first, stop) of a rank."""
        rows, own, start = (int(of[rank]) for of in (self._rows, self._own, self._start))
        high = min(stop * self._batch_size, rows)
        low = min(first * self._batch_size, high)
        # A rank delivers its own rows and at most one row more, so it always repeats its last row.
        repeats = high - max(low, min(high, own))
        positions = select(
            self._intervals, np.array([start + min(low, own)]), np.array([start + min(high, own)])
        )
        repeated = -1
        if repeats and own:
            last = np.array([start + own])
            repeated = int(select(self._intervals, last - 1, last)[0, 0])
        elif repeats:
            repeated = self._epoch_stop - 1
        return Share(positions, repeats, repeated)

    def without(self, first: Int64s, count: Int64s, delivered: Int64s) -> Int64s:
        """Return the positions that workers leave undelivered, as intervals.

        Args:
            first: first batch of each worker's part of a rank's batches, (world or 1, workers).
                The parts follow one another, beginning with batch 0.
            count: number of batches of each part, (world or 1, workers).
            delivered: number of delivered batches of each part, (world or 1, workers).
        """
        size, end = self._batch_size, np.minimum(self._rows, self._own)[:, np.newaxis]
        stop = first + count
        # For each rank: the undelivered end of each part, then all rows after the last part, which
        # "drop" or drop_last would leave out.
        starts = np.concatenate([first + delivered, stop[:, -1:]], axis=1)
        starts = np.minimum(starts * size, end)
        stops = np.concatenate([np.minimum(stop * size, end), self._own[:, np.newaxis]], axis=1)
        shift = self._start[:, np.newaxis]
        return select(self._intervals, (starts + shift).ravel(), (stops + shift).ravel())
