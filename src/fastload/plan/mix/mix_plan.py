"""The plan of a mix: which batches of which source a worker delivers, in what order.

Pure. A stretch of an epoch is run on one number of ranks, with any numbers of workers. The batches
of a stretch follow one sequence of sources, drawn when the stretch begins. Workers deliver in
turn: worker w of a leg delivers the steps w, w + workers, ... of the rest of the sequence. The
batches of each source are split among the workers in contiguous parts, worker 0's part first. So a
count of delivered batches says exactly which rows of which source are left.

With canonical slices, a batch of a source is a step of all ranks. The mix is then planned as a mix
of one rank, and each rank delivers its slices of the steps: see module `canonical`.

In a mix with stop="repeat", a source that ends begins anew: a repetition is an epoch of the source
in an order of its own. If the order decides the number of units, as with packed rows, repetitions
have different numbers of batches.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from fastload.plan.mix.draws import Stock, draw_sources
from fastload.plan.mix.source_share import SourceShare
from fastload.plan.permutation import stream_key
from fastload.plan.position import going_on, merged
from fastload.plan.rank_split import expect_delivered
from fastload.plan.steps import StepShare
from fastload.plan.units.canonical import merged_ranks, slices_of_rank, step_of_all_ranks

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from fastload.plan.intervals import Int64s
    from fastload.plan.mix.draws import Indices
    from fastload.plan.mix.mixture import Mixture
    from fastload.plan.position import Leg, WorkerSlot
    from fastload.plan.rank_split import RankSplit
    from fastload.plan.steps import StepOfLeg

__all__ = ["MixPlan", "mix_batches", "mix_plan", "mix_step"]

# Third part, after seed and epoch, of the names of these streams. A dataset uses 0 and 1.
_SOURCE_STREAM = 2


@dataclass(frozen=True, slots=True, eq=False)
class _SourceState:
    """The progress of a source: its repetition, and the repetition's undelivered positions."""

    positions: Int64s
    seed: int  # seed of the repetition's order
    repetition: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class _MixState:
    """The progress of an epoch of a mix."""

    epoch: int
    sources: tuple[_SourceState, ...]
    stretch: int  # number of the stretch
    world: int  # number of ranks of the stretch
    steps: Indices  # source of each batch of the stretch
    done: int = 0  # delivered batches of the stretch

    @property
    def rest(self) -> Indices:
        """Source of each batch that is left."""
        return self.steps[self.done :]


class _Slot(NamedTuple):
    """A worker in a leg.

    Attributes:
        rank: number of the worker's rank in the splits of the sources.
        slices: the canonical slices that the worker's rank delivers; None = there are no slices.
        workers: number of workers of each rank.
        turn: the worker delivers the steps turn, turn + workers, ... of the leg.
        delivered: how many of these steps, from the first on, were delivered.
    """

    rank: int
    slices: range | None
    workers: int
    turn: int
    delivered: int


class MixPlan:
    """The plan of one worker: the source of each batch, and the batches of each source.

    Args:
        mixture: the sources and how they are drawn.
        state: progress of the epoch when the worker's leg begins.
        slot: the worker in the leg.

    Attributes:
        order: source of each batch of the worker, (batches,).
    """

    def __init__(self, mixture: Mixture, state: _MixState, slot: _Slot) -> None:
        self._own_sources = state.rest[slot.turn :: slot.workers]
        self.order = self._own_sources[slot.delivered :]
        self._mixture = mixture
        self._state = state
        self._slot = slot

    def shares(self, source: int) -> Iterator[SourceShare]:
        """Yield the shares that the batches of a source come from, in the order of delivery.

        There is one share for each repetition.

        Args:
            source: number of the source.
        """
        slot = self._slot
        steps = np.flatnonzero(self._state.rest == source)
        delivered = int(np.count_nonzero(self._own_sources[: slot.delivered] == source))
        before = 0  # the worker's batches of the repetitions before
        for run in _runs(self._mixture, self._state, source, len(steps)):
            seed, split, _ = run.repetition
            turns = steps[run.start : run.stop] % slot.workers
            first = int(np.count_nonzero(turns < slot.turn))
            count = int(np.count_nonzero(turns == slot.turn))
            if count and delivered < before + count:
                gone = max(0, delivered - before)
                batches = range(first, first + count)
                yield SourceShare(seed, split, slot.rank, slot.slices, batches, gone)
            before += count


def mix_plan(
    mixture: Mixture,
    epoch: int,
    progress: Sequence[Leg],
    part: WorkerSlot,
    *,
    skip_batches: int = 0,
) -> MixPlan:
    """Return the plan of the batches that the worker in a slot delivers.

    If there are as many ranks and workers as in the last leg, the last leg continues: the worker
    whose turn is next becomes worker 0.

    Args:
        mixture: the sources and how they are drawn.
        epoch: number of the epoch.
        progress: legs of this epoch that were delivered before.
        part: slot of the worker.
        skip_batches: number of this worker's own batches to leave out at the start.

    Raises:
        ValueError: `progress` claims more batches than the mix has, or the number of ranks does
            not divide the number of canonical slices.
    """
    slices, rank, world = None, part.rank, part.world
    if mixture.canonical_ranks is not None:
        slices = slices_of_rank(mixture.canonical_ranks, rank, world)
        progress, world, rank = merged_ranks(progress), 1, 0
    before, done = going_on(progress, world, part.workers)
    state = _state_on(mixture, epoch, before, world)
    expect_delivered(done, len(state.rest), state.world)
    turn = (part.worker + done) % part.workers
    delivered = -(-max(0, done - turn) // part.workers)
    slot = _Slot(rank, slices, part.workers, turn, delivered + skip_batches)
    return MixPlan(mixture, state, slot)


def mix_batches(mixture: Mixture, epoch: int, progress: Sequence[Leg], world: int) -> int:
    """Return the batches that each rank of `world` still delivers after `progress`.

    Raises:
        ValueError: a leg claims more batches than it had, or `world` does not divide the number of
            canonical slices.
    """
    if mixture.canonical_ranks is not None:
        slices_of_rank(mixture.canonical_ranks, 0, world)
        progress, world = merged_ranks(progress), 1
    return len(_state_on(mixture, epoch, merged(progress), world).rest)


def mix_step(
    mixture: Mixture, epoch: int, step: StepOfLeg, rank: int | None
) -> Iterator[StepShare]:
    """Yield the rows of a step of a mix, rank by rank.

    Args:
        mixture: the sources and how they are drawn.
        epoch: number of the epoch.
        step: the step.
        rank: number of one rank; None = all ranks.

    Raises:
        ValueError: the epoch has no such step, or the step's leg has no such rank.
    """
    slices = mixture.canonical_ranks
    planned = step if slices is None else step_of_all_ranks(step)
    state = _state_on(mixture, epoch, planned.before, planned.world)
    if not 0 <= planned.number < len(state.rest):
        raise planned.missing(len(state.rest))
    source = int(state.rest[planned.number])
    steps = np.flatnonzero(state.rest == source)
    draw = int(np.searchsorted(steps, planned.number))
    runs = _runs(mixture, state, source, len(steps))
    run = next(run for run in runs if draw < run.stop)
    of_run = steps[run.start : run.stop]
    turns, turn = of_run % step.workers, planned.number % step.workers
    earlier = (turns < turn) | ((turns == turn) & (of_run < planned.number))
    batch = int(np.count_nonzero(earlier))
    seed, split, _ = run.repetition
    for number in step.ranks(rank):
        if slices is None:
            share = split.share(number, batch, batch + 1)
        else:
            of_rank = slices_of_rank(slices, number, step.world)
            share = replace(split.share(0, batch, batch + 1), slices=of_rank)
        yield StepShare(source, seed, share)


class _Repetition(NamedTuple):
    """A repetition of a source, and the split over ranks of what is left of the repetition."""

    seed: int
    split: RankSplit
    number: int


class _Run(NamedTuple):
    """The draws of a source, in the rest of a stretch, that one repetition of the source serves."""

    repetition: _Repetition
    start: int  # number of the first draw
    stop: int  # number after the last draw


def _runs(mixture: Mixture, state: _MixState, number: int, draws: int) -> Iterator[_Run]:
    """Yield the repetitions of source `number` that serve its next `draws` draws."""
    repetitions, start = _repetitions(mixture, state, number), 0
    while start < draws:
        repetition = next(repetitions)
        stop = min(start + repetition.split.most, draws)
        if start < stop:
            yield _Run(repetition, start, stop)
        start = stop


def _repetitions(mixture: Mixture, state: _MixState, number: int) -> Iterator[_Repetition]:
    """Yield the running repetition of source `number` and, without end, the next repetitions.

    A repetition that would have no batch comes in the order of the first repetition, which has
    batches if the source is drawn.
    """
    units, source, seed = mixture.sources[number], state.sources[number], mixture.seeds[number]
    shape = (state.epoch, state.world)
    split = units.split(source.positions, source.seed, *shape)
    yield _Repetition(source.seed, split, source.repetition)
    again = units.whole(seed, *shape)
    for repetition in count(source.repetition + 1):
        own = _seed_of(seed, repetition)
        split = units.whole(own, *shape) if units.varies else again
        yield _Repetition(*((own, split) if split.most else (seed, again)), repetition)


def _state_on(mixture: Mixture, epoch: int, legs: tuple[Leg, ...], world: int) -> _MixState:
    """Return the progress after merged `legs`, ready to continue on `world` ranks."""
    states, worlds = mixture.states, [*(leg.world for leg in legs), world]

    windows = tuple(units.window for units in mixture.sources)

    def name(number: int) -> Hashable:
        return mixture.seed, mixture.seeds, windows, epoch, legs[:number], worlds[number]

    # One leg after the other, not by recursion: an epoch may have hundreds of legs.
    known = next((n for n in range(len(legs), 0, -1) if name(n) in states), 0)
    state = states.get(name(known), lambda: _first_state(mixture, epoch, worlds[0]))
    for number in range(known + 1, len(worlds)):
        before = cast("_MixState", state)
        shape = legs[number - 1], worlds[number]
        state = states.get(name(number), partial(_next_state, mixture, before, *shape))
    return cast("_MixState", state)


def _first_state(mixture: Mixture, epoch: int, world: int) -> _MixState:
    of_sources = zip(mixture.sources, mixture.seeds, strict=True)
    sources = tuple(_SourceState(units.positions(seed, epoch), seed) for units, seed in of_sources)
    return _new_stretch(mixture, epoch, sources, 0, world)


def _next_state(mixture: Mixture, before: _MixState, leg: Leg, world: int) -> _MixState:
    """Return the progress after a leg that began at `before`, ready for `world` ranks."""
    state = _after(mixture, before, leg)
    if state.world == world:
        return state
    if not len(state.rest):
        return replace(state, world=world)
    return _new_stretch(mixture, before.epoch, state.sources, state.stretch + 1, world)


def _new_stretch(
    mixture: Mixture, epoch: int, sources: tuple[_SourceState, ...], number: int, world: int
) -> _MixState:
    of_sources = list(zip(mixture.sources, sources, mixture.seeds, strict=True))
    shape = (epoch, world)
    left = np.array([u.split(s.positions, s.seed, *shape).most for u, s, _ in of_sources])
    again = np.array([units.whole(seed, *shape).most for units, _, seed in of_sources])
    needed = np.where([source.repetition for source in sources], 0, left)
    weights = mixture.weights if mixture.weights is not None else again.tolist()
    key = stream_key(mixture.seed, epoch, _SOURCE_STREAM, number)
    steps = draw_sources(key, weights, Stock(left, again, needed), mixture.stop)
    return _MixState(epoch, sources, number, world, steps)


def _after(mixture: Mixture, state: _MixState, leg: Leg) -> _MixState:
    """Return the progress after a leg that began at `state`."""
    expect_delivered(leg.delivered, len(state.rest), state.world)
    numbers = range(len(state.sources))
    sources = tuple(_source_after(mixture, state, leg, number) for number in numbers)
    return replace(state, sources=sources, done=state.done + leg.delivered)


def _source_after(mixture: Mixture, state: _MixState, leg: Leg, number: int) -> _SourceState:
    units, seed = mixture.sources[number], mixture.seeds[number]
    steps = np.flatnonzero(state.rest == number)
    draws = int(np.searchsorted(steps, leg.delivered))
    repetitions = _repetitions(mixture, state, number)
    running, start = next(repetitions), 0
    if draws >= running.split.most:
        again = units.whole(seed, state.epoch, state.world)
        if mixture.stop != "repeat" or not again.most:
            # The source is exhausted; rows left over by "drop" are not delivered.
            positions = state.sources[number].positions[:0]
            return _SourceState(positions, running.seed, running.number)
        start = running.split.most
        if units.varies:
            running = next(repetitions)
            while draws - start >= running.split.most:
                start += running.split.most
                running = next(repetitions)
        else:
            whole = (draws - start) // again.most
            start += whole * again.most
            repetition = running.number + 1 + whole
            running = _Repetition(_seed_of(seed, repetition), again, repetition)
    split = running.split
    turns = steps[start : start + split.most] % leg.workers
    count_of = np.bincount(turns, minlength=leg.workers)
    delivered = np.bincount(turns[: draws - start], minlength=leg.workers)
    runs = np.stack([np.cumsum(count_of) - count_of, count_of, delivered])[:, np.newaxis]
    return _SourceState(split.without(*runs), running.seed, running.number)


def _seed_of(seed: int, repetition: int) -> int:
    """Return the seed of a repetition's order; repetition 0 has the seed of the source itself."""
    return stream_key(seed, repetition) if repetition else seed
