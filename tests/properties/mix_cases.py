"""Mixes of sources without files, and what their workers deliver."""

import itertools

import numpy as np
from hypothesis import strategies as st

from fastload.plan.mix.mix_plan import mix_batches, mix_plan
from fastload.plan.mix.mixture import Mixture, SourceUnits
from fastload.plan.options import Options
from fastload.plan.permutation import permutation
from fastload.plan.position import WorkerSlot, advance
from fastload.plan.sequence import RowGroups
from fastload.plan.units.by_tokens import Tokens, TokenUnits
from fastload.plan.units.canonical import CanonicalUnits
from fastload.plan.units.packed import PackedUnits, Packing
from fastload.plan.units.units import RowUnits
from fastload.plan.units.windows import Lengths
from support.packing import PACKER
from support.token_batches import batch_windows

ways = {
    "uneven": st.sampled_from(["wrap", "wrap", "drop", "pad"]),
    "drop_last": st.booleans(),
    "limit": st.one_of(st.none(), st.integers(0, 40)),
}
packings = st.builds(
    Packing,
    st.sampled_from([4, 10]),
    st.sampled_from(["best", "best", "split"]),
    st.sampled_from(["split", "drop"]),
)
budgets = st.builds(Tokens, st.sampled_from([6, 20]), st.booleans())


def row_groups_of(*rows):
    return RowGroups(np.array(rows, np.int64), np.zeros(len(rows), np.int64), np.arange(len(rows)))


def row_units(rows, options):
    return RowUnits(row_groups_of(rows), options)


def lengths_of(lengths, rows):
    """The lengths of lists in row groups of at most `rows` rows."""
    groups = [len(lengths[first : first + rows]) for first in range(0, len(lengths), rows)]
    return Lengths(row_groups_of(*groups), np.array(lengths, np.uint32))


@st.composite
def units_of_lists(draw):
    """Units formed from lists, whose number differs between the repetitions of a source."""
    lists = lengths_of(draw(st.lists(st.integers(0, 12), max_size=40)), draw(st.integers(3, 9)))
    shuffled = {"shuffle": st.sampled_from([True, True, False]), "shuffle_window": st.just(9)}
    if draw(st.booleans()):
        options = draw(st.builds(Options, st.integers(1, 4), **shuffled, **ways))
        return PackedUnits(lists, options, draw(packings), permutation, PACKER)
    options = draw(st.builds(Options, st.just(1), **shuffled, **ways))
    return TokenUnits(lists, options, draw(budgets), permutation, batch_windows)


plain = st.builds(row_units, st.integers(0, 60), st.builds(Options, st.integers(1, 9), **ways))
sources = st.one_of(plain, units_of_lists())


@st.composite
def mixtures(draw, slices=None):
    """Mixes; with `slices`, each source has that many canonical slices."""
    units = draw(st.lists(sources, min_size=1, max_size=4))
    if slices is not None:
        units = [CanonicalUnits(one, slices) for one in units]
    chosen = tuple(map(SourceUnits, units))
    weight = st.sampled_from([0.5, 1.0, 1.0, 4.0])
    weights = draw(st.one_of(st.none(), st.tuples(*[weight] * len(chosen))))
    seeds = tuple(range(len(chosen)))
    stop, seed = draw(st.sampled_from(["first", "all", "repeat"])), draw(st.integers(0, 99))
    return Mixture(chosen, weights, stop, seed, seeds, canonical_ranks=slices)


shapes = st.tuples(st.integers(1, 4), st.integers(1, 3))
# World, workers, and batches to deliver, modulo how many there are and one more.
legs = st.lists(st.tuples(st.integers(1, 4), st.integers(1, 3), st.integers(0, 99)), max_size=3)


def batches_of(mixture, plan):
    """The batches of a worker: source, seed of the repetition, own positions, all positions."""
    queues = [queue_of(mixture, plan, number) for number in range(len(mixture.sources))]
    for number in plan.order.tolist():
        seed, own, repeats = next(queues[number])
        yield number, seed, tuple(own), tuple(repeats)
    assert all(next(queue, None) is None for queue in queues)


def queue_of(mixture, plan, number):
    size = mixture.sources[number].options.batch_size
    for own in plan.shares(number):
        seed, share = own.seed, own.share
        rows = [(p, True) for a, b in share.positions.tolist() for p in range(a, b)]
        rows += [(share.repeated, False)] * share.repeats
        for start in range(0, len(rows), size):
            batch = rows[start : start + size]
            yield seed, [p for p, own in batch if own], [p for p, own in batch if not own]


def in_turn(mixture, progress, world, rank, workers):
    """A rank's batches in the order in which a DataLoader asks its workers for them."""
    plans = [
        mix_plan(mixture, 7, progress, WorkerSlot(world, workers, worker, rank))
        for worker in range(workers)
    ]
    rounds = itertools.zip_longest(*(batches_of(mixture, plan) for plan in plans))
    return [batch for batches in rounds for batch in batches if batch is not None]


def run(mixture, legs, shape):
    """The progress of the legs and of one more to the end; what each rank delivers in each."""
    progress, delivered = (), []
    for world, workers, steps in [*legs, (*shape, None)]:
        left = mix_batches(mixture, 7, progress, world)
        count = left if steps is None else steps % (left + 1)
        ranks = [in_turn(mixture, progress, world, rank, workers) for rank in range(world)]
        assert [len(batches) for batches in ranks] == [left] * world
        delivered.append([batches[:count] for batches in ranks])
        progress = advance(progress, world, workers, count)
    return progress, delivered
