"""The plan of a mix: which batches of which source a worker delivers, in what order.

Pure. A stretch of an epoch is what is run on one number of ranks, however many workers they have:
its batches follow one sequence of sources, drawn when it begins. Workers deliver in turn, so
worker w of a leg has the steps w, w + workers, ... of what is left of that sequence, and of each
source it takes a run of consecutive batches, those of the workers before it first. So a count
of delivered batches says exactly which rows of which source are left.

A source of a mix that goes on until all have been exhausted begins anew when it ends: a
repetition is an epoch of it in an order of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fastload.plan.mix_draws import Stock, draw_sources
from fastload.plan.permutation import stream_key
from fastload.plan.progress import going_on, merged
from fastload.plan.rank_split import RankSplit, whole_epoch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fastload.plan.intervals import Int64s
    from fastload.plan.mix_draws import Indices, Stop
    from fastload.plan.options import Options
    from fastload.plan.progress import Leg
    from fastload.plan.rank_split import Share

__all__ = ["MixPlan", "Mixture", "SourceRows", "SourceShare", "mix_batches", "mix_plan"]

# The third part, after seed and epoch, in the name of a stream; a dataset uses 0 and 1.
_SOURCE_STREAM = 2


class SourceRows(NamedTuple):
    """What of a source decides its batches."""

    total: int  # rows of its files that stay
    options: Options

    def split(self, positions: Int64s, world: int) -> RankSplit:
        """The split over ranks of some positions of an epoch."""
        return RankSplit(positions, world, self.options, self.options.limited(self.total))

    @property
    def positions(self) -> Int64s:
        """The positions of a whole epoch, as intervals."""
        return whole_epoch(self.options.limited(self.total))


class Mixture(NamedTuple):
    """What of a mix decides its batches."""

    sources: tuple[SourceRows, ...]
    weights: tuple[float, ...] | None  # None = the batches of each source
    stop: Stop
    seed: int


class SourceShare(NamedTuple):
    """Batches of one repetition of a source that one worker delivers."""

    seed: int  # of the repetition's order
    split: RankSplit  # of what the leg found undelivered
    rank: int
    first: int  # of the rank's batches, the worker's first of this leg
    stop: int
    delivered: int  # of the worker's

    @property
    def share(self) -> Share:
        """What is left of it."""
        return self.split.share(self.rank, self.first + self.delivered, self.stop)

    @property
    def shares_of_leg(self) -> tuple[Share, Share, Share]:
        """What the rank delivers in the leg before the worker's batches, these, and the rest."""
        edges = [0, self.first, self.stop, self.split.most]
        before, own, after = (self.split.share(self.rank, *pair) for pair in pairwise(edges))
        return before, own, after


@dataclass(frozen=True, slots=True, eq=False)
class _Source:
    """How far a source is."""

    positions: Int64s  # undelivered ones of this repetition
    repetition: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class _Place:
    """How far an epoch is."""

    sources: tuple[_Source, ...]
    stretch: int  # its number
    world: int  # that it runs on
    steps: Indices  # the source of each batch of the stretch
    done: int = 0  # how many were delivered

    @property
    def rest(self) -> Indices:
        """The sources of the batches that are left."""
        return self.steps[self.done :]


class MixPlan:
    """What one worker delivers: the source of each batch, and batches of each source.

    Args:
        mixture: the sources and how they are drawn.
        place: where the worker's leg begins.
        rank: the worker's.
        workers: of the leg.
        turn: steps turn, turn + workers, ... of the leg are this worker's.
        skipped: how many of these were delivered.

    Attributes:
        order: the source of each batch, (batches,).
    """

    def __init__(
        self, mixture: Mixture, place: _Place, rank: int, workers: int, turn: int, skipped: int
    ) -> None:
        self.order = place.rest[turn::workers][skipped:]
        self._mixture = mixture
        self._place = place
        self._rank = rank
        self._workers = workers
        self._turn = turn
        self._first = turn + skipped * workers

    def shares(self, source: int, seed: int) -> Iterator[SourceShare]:
        """The shares that the batches of a source come from, one after the other.

        seed: of the source.
        """
        steps = np.flatnonzero(self._place.rest == source)
        for run in _runs(self._mixture, self._place, source, len(steps)):
            own = steps[run.start : run.stop]
            turns = own % self._workers
            first = int((turns < self._turn).sum())
            mine = own[turns == self._turn]
            delivered = int(np.searchsorted(mine, self._first))
            if delivered < len(mine):
                own_seed, stop = _seed_of(seed, run.repetition), first + len(mine)
                yield SourceShare(own_seed, run.split, self._rank, first, stop, delivered)


def mix_plan(
    mixture: Mixture,
    epoch: int,
    progress: Sequence[Leg],
    world: int,
    rank: int,
    workers: int = 1,
    worker: int = 0,
    *,
    skip_batches: int = 0,
) -> MixPlan:
    """What `worker` of `rank` delivers of an epoch after `progress`.

    On the world and number of workers of the last leg, that leg goes on: the worker whose turn
    is next becomes worker 0.

    Args:
        mixture: the sources and how they are drawn.
        epoch: its number.
        progress: what was delivered of this epoch before, by legs.
        world: number of ranks.
        rank: this one.
        workers: DataLoader workers of each rank; 0 counts as 1.
        worker: this one.
        skip_batches: how many of this worker's own batches to leave out at the start.

    Raises:
        ValueError: `progress` claims more batches than there were.
    """
    workers = max(1, workers)
    before, done = going_on(progress, world, workers)
    place = _place_on(mixture, epoch, before, world)
    _expect_delivered(place, done)
    turn = (worker + done) % workers
    delivered = -(-max(0, done - turn) // workers)
    return MixPlan(mixture, place, rank, workers, turn, delivered + skip_batches)


def mix_batches(mixture: Mixture, epoch: int, progress: Sequence[Leg], world: int) -> int:
    """Batches that each rank of `world` still delivers after `progress`.

    Raises:
        ValueError: a leg claims more batches than it had.
    """
    return len(_place_on(mixture, epoch, merged(progress), world).rest)


class _Run(NamedTuple):
    """The batches of one repetition of a source, as draws of it in what is left of a stretch."""

    repetition: int
    split: RankSplit
    start: int
    stop: int


def _runs(mixture: Mixture, place: _Place, number: int, draws: int) -> Iterator[_Run]:
    """The repetitions that so many draws of a source take their batches from."""
    rows, source = mixture.sources[number], place.sources[number]
    split, again = (rows.split(p, place.world) for p in (source.positions, rows.positions))
    repetition, start = source.repetition, 0
    while start < draws:
        stop = min(start + split.most, draws)
        yield _Run(repetition, split, start, stop)
        repetition, split, start = repetition + 1, again, stop


@lru_cache(maxsize=8)
def _place_on(mixture: Mixture, epoch: int, legs: tuple[Leg, ...], world: int) -> _Place:
    """The place after merged `legs`, going on on so many ranks."""
    if not legs:
        sources = tuple(_Source(rows.positions) for rows in mixture.sources)
        return _new_stretch(mixture, epoch, sources, 0, world)
    *before, last = legs
    place = _after(mixture, _place_on(mixture, epoch, tuple(before), last.world), last)
    if place.world == world:
        return place
    if not len(place.rest):
        return replace(place, world=world)
    return _new_stretch(mixture, epoch, place.sources, place.stretch + 1, world)


def _new_stretch(
    mixture: Mixture, epoch: int, sources: tuple[_Source, ...], number: int, world: int
) -> _Place:
    of_sources = list(zip(mixture.sources, sources, strict=True))
    left = np.array([rows.split(source.positions, world).most for rows, source in of_sources])
    again = np.array([rows.split(rows.positions, world).most for rows, _ in of_sources])
    needed = np.where([source.repetition for source in sources], 0, left)
    weights = mixture.weights if mixture.weights is not None else again.tolist()
    key = stream_key(mixture.seed, epoch, _SOURCE_STREAM, number)
    steps = draw_sources(key, weights, Stock(left, again, needed), mixture.stop)
    return _Place(sources, number, world, steps)


def _after(mixture: Mixture, place: _Place, leg: Leg) -> _Place:
    """The place after a leg that began there."""
    _expect_delivered(place, leg.delivered)
    numbers = range(len(place.sources))
    sources = tuple(_source_after(mixture, place, leg, number) for number in numbers)
    return replace(place, sources=sources, done=place.done + leg.delivered)


def _source_after(mixture: Mixture, place: _Place, leg: Leg, number: int) -> _Source:
    rows, source = mixture.sources[number], place.sources[number]
    steps = np.flatnonzero(place.rest == number)
    draws = int(np.searchsorted(steps, leg.delivered))
    split, repetition, start = rows.split(source.positions, place.world), source.repetition, 0
    if draws >= split.most:
        again = rows.split(rows.positions, place.world)
        if mixture.stop != "repeat" or not again.most:
            return _Source(source.positions[:0], repetition)  # what "drop" left over is lost
        whole = (draws - split.most) // again.most
        start = split.most + whole * again.most
        split, repetition = again, repetition + 1 + whole
    workers = max(1, leg.workers)
    turns = steps[start : start + split.most] % workers
    count = np.bincount(turns, minlength=workers)
    delivered = np.bincount(turns[: draws - start], minlength=workers)
    runs = np.stack([np.cumsum(count) - count, count, delivered])[:, np.newaxis]
    return _Source(split.without(*runs), repetition)


def _expect_delivered(place: _Place, delivered: int) -> None:
    if delivered > len(place.rest):
        raise ValueError(
            f"Expected at most {len(place.rest)} delivered batches of each rank, got {delivered} - "
            f"in the progress on {place.world} ranks; were other arguments used then?"
        )


def _seed_of(seed: int, repetition: int) -> int:
    """Return the seed of a repetition's order; the first repetition has the source's own seed."""
    return stream_key(seed, repetition) if repetition else seed
