"""What of an epoch has been delivered, and how the rest is split among ranks and workers.

Pure. An epoch is a sequence of positions 0 .. N-1. A leg is a stretch of it run on one world:
it splits the positions that are left into one contiguous slice for each rank, a rank's slice
into batches, and the batches into one contiguous slice for each DataLoader worker. The workers
deliver in turn, so a count of delivered batches says exactly which positions are left.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from fastload.intervals import Int64s, near_equal, select

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "Leg",
    "Options",
    "Share",
    "Turn",
    "Uneven",
    "advance",
    "batches",
    "remaining_rows",
    "share",
    "turn",
]

Uneven = Literal["wrap", "drop", "pad", "keep"]


@dataclass(frozen=True, slots=True)
class Options:
    """The parameters of a dataset that decide its order and its batches.

    `batch_size` and `shuffle_window` are in rows; `limit` is in rows of the sequence, None for
    all of them; `shuffle_window` and `seed` matter only with `shuffle`.

    Raises:
        ValueError: a parameter is out of its range.
    """

    batch_size: int
    shuffle: bool = False
    shuffle_window: int = 2**19
    seed: int = 0
    drop_last: bool = False
    uneven: Uneven = "wrap"
    limit: int | None = None

    def __post_init__(self) -> None:
        _expect_at_least(1, batch_size=self.batch_size, shuffle_window=self.shuffle_window)
        if self.limit is not None:
            _expect_at_least(0, limit=self.limit)
        if self.uneven not in get_args(Uneven):
            known = ", ".join(repr(name) for name in get_args(Uneven))
            raise ValueError(f"Expected uneven to be one of {known}, got {self.uneven!r}")

    def limited(self, total_rows: int) -> int:
        """Rows of the epoch out of `total_rows` in the files."""
        return total_rows if self.limit is None else min(total_rows, self.limit)


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
        _expect_at_least(1, world=self.world)
        _expect_at_least(0, workers=self.workers, delivered=self.delivered)

    def continues(self, world: int, workers: int) -> bool:
        """Whether a run on such a world goes on with this leg instead of starting another."""
        return self.world == world and max(1, self.workers) == max(1, workers)


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


@dataclass(frozen=True, slots=True)
class Turn:
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
    return _merged([*progress, leg]) if delivered else _merged(progress)


def remaining_rows(total_rows: int, options: Options, progress: Sequence[Leg]) -> int:
    """Rows that `progress` leaves of an epoch over `total_rows` rows; 0 when it is finished.

    Raises:
        ValueError: a leg claims more batches than it had.
    """
    left = _remaining(total_rows, options, _merged(progress))
    return int((left[:, 1] - left[:, 0]).sum())


def batches(
    total_rows: int,
    options: Options,
    progress: Sequence[Leg],
    world: int,
    rank: int,
    workers: int = 1,
) -> int:
    """Batches that `rank` of `world` still delivers after `progress`.

    The same for every rank, and whatever `workers`, unless `options.uneven` is "keep".

    Raises:
        ValueError: a leg claims more batches than it had, or there is no such rank.
    """
    _expect_within("rank", rank, world)
    before, done = _going_on(progress, world, workers)
    split = _Split(_remaining(total_rows, options, before), world, options)
    split.expect_delivered(done)
    return max(0, int(split.batches[rank]) - done)


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
    workers = max(1, workers)
    here = turn(total_rows, options, progress, world, rank, workers, worker, skip_batches)
    intervals = _remaining(total_rows, options, here.before)
    split = _Split(intervals, world, options)
    first, count = (int(of[here.worker]) for of in near_equal(split.batches[rank], workers))
    rows, own, start = (int(of[rank]) for of in (split.rows, split.own, split.start))
    low = (first + here.delivered) * options.batch_size
    high = min((first + count) * options.batch_size, rows)
    low = min(low, high)
    # A rank's output is its own rows and at most one more, so a repeat is always the last row.
    repeats = high - max(low, min(high, own))
    positions = select(
        intervals, np.array([start + min(low, own)]), np.array([start + min(high, own)])
    )
    repeated = -1
    if repeats and own:
        last = np.array([start + own])
        repeated = int(select(intervals, last - 1, last)[0, 0])
    elif repeats:
        repeated = options.limited(total_rows) - 1
    return Share(positions, repeats, repeated)


def turn(
    total_rows: int,
    options: Options,
    progress: Sequence[Leg],
    world: int,
    rank: int,
    workers: int,
    worker: int,
    skip_batches: int,
) -> Turn:
    """Where `worker` of `rank` goes on after `progress` and `skip_batches` batches of its own.

    Raises:
        ValueError: as `share`.
    """
    workers = max(1, workers)
    _expect_within("rank", rank, world)
    _expect_within("worker", worker, workers)
    _expect_at_least(0, skip_batches=skip_batches)
    before, done = _going_on(progress, world, workers)
    split = _Split(_remaining(total_rows, options, before), world, options)
    split.expect_delivered(done)
    number = (worker + done) % workers
    _, count = near_equal(split.batches[rank], workers)
    delivered = _delivered_by_worker(count, done)[number]
    return Turn(before, number, int(min(delivered + skip_batches, count[number])))


class _Split:
    """The split of the positions in `intervals` over `world` ranks; arrays are (world,)."""

    def __init__(self, intervals: Int64s, world: int, options: Options) -> None:
        total = (intervals[:, 1] - intervals[:, 0]).sum()
        self.start, self.own = near_equal(total, world)  # elements of the intervals' sequence
        if options.uneven == "keep":
            self.rows = self.own
        elif options.uneven == "drop":
            self.rows = np.full(world, self.own[-1])
        else:
            self.rows = np.full(world, self.own[0])
        if options.drop_last:
            self.rows = self.rows - self.rows % options.batch_size
        self.batches = -(-self.rows // options.batch_size)
        self.world = world

    def expect_delivered(self, delivered: int) -> None:
        # Rank 0 has the most batches under every `uneven`.
        most = int(self.batches[0])
        if delivered > most:
            raise ValueError(
                f"Expected at most {most} delivered batches of each rank, got {delivered} - "
                f"in the progress on {self.world} ranks; were other arguments used then?"
            )


def _remaining(total_rows: int, options: Options, legs: Sequence[Leg]) -> Int64s:
    """Positions that merged `legs` leave undelivered, as intervals."""
    rows = options.limited(total_rows)
    intervals = np.array([[0, rows]] if rows else np.empty((0, 2)), np.int64)
    for leg in legs:
        intervals = _after(intervals, leg, options)
    return intervals


def _after(intervals: Int64s, leg: Leg, options: Options) -> Int64s:
    split = _Split(intervals, leg.world, options)
    split.expect_delivered(leg.delivered)
    if leg.delivered == split.batches[0]:
        return intervals[:0]  # finished; what "drop" and drop_last left over is lost
    first, count = near_equal(split.batches, max(1, leg.workers))  # (world, workers)
    low = first + _delivered_by_worker(count, leg.delivered)
    end = np.minimum(split.rows, split.own)[:, np.newaxis]
    # The undelivered tail of each worker, then what the rank would have dropped.
    starts = np.concatenate([np.minimum(low * options.batch_size, end), end], axis=1)
    stops = np.concatenate(
        [np.minimum((first + count) * options.batch_size, end), split.own[:, np.newaxis]], axis=1
    )
    shift = split.start[:, np.newaxis]
    return select(intervals, (starts + shift).ravel(), (stops + shift).ravel())


def _delivered_by_worker(count: Int64s, delivered: int) -> Int64s:
    """Batches delivered by each worker (..., workers) that had `count` to deliver."""
    _, in_turn = near_equal(np.array(delivered), count.shape[-1])
    by_worker: Int64s = np.minimum(count, in_turn)
    return by_worker


def _merged(progress: Sequence[Leg]) -> tuple[Leg, ...]:
    """`progress` with consecutive legs on the same world and workers as the one they are."""
    legs: list[Leg] = []
    for leg in progress:
        if legs and legs[-1].continues(leg.world, leg.workers):
            leg = Leg(leg.world, leg.workers, legs.pop().delivered + leg.delivered)
        legs.append(leg)
    return tuple(legs)


def _going_on(progress: Sequence[Leg], world: int, workers: int) -> tuple[tuple[Leg, ...], int]:
    """The legs before the one that a run on this world is in, and what that has delivered."""
    legs = _merged(progress)
    if legs and legs[-1].continues(world, workers):
        return legs[:-1], legs[-1].delivered
    return legs, 0


def _expect_at_least(least: int, **values: int) -> None:
    for name, value in values.items():
        if value < least:
            raise ValueError(f"Expected {name} to be at least {least}, got {value}")


def _expect_within(name: str, value: int, count: int) -> None:
    if not 0 <= value < count:
        raise ValueError(f"Expected {name} to be between 0 and {count - 1}, got {value}")
