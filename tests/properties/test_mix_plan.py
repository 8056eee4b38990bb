"""Properties of the plan of a mix: equal ranks, each row once, one sequence of sources, resume."""

import collections
import itertools
import pickle

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fastload.plan.mix.mix_plan import mix_batches, mix_plan, mix_step
from fastload.plan.mix.mixture import Mixture, SourceUnits
from fastload.plan.options import Options
from fastload.plan.permutation import permutation
from fastload.plan.position import Position
from fastload.plan.progress import Leg, advance
from fastload.plan.sequence import RowGroups
from fastload.plan.steps import step_of_leg
from fastload.plan.units.by_tokens import Tokens, TokenUnits
from fastload.plan.units.packed import PackedUnits
from fastload.plan.units.packing import Packing, pack_best
from fastload.plan.units.units import RowUnits
from fastload.plan.units.windows import Lengths

thorough = settings(max_examples=400, deadline=None)

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
    return SourceUnits(RowUnits(row_groups_of(rows), options))


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
        return SourceUnits(
            PackedUnits(lists, options, draw(packings), permutation, pack_best),
        )
    options = draw(st.builds(Options, st.just(1), **shuffled, **ways))
    return SourceUnits(TokenUnits(lists, options, draw(budgets), permutation))


plain = st.builds(row_units, st.integers(0, 60), st.builds(Options, st.integers(1, 9), **ways))
sources = st.one_of(plain, units_of_lists())


@st.composite
def mixtures(draw, stops=("first", "all", "repeat")):
    chosen = tuple(draw(st.lists(sources, min_size=1, max_size=4)))
    weight = st.sampled_from([0.5, 1.0, 1.0, 4.0])
    weights = draw(st.one_of(st.none(), st.tuples(*[weight] * len(chosen))))
    seeds = tuple(range(len(chosen)))
    return Mixture(chosen, weights, draw(st.sampled_from(stops)), draw(st.integers(0, 99)), seeds)


shapes = st.tuples(st.integers(1, 4), st.integers(0, 3))
# World, workers, and batches to deliver, modulo how many there are and one more.
legs = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3), st.integers(0, 99)), max_size=3)


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
        mix_plan(mixture, 7, progress, world, rank, workers, worker)
        for worker in range(max(1, workers))
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


@thorough
@given(mixtures(), legs, shapes)
def test_rows_as_often_as_they_should_be(mixture, legs, shape):
    progress, delivered = run(mixture, legs, shape)
    assert mix_batches(mixture, 7, progress, shape[0]) == 0
    if any(delivered[-1]):
        # An epoch that has ended has ended on every world.
        assert [mix_batches(mixture, 7, progress, world) for world in (1, 3)] == [0, 0]
    counts = collections.defaultdict(collections.Counter)
    for ranks in delivered:
        for batch in itertools.chain.from_iterable(ranks):
            number, seed, own, _ = batch
            counts[number, seed].update(own)
    repetitions = collections.Counter(number for number, _ in counts)
    ends = sum(leg[0] for leg in [*legs, shape])
    partial = 0
    for number, units in enumerate(mixture.sources):
        options = units.options
        for (source, seed), count in counts.items():
            if source != number:
                continue
            # A repetition without a batch is one in the order of the first.
            again = seed == number and units.varies and mixture.stop == "repeat"
            assert again or set(count.values()) <= {1}
            lost = options.limited(units.total(seed, 7)) - len(count)
            # What a rank may leave out of each slice of it that ended.
            allowed = ends * ((options.uneven == "drop") + options.drop_last * options.batch_size)
            whole = mixture.stop == "all" or (mixture.stop == "repeat" and seed == number)
            assert not whole or lost <= allowed
            partial += lost > allowed
        assert repetitions[number] <= 1 or mixture.stop == "repeat"
    if mixture.stop == "repeat":
        # One repetition of a source is delivered after the other.
        assert partial <= sum(n > 1 for n in repetitions.values())
        # What ends last, ends for the first time.
        assert all(batches[-1][0] == batches[-1][1] for batches in delivered[-1] if batches)


@thorough
@given(mixtures(), legs, shapes, st.integers(0, 3))
def test_one_sequence_of_sources(mixture, legs, shape, other_workers):
    progress, _ = run(mixture, legs, shape)
    if progress:
        last = progress[-1]
        progress = (*progress[:-1], Leg(last.world, last.workers, last.delivered // 2))
    world, workers = shape
    runs = [
        in_turn(mixture, progress, world, rank, count)
        for rank in range(world)
        for count in (workers, other_workers)
    ]
    orders = [[batch[0] for batch in batches] for batches in runs]
    assert all(order == orders[0] for order in orders)
    assert len(orders[0]) == mix_batches(mixture, 7, progress, world)


def test_each_world_draws_anew():
    rows = row_units(1200, Options(1, uneven="drop"))
    mixture = Mixture((rows, rows), None, "all", 1, (0, 1))
    orders = [mix_plan(mixture, epoch, (), world, 0).order for epoch in (0, 1) for world in (1, 2)]
    orders.append(mix_plan(mixture, 0, [Leg(1, 1, 300)], 2, 0).order)
    orders.append(mix_plan(mixture, 0, [Leg(1, 1, 300), Leg(2, 0, 300)], 1, 0).order)
    # But not each number of workers.
    assert (mix_plan(mixture, 0, [Leg(1, 3, 300)], 1, 0).order == orders[0][300:]).all()
    heads = {bytes(order[:200].tolist()) for order in orders}
    # Those of an epoch on its first world are alike at first.
    assert len(heads) == len(orders) - 2


@thorough
@given(mixtures(), legs, shapes, st.integers(0, 99), st.integers(0, 99))
def test_a_resumed_run_is_the_one_that_never_stopped(mixture, legs, shape, stop, again):
    progress, _ = run(mixture, legs, shape)
    world, workers = shape
    before = progress[:-1] if progress else ()
    if before and before[-1].continues(world, workers):
        before = before[:-1]
    whole = [in_turn(mixture, before, world, rank, workers) for rank in range(world)]
    stop %= len(whole[0]) + 1
    stopped = advance(before, world, workers, stop)
    for rank in range(world):
        rest = in_turn(mixture, stopped, world, rank, workers)
        assert rest == whole[rank][stop:]
    again %= len(rest) + 1
    twice = advance(stopped, world, workers, again)
    assert in_turn(mixture, twice, world, world - 1, workers) == whole[-1][stop + again :]


@thorough
@given(mixtures(), shapes, st.integers(0, 20), st.integers(0, 9))
def test_skipped_batches_are_a_workers_own_first_ones(mixture, shape, stop, skip):
    world, workers = shape
    stop %= mix_batches(mixture, 7, (), world) + 1
    progress = advance((), world, workers, stop)
    for worker in range(max(1, workers)):
        arguments = (mixture, 7, progress, world, 0, workers, worker)
        whole = list(batches_of(mixture, mix_plan(*arguments)))
        rest = mix_plan(*arguments, skip_batches=skip)
        assert list(batches_of(mixture, rest)) == whole[skip:]


@thorough
@given(mixtures(), legs, shapes)
def test_the_rows_of_a_step_are_those_delivered(mixture, legs, shape):
    progress, delivered = run(mixture, legs, shape)
    steps = [step for ranks in delivered for step in zip(*ranks, strict=True)]
    for number, batches in enumerate(steps):
        step = step_of_leg(progress, 1, 0, number)
        parts = list(mix_step(mixture, 7, step, None))
        found = [
            (part.source, part.seed, tuple(p for a, b in positions for p in range(a, b)))
            for part in parts
            for positions in [part.share.positions.tolist()]
        ]
        assert found == [batch[:3] for batch in batches]


def test_repetitions_have_as_many_batches_as_their_own_orders_give():
    lists = lengths_of([1, 9, 9, 5, 5, 5, 1, 8, 2, 6, 4, 7, 3] * 4, 5)
    options = Options(1, shuffle=True, shuffle_window=7)
    packed = SourceUnits(PackedUnits(lists, options, Packing(10), permutation, pack_best))
    mixture = Mixture((row_units(300, Options(1)), packed), (1.0, 1.0), "repeat", 3, (0, 1))
    shares = list(mix_plan(mixture, 7, (), 1, 0).shares(1))
    totals = [packed.total(own.seed, 7) for own in shares]
    assert len(set(totals)) > 1
    assert [own.split.most for own in shares] == totals
    # A run that resumes in the middle of a later repetition goes on with that repetition.
    order = mix_plan(mixture, 7, (), 1, 0).order
    middle = int(np.flatnonzero(order == 1)[totals[0] + totals[1] + 3])
    rest = next(mix_plan(mixture, 7, [Leg(1, 1, middle)], 1, 0).shares(1))
    assert (rest.seed, rest.delivered) == (shares[2].seed, 3)
    rest = next(mix_plan(mixture, 7, [Leg(1, 1, middle)], 2, 0).shares(1))
    assert (rest.seed, rest.split.total) == (shares[2].seed, totals[2] - 3)


def test_seeds_of_sources_decide_the_numbers_of_batches():
    lists = lengths_of([1, 9, 9, 5, 5, 5, 1, 8, 2, 6, 4, 7, 3] * 4, 5)
    options = Options(1, shuffle=True, shuffle_window=7)
    packed = SourceUnits(PackedUnits(lists, options, Packing(10), permutation, pack_best))
    mixture = Mixture((packed,), None, "all", 3, (0,))
    totals = [packed.total(seed, 7) for seed in range(20)]
    assert len(set(totals)) > 1
    of_seeds = [mixture.at(Position(3, 7, (), seeds=(seed,))) for seed in range(20)]
    assert [mix_batches(one, 7, (), 1) for one in of_seeds] == totals
    assert [mix_batches(pickle.loads(pickle.dumps(one)), 7, (), 1) for one in of_seeds] == totals


def test_a_repetition_without_a_batch_has_the_order_of_the_first():
    lists = lengths_of([0, 0, 5, 0, 5, 0, 0, 0], 8)
    options = Options(1, shuffle=True, limit=2)
    packed = SourceUnits(PackedUnits(lists, options, Packing(5), permutation, pack_best))
    seed = next(seed for seed in itertools.count() if packed.total(seed, 7) == 2)
    mixture = Mixture((row_units(99, Options(1)), packed), (1.0, 1.0), "repeat", 3, (0, seed))
    shares = list(mix_plan(mixture, 7, (), 1, 0).shares(1))
    assert min(own.split.most for own in shares) > 0
    assert sum(own.seed == seed for own in shares) > 10
    assert len({own.seed for own in shares}) > 2
