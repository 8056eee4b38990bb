"""Positions in an epoch: how far a run has come, what is left, and what each batch stands for.

Pure. An epoch is a range of positions of the sequence. Four words describe progress:

- A `Leg` is a stretch of an epoch that was run on one number of ranks and
  workers, with the count of batches that each rank delivered. The legs so far are the progress.
- A `WorkerSlot` says which worker of a pass a process is: worker 0 of 2, on
  4 ranks. The number comes from the DataLoader and counts from 0 in every new pass.
- A `WorkerTurn` is the part of a leg that a worker takes over. When a pass
  continues a leg, the worker whose turn is next in that leg becomes worker 0 of the new pass.
- A `BatchPosition` travels with a batch. It holds the position where the pass began, the slot of
  the worker that delivers the batch, and the count of the rank's batches in this pass up to and
  including the batch. So a batch alone yields the `Position` right after it.

An example: on 2 ranks with 2 workers each, a run stops after 5 batches of each rank. Workers
take turns, so worker 0 has delivered 3 of these batches and worker 1 has delivered 2. The progress
is one leg, `Leg(world=2, workers=2, delivered=5)`. A new run begins, again on 2 ranks with 2
workers: the process in slot `WorkerSlot(world=2, workers=2, worker=0)` continues the leg with
`WorkerTurn(before=(), worker=1, delivered=2)`, because worker 1's turn is next. The first batch
of that process has a `BatchPosition` with `delivered=1`, so the position after the batch is
`Leg(2, 2, 6)`. Were the new run on 4 ranks, a second leg would begin: `before` would hold the
first leg, and every worker would begin with none of its batches delivered.

A leg splits the positions that are left into one contiguous slice for each rank, a rank's slice
into batches, and the rank's batches into one contiguous slice for each DataLoader worker; slices
have near-equal lengths. Workers deliver in turn, so the count of delivered batches says exactly
which positions are left.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fastload.plan.intervals import Int64s, near_equal
from fastload.plan.options import Options, Window, expect_at_least
from fastload.plan.rank_split import RankSplit, Share, whole_epoch

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "BatchPosition",
    "Leg",
    "Position",
    "WorkerSlot",
    "batch_position_of",
    "batches",
    "going_on",
    "merged",
    "remaining_rows",
    "share",
    "split_rest",
    "steps_of",
    "turn",
]


@dataclass(frozen=True, slots=True)
class Leg:
    """A stretch of an epoch that was run on one number of ranks and workers.

    Args:
        world: number of ranks.
        workers: number of DataLoader workers of each rank, at least 1; 0 becomes 1.
        delivered: batches that each rank delivered in this leg, or left out by `fastload.skip`.

    Raises:
        ValueError: a number is out of its range.
    """

    world: int
    workers: int
    delivered: int

    def __post_init__(self) -> None:
        expect_at_least(1, world=self.world)
        expect_at_least(0, workers=self.workers, delivered=self.delivered)
        if not self.workers:
            object.__setattr__(self, "workers", 1)

    def continues(self, world: int, workers: int) -> bool:
        """Return True if a run on `world` ranks with `workers` workers continues this leg."""
        return (self.world, self.workers) == (world, workers)


@dataclass(frozen=True, slots=True)
class WorkerSlot:
    """The number of one worker in a pass and of its rank, out of how many workers and ranks.

    A DataLoader without worker processes counts as one worker.

    Attributes:
        world: number of ranks.
        workers: number of DataLoader workers of each rank, at least 1.
        worker: number of this worker.
        rank: number of the worker's rank.
    """

    world: int
    workers: int = 1
    worker: int = 0
    rank: int = 0


@dataclass(frozen=True, slots=True)
class WorkerTurn:
    """The part of a leg that one worker delivers, and how much of that part was delivered.

    Attributes:
        before: the legs before this leg.
        worker: number of the part among the parts into which the leg split the rank's batches.
        delivered: batches of the part that were delivered.
    """

    before: tuple[Leg, ...]
    worker: int
    delivered: int


def advance(progress: Sequence[Leg], world: int, workers: int, delivered: int) -> tuple[Leg, ...]:
    """Return the progress after `delivered` more batches of each rank.

    A run on the same number of ranks and workers lengthens the last leg, so the state stays small
    however often a run is resumed.
    """
    leg = Leg(world, workers, delivered)
    return merged([*progress, leg]) if delivered else merged(progress)


def remaining_rows(total_rows: int, options: Options, progress: Sequence[Leg]) -> int:
    """Return the rows of an epoch that `progress` leaves; 0 when the epoch is finished.

    Raises:
        ValueError: a leg claims more batches than it had.
    """
    return split_rest(total_rows, options, merged(progress), 1).total


def batches(
    total_rows: int,
    options: Options,
    progress: Sequence[Leg],
    world: int,
    rank: int | None,
    workers: int = 1,
) -> int:
    """Return the batches that `rank` of `world` still delivers after `progress`.

    With `rank=None`, return the batches of the rank that has the most. The number is the same for
    every rank, and does not depend on `workers`, unless `options.uneven` is "keep".

    Raises:
        ValueError: a leg claims more batches than it had, or the rank does not exist.
    """
    if rank is not None:
        _expect_within("rank", rank, world)
    before, done = going_on(progress, world, workers)
    split = split_rest(total_rows, options, before, world)
    split.expect_delivered(done)
    return max(0, (split.most if rank is None else int(split.batches[rank])) - done)


def steps_of(progress: Sequence[Leg]) -> int:
    """Return the number of steps of an epoch that are over after `progress`."""
    return sum(leg.delivered for leg in progress)


def share(
    total_rows: int,
    options: Options,
    progress: Sequence[Leg],
    part: WorkerSlot,
    skip_batches: int,
) -> Share:
    """Return the positions that the worker in a slot delivers after `progress`.

    The first `skip_batches` batches of the worker are left out. If there are as many ranks and
    workers as in the last leg, the last leg continues: the worker whose turn is next becomes
    worker 0, because a new DataLoader asks worker 0 first. So batches come in the very order of a
    run that was never interrupted.

    Raises:
        ValueError: a leg claims more batches than it had, or the rank or worker does not exist.
    """
    rank = part.rank
    here = turn(total_rows, options, progress, part, skip_batches)
    split = split_rest(total_rows, options, here.before, part.world)
    runs = near_equal(split.batches[rank], part.workers)
    first, count = (int(of[here.worker]) for of in runs)
    return split.share(rank, first + here.delivered, first + count)


def turn(
    total_rows: int,
    options: Options,
    progress: Sequence[Leg],
    part: WorkerSlot,
    skip_batches: int,
) -> WorkerTurn:
    """Return the part of a leg that the worker in a slot delivers after `progress`.

    The worker's next `skip_batches` batches count as delivered.

    Raises:
        ValueError: a leg claims more batches than it had, or the rank or worker does not exist.
    """
    workers, rank = part.workers, part.rank
    _expect_within("rank", rank, part.world)
    _expect_within("worker", part.worker, workers)
    expect_at_least(0, skip_batches=skip_batches)
    before, done = going_on(progress, part.world, workers)
    split = split_rest(total_rows, options, before, part.world)
    split.expect_delivered(done)
    number = (part.worker + done) % workers
    _, count = near_equal(split.batches[rank], workers)
    delivered = _delivered_by_worker(count, done)[number]
    return WorkerTurn(before, number, int(min(delivered + skip_batches, count[number])))


def split_rest(total_rows: int, options: Options, legs: Sequence[Leg], world: int) -> RankSplit:
    """Split the positions that merged `legs` leave undelivered over `world` ranks."""
    rows = options.limited(total_rows)
    intervals = whole_epoch(total_rows, options)
    for leg in legs:
        intervals = _after(RankSplit(intervals, leg.world, options, rows), leg, intervals)
    return RankSplit(intervals, world, options, rows)


def _after(split: RankSplit, leg: Leg, intervals: Int64s) -> Int64s:
    split.expect_delivered(leg.delivered)
    if leg.delivered == split.most:
        return intervals[:0]  # finished; rows left over by "drop" and drop_last are not delivered
    first, count = near_equal(split.batches, leg.workers)  # (world, workers)
    return split.without(first, count, _delivered_by_worker(count, leg.delivered))


def _delivered_by_worker(count: Int64s, delivered: int) -> Int64s:
    """Return the batches delivered by each worker, (..., workers), out of its `count` batches."""
    _, in_turn = near_equal(np.array(delivered), count.shape[-1])
    by_worker: Int64s = np.minimum(count, in_turn)
    return by_worker


def merged(progress: Sequence[Leg]) -> tuple[Leg, ...]:
    """Merge consecutive legs of `progress` that ran on the same number of ranks and workers."""
    legs: list[Leg] = []
    for leg in progress:
        if legs and legs[-1].continues(leg.world, leg.workers):
            leg = Leg(leg.world, leg.workers, legs.pop().delivered + leg.delivered)
        legs.append(leg)
    return tuple(legs)


def going_on(progress: Sequence[Leg], world: int, workers: int) -> tuple[tuple[Leg, ...], int]:
    """Find the leg that a run on `world` ranks with `workers` workers continues or begins.

    Returns:
        The merged legs before that leg, and the batches that each rank delivered in that leg.
    """
    legs = merged(progress)
    if legs and legs[-1].continues(world, workers):
        return legs[:-1], legs[-1].delivered
    return legs, 0


def _expect_within(name: str, value: int, count: int) -> None:
    if not 0 <= value < count:
        raise ValueError(f"Expected {name} to be between 0 and {count - 1}, got {value}")


@dataclass(frozen=True, slots=True)
class Position:
    """A position in an epoch: everything that was delivered, up to and including some batch.

    Attributes:
        seed: seed of the dataset.
        epoch: number of the epoch.
        progress: the legs run so far.
        taken: batches of its own share that one worker has delivered after these legs, if
            the worker resumes independently of the others; 0 for a position of the whole rank.
        seeds: seeds of the sources of a mix.
        weights: digest of the weights of the epoch's rows; "" = each row comes once.
        windows: the shuffle windows of a loaded state, of each source, where the user chose none;
            None = those of the dataset. () = no state was loaded.
    """

    seed: int
    epoch: int
    progress: tuple[Leg, ...]
    taken: int = 0
    seeds: tuple[int, ...] = ()
    weights: str = ""
    windows: tuple[Window | None, ...] = ()

    def of_epoch(self, epoch: int) -> Position:
        """Return the position at the beginning of an epoch, with the same seeds."""
        return replace(self, epoch=epoch, progress=(), taken=0)


class BatchPosition(NamedTuple):
    """The position of a batch, counted from the beginning of its pass.

    A pass makes a BatchPosition for each batch, and a NamedTuple is made in a third of the time of
    a frozen dataclass.

    Attributes:
        start: position where the pass began.
        part: slot of the worker that delivers the batch.
        delivered: batches of the rank in this pass, up to and including this batch.
        source: name of the source of a mix that the batch comes from; else None.
        of: digest of the files and the order of the dataset; "" = not known.
        cell: id of the EpochCell that a worker's pass belongs to; "" = the pass is of this process.
        follows: number of the order of this cell that the pass follows.
    """

    start: Position
    part: WorkerSlot
    delivered: int
    source: str | None = None
    of: str = ""
    cell: str = ""
    follows: int = 0

    @property
    def position(self) -> Position:
        """Position right after the batch."""
        part = self.part
        legs = advance(self.start.progress, part.world, part.workers, self.delivered)
        return replace(self.start, progress=legs, taken=0)

    def __reduce__(self) -> tuple[Any, ...]:
        # Every batch from a worker process carries its position. Pickling plain numbers takes a
        # third of the time that pickling the objects takes.
        legs = tuple((leg.world, leg.workers, leg.delivered) for leg in self.start.progress)
        at = self.start
        weights = (at.weights,) if at.weights else ()
        start = (at.seed, at.epoch, legs, at.taken, at.seeds, *weights)
        part = (self.part.world, self.part.workers, self.part.worker, self.part.rank)
        rest = (self.delivered, self.source, self.of, self.cell, self.follows)
        return batch_position_of, (start, part, *rest)

    def of_source(self, name: str) -> BatchPosition:
        """Return the same position, for a batch of the source `name`."""
        return self._replace(source=name)


def batch_position_of(
    start: tuple[Any, ...],
    part: tuple[int, ...],
    delivered: int,
    *rest: Any,
) -> BatchPosition:
    """Build a BatchPosition from the plain values that `BatchPosition.__reduce__` pickles."""
    seed, epoch, legs, *more = start
    progress = tuple(Leg(*leg) for leg in legs)
    position = Position(seed, epoch, progress, *more)
    return BatchPosition(position, WorkerSlot(*part), delivered, *rest)
