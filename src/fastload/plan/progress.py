"""What of an epoch has been delivered, and how the rest is split among ranks and workers.

Pure. An epoch is a sequence of positions 0 .. N-1. A leg is a stretch of it run on one world:
it splits the positions that are left into one contiguous slice for each rank, a rank's slice
into batches, and the batches into one contiguous slice for each DataLoader worker. The workers
deliver in turn, so a count of delivered batches says exactly which positions are left. Slices are
of near-equal numbers of positions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fastload.plan.intervals import Int64s, near_equal
from fastload.plan.options import Options, expect_at_least
from fastload.plan.rank_split import RankSplit, Share, whole_epoch

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "Leg",
    "WorkerTurn",
    "advance",
    "batches",
    "going_on",
    "merged",
    "remaining_rows",
    "share",
    "turn",
]


@dataclass(frozen=True, slots=True)
class Leg:
    """`delivered` batches of each rank, on `world` ranks with `workers` workers each.

    No worker processes (0) count as one worker.

    Raises:
        ValueError: a number is out of its range.
    """

    world: int
    workers: int
    delivered: int

    def __post_init__(self) -> None:
        expect_at_least(1, world=self.world)
        expect_at_least(0, workers=self.workers, delivered=self.delivered)

    def continues(self, world: int, workers: int) -> bool:
        """Whether a run on such a world goes on with this leg instead of starting another."""
        return self.world == world and max(1, self.workers) == max(1, workers)


@dataclass(frozen=True, slots=True)
class WorkerTurn:
    """Where in a leg a worker goes on.

    before: the legs before that one.
    worker: its number among those that share the rank's batches in this leg.
    delivered: batches of its own share that were delivered.
    """

    before: tuple[Leg, ...]
    worker: int
    delivered: int


def advance(progress: Sequence[Leg], world: int, workers: int, delivered: int) -> tuple[Leg, ...]:
    """The progress after `delivered` more batches of each rank on this world.

    A leg that goes on is lengthened, so the state stays small however often a run is resumed.
    """
    leg = Leg(world, max(1, workers), delivered)
    return merged([*progress, leg]) if delivered else merged(progress)


def remaining_rows(total_rows: int, options: Options, progress: Sequence[Leg]) -> int:
    """Rows that `progress` leaves of an epoch over `total_rows` rows; 0 when it is finished.

    Raises:
        ValueError: a leg claims more batches than it had.
    """
    return _split(total_rows, options, merged(progress), 1).total


def batches(
    total_rows: int,
    options: Options,
    progress: Sequence[Leg],
    world: int,
    rank: int | None,
    workers: int = 1,
) -> int:
    """Batches that `rank` of `world` still delivers after `progress`; None = one with the most.

    The same for every rank, and whatever `workers`, unless `options.uneven` is "keep".

    Raises:
        ValueError: a leg claims more batches than it had, or there is no such rank.
    """
    if rank is not None:
        _expect_within("rank", rank, world)
    before, done = going_on(progress, world, workers)
    split = _split(total_rows, options, before, world)
    split.expect_delivered(done)
    return max(0, (split.most if rank is None else int(split.batches[rank])) - done)


def share(
    total_rows: int,
    options: Options,
    progress: Sequence[Leg],
    world: int,
    rank: int,
    workers: int,
    worker: int,
    skip_batches: int,
) -> Share:
    """What `worker` of `rank` delivers after `progress`, less its first `skip_batches` batches.

    On the world and number of workers of the last leg, that leg goes on: the worker whose turn
    is next becomes worker 0, since a new DataLoader asks that one first, and the batches come
    in the very order of a run that was never interrupted.

    Raises:
        ValueError: a leg claims more batches than it had; no such rank or worker.
    """
    shape = (world, rank, workers, worker)
    here = turn(total_rows, options, progress, *shape, skip_batches)
    split = _split(total_rows, options, here.before, world)
    runs = near_equal(split.batches[rank], max(1, workers))
    first, count = (int(of[here.worker]) for of in runs)
    return split.share(rank, first + here.delivered, first + count)


def turn(
    total_rows: int,
    options: Options,
    progress: Sequence[Leg],
    world: int,
    rank: int,
    workers: int,
    worker: int,
    skip_batches: int,
) -> WorkerTurn:
    """Where `worker` of `rank` goes on after `progress` and `skip_batches` batches of its own.

    Raises:
        ValueError: as `share`.
    """
    workers = max(1, workers)
    _expect_within("rank", rank, world)
    _expect_within("worker", worker, workers)
    expect_at_least(0, skip_batches=skip_batches)
    before, done = going_on(progress, world, workers)
    split = _split(total_rows, options, before, world)
    split.expect_delivered(done)
    number = (worker + done) % workers
    _, count = near_equal(split.batches[rank], workers)
    delivered = _delivered_by_worker(count, done)[number]
    return WorkerTurn(before, number, int(min(delivered + skip_batches, count[number])))


def _split(total_rows: int, options: Options, legs: Sequence[Leg], world: int) -> RankSplit:
    """What merged `legs` leave undelivered, split over so many ranks."""
    rows = options.limited(total_rows)
    intervals = whole_epoch(rows)
    for leg in legs:
        intervals = _after(RankSplit(intervals, leg.world, options, rows), leg, intervals)
    return RankSplit(intervals, world, options, rows)


def _after(split: RankSplit, leg: Leg, intervals: Int64s) -> Int64s:
    split.expect_delivered(leg.delivered)
    if leg.delivered == split.most:
        return intervals[:0]  # finished; what "drop" and drop_last left over is lost
    first, count = near_equal(split.batches, max(1, leg.workers))  # (world, workers)
    return split.without(first, count, _delivered_by_worker(count, leg.delivered))


def _delivered_by_worker(count: Int64s, delivered: int) -> Int64s:
    """Batches delivered by each worker (..., workers) that had `count` to deliver."""
    _, in_turn = near_equal(np.array(delivered), count.shape[-1])
    by_worker: Int64s = np.minimum(count, in_turn)
    return by_worker


def merged(progress: Sequence[Leg]) -> tuple[Leg, ...]:
    """`progress` with consecutive legs on the same world and workers as the one they are."""
    legs: list[Leg] = []
    for leg in progress:
        if legs and legs[-1].continues(leg.world, leg.workers):
            leg = Leg(leg.world, leg.workers, legs.pop().delivered + leg.delivered)
        legs.append(leg)
    return tuple(legs)


def going_on(progress: Sequence[Leg], world: int, workers: int) -> tuple[tuple[Leg, ...], int]:
    """The legs before the one that a run on this world is in, and what that has delivered."""
    legs = merged(progress)
    if legs and legs[-1].continues(world, workers):
        return legs[:-1], legs[-1].delivered
    return legs, 0


def _expect_within(name: str, value: int, count: int) -> None:
    if not 0 <= value < count:
        raise ValueError(f"Expected {name} to be between 0 and {count - 1}, got {value}")
