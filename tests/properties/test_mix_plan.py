"""Properties of the plan of a mix: equal ranks, each row once, one sequence of sources, resume."""

import collections
import dataclasses
import itertools
import pickle

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from mix_cases import batches_of, in_turn, legs, lengths_of, mixtures, row_units, run, shapes

from fastload.plan.mix.mix_plan import mix_batches, mix_plan, mix_step
from fastload.plan.mix.mixture import Mixture, SourceUnits
from fastload.plan.options import Options
from fastload.plan.permutation import permutation
from fastload.plan.position import Leg, Position, WorkerSlot, advance
from fastload.plan.steps import step_of_leg
from fastload.plan.units.packed import PackedUnits, Packing
from support.packing import PACKER

thorough = settings(max_examples=settings.default.max_examples, deadline=None)


def row_source(rows, options):
    return SourceUnits(row_units(rows, options))


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
@given(mixtures(), legs, shapes, st.integers(1, 3))
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
    rows = row_source(1200, Options(1, uneven="drop"))
    mixture = Mixture((rows, rows), None, "all", 1, (0, 1))
    orders = [
        mix_plan(mixture, epoch, (), WorkerSlot(world)).order
        for epoch in (0, 1)
        for world in (1, 2)
    ]
    orders.append(mix_plan(mixture, 0, [Leg(1, 1, 300)], WorkerSlot(2)).order)
    orders.append(mix_plan(mixture, 0, [Leg(1, 1, 300), Leg(2, 0, 300)], WorkerSlot(1)).order)
    # But not each number of workers.
    assert (mix_plan(mixture, 0, [Leg(1, 3, 300)], WorkerSlot(1)).order == orders[0][300:]).all()
    heads = {bytes(order[:200].tolist()) for order in orders}
    # Those of an epoch on its first world are alike at first.
    assert len(heads) == len(orders) - 2


def test_more_legs_than_python_has_stack_frames():
    sources = [row_source(rows, Options(1)) for rows in (2000, 1000)]
    mixture = Mixture(tuple(sources), None, "all", 5, (0, 1))
    legs = [Leg(1 + number % 2, 1, 1) for number in range(600)]
    assert mix_batches(mixture, 7, legs, 1) == 3000 - 900
    # The states that are kept are those that a fresh process finds.
    for some in (legs[:-1], legs, legs[:-20]):
        fresh = dataclasses.replace(mixture, states=type(mixture.states)(8))
        here, there = (mix_plan(one, 7, some, WorkerSlot(2, rank=1)) for one in (mixture, fresh))
        assert here.order.tolist() == there.order.tolist()


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
    for worker in range(workers):
        arguments = (mixture, 7, progress, WorkerSlot(world, workers, worker))
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
    packed = SourceUnits(PackedUnits(lists, options, Packing(10), permutation, PACKER))
    mixture = Mixture((row_source(300, Options(1)), packed), (1.0, 1.0), "repeat", 3, (0, 1))
    shares = list(mix_plan(mixture, 7, (), WorkerSlot(1)).shares(1))
    totals = [packed.total(own.seed, 7) for own in shares]
    assert len(set(totals)) > 1
    assert [own.split.most for own in shares] == totals
    # A run that resumes in the middle of a later repetition goes on with that repetition.
    order = mix_plan(mixture, 7, (), WorkerSlot(1)).order
    middle = int(np.flatnonzero(order == 1)[totals[0] + totals[1] + 3])
    rest = next(mix_plan(mixture, 7, [Leg(1, 1, middle)], WorkerSlot(1)).shares(1))
    assert (rest.seed, rest.delivered) == (shares[2].seed, 3)
    rest = next(mix_plan(mixture, 7, [Leg(1, 1, middle)], WorkerSlot(2)).shares(1))
    assert (rest.seed, rest.split.total) == (shares[2].seed, totals[2] - 3)


def test_seeds_of_sources_decide_the_numbers_of_batches():
    lists = lengths_of([1, 9, 9, 5, 5, 5, 1, 8, 2, 6, 4, 7, 3] * 4, 5)
    options = Options(1, shuffle=True, shuffle_window=7)
    packed = SourceUnits(PackedUnits(lists, options, Packing(10), permutation, PACKER))
    mixture = Mixture((packed,), None, "all", 3, (0,))
    totals = [packed.total(seed, 7) for seed in range(20)]
    assert len(set(totals)) > 1
    of_seeds = [mixture.at(Position(3, 7, (), seeds=(seed,))) for seed in range(20)]
    assert [mix_batches(one, 7, (), 1) for one in of_seeds] == totals
    assert [mix_batches(pickle.loads(pickle.dumps(one)), 7, (), 1) for one in of_seeds] == totals


def test_a_repetition_without_a_batch_has_the_order_of_the_first():
    lists = lengths_of([0, 0, 5, 0, 5, 0, 0, 0], 8)
    options = Options(1, shuffle=True, limit=2)
    packed = SourceUnits(PackedUnits(lists, options, Packing(5), permutation, PACKER))
    seed = next(seed for seed in itertools.count() if packed.total(seed, 7) == 2)
    mixture = Mixture((row_source(99, Options(1)), packed), (1.0, 1.0), "repeat", 3, (0, seed))
    shares = list(mix_plan(mixture, 7, (), WorkerSlot(1)).shares(1))
    assert min(own.split.most for own in shares) > 0
    assert sum(own.seed == seed for own in shares) > 10
    assert len({own.seed for own in shares}) > 2
