"""Properties of the steps of a mix: the same on every number of ranks, and left out by number."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mix_cases import in_turn, legs, mixtures, run, shapes

from fastload.plan.mix.mix_plan import mix_batches, mix_plan, mix_step
from fastload.plan.position import Leg, WorkerSlot, advance, steps_of
from fastload.plan.rank_split import steps_over
from fastload.plan.steps import step_of_leg

SLICES = 12
WORLDS = (1, 2, 3, 4, 6, 12)

thorough = settings(max_examples=settings.default.max_examples // 2, deadline=None)
skips = st.sets(st.one_of(st.integers(0, 6), st.integers(0, 60)), max_size=12)
canonical_legs = st.lists(
    st.tuples(st.sampled_from(WORLDS), st.integers(1, 3), st.integers(0, 30)), max_size=4
)


@thorough
@given(mixtures(SLICES), canonical_legs, shapes.map(lambda shape: shape[1]), skips)
def test_steps_do_not_depend_on_ranks(mixture, legs, last_workers, skipped):
    if len(skipped) > 6:
        mixture = dataclasses.replace(mixture, skip_steps=tuple(sorted(skipped)))
    # A run of one rank has the same legs, with as many workers.
    progress, alone, found = (), (), []
    for world, workers, steps in [*legs, (4, last_workers, 10**6)]:
        whole = in_turn(mixture, alone, 1, 0, workers)
        assert mix_batches(mixture, 7, progress, world) == len(whole)
        for rank in range(world):
            assert in_turn(mixture, progress, world, rank, workers) == whole
            each = SLICES // world
            plan = mix_plan(mixture, 7, progress, WorkerSlot(world, workers, workers - 1, rank))
            for number in range(len(mixture.sources)):
                for own in plan.shares(number):
                    assert own.share.slices == range(rank * each, (rank + 1) * each)
        plan = mix_plan(mixture, 7, progress, WorkerSlot(world, workers))
        steps = min(steps, len(whole))
        found += whole[:steps]
        over = steps_over(plan.skipped, steps)
        progress = advance(progress, world, workers, over)
        alone = advance(alone, 1, workers, over)
    assert mix_batches(mixture, 7, progress, 6) == 0
    skipped = mixture.skip_steps
    kept = [step for step in range(steps_of(progress)) if step not in skipped]
    for number, batch in zip(kept, found, strict=True):
        step = step_of_leg(progress, 1, 0, number)
        parts = list(mix_step(mixture, 7, step, None))
        assert [part.share.slices.start for part in parts] == list(
            range(0, SLICES, SLICES // step.world)
        )
        for part in parts:
            positions = [p for a, b in part.share.positions.tolist() for p in range(a, b)]
            assert (part.source, part.seed, tuple(positions)) == batch[:3]


@given(mixtures(SLICES))
def test_a_world_that_does_not_divide_the_slices_is_refused(mixture):
    with pytest.raises(ValueError, match="divides canonical_ranks=12, got 5"):
        mix_batches(mixture, 7, (), 5)
    with pytest.raises(ValueError, match="divides canonical_ranks=12, got 5"):
        mix_plan(mixture, 7, (), WorkerSlot(5))


@thorough
@given(mixtures(), legs, shapes, skips, st.integers(0, 99), st.integers(0, 99))
def test_steps_that_are_left_have_their_rows(mixture, legs, shape, skipped, stop, again):
    world, workers = shape
    progress, _ = run(mixture, legs, shape)
    if progress:
        last = progress[-1]
        progress = (*progress[:-1], Leg(last.world, last.workers, last.delivered // 2))
    without = dataclasses.replace(mixture, skip_steps=tuple(sorted(skipped)))
    first = steps_of(progress)
    ranks = []
    for rank in range(world):
        whole = in_turn(mixture, progress, world, rank, workers)
        left = [batch for step, batch in enumerate(whole, first) if step not in skipped]
        assert in_turn(without, progress, world, rank, workers) == left
        ranks.append(left)
    assert mix_batches(without, 7, progress, world) == len(ranks[0])
    # The states after some of these steps go on with the next step.
    for number in (stop, again):
        number %= len(ranks[0]) + 1
        plan = mix_plan(without, 7, progress, WorkerSlot(world, workers))
        progress = advance(progress, world, workers, steps_over(plan.skipped, number))
        ranks = [left[number:] for left in ranks]
        for rank, left in enumerate(ranks):
            assert in_turn(without, progress, world, rank, workers) == left
    if not ranks[0] and progress and progress[-1].world == world:
        # On other worlds, too, nothing is left.
        assert mix_batches(without, 7, progress, world + 1) == 0


@thorough
@given(mixtures(), shapes, skips, st.integers(0, 20), st.integers(0, 9))
def test_workers_resume_on_their_own(mixture, shape, skipped, stop, taken):
    mixture = dataclasses.replace(mixture, skip_steps=tuple(sorted(skipped)))
    world, workers = shape
    left = mix_batches(mixture, 7, (), world)
    whole = mix_plan(mixture, 7, (), WorkerSlot(world, workers))
    progress = advance((), world, workers, steps_over(whole.skipped, stop % (left + 1)))
    for worker in range(workers):
        part = WorkerSlot(world, workers, worker)
        plan = mix_plan(mixture, 7, progress, part)
        rest = mix_plan(mixture, 7, progress, part, skip_batches=taken)
        assert rest.order.tolist() == plan.order.tolist()[taken:]
        for number in range(len(mixture.sources)):
            drawn = int((plan.order[:taken] == number).sum())
            assert rows_of(rest, number) == rows_of(plan, number)[drawn:]
            # The three shares of a leg have the rank's batches, each once.
            for own in plan.shares(number):
                before, mine, after = own.shares_of_leg
                every = own.split.share(own.rank, 0, own.split.most)
                parts = [p for part in (before, mine, after) for p in positions_of(part)]
                assert sorted(parts) == positions_of(every)
                assert before.repeats + mine.repeats + after.repeats == every.repeats


def positions_of(share):
    return [p for a, b in share.positions.tolist() for p in range(a, b)]


def rows_of(plan, number):
    """The batches of a source that a worker delivers: their repetition and number."""
    batches = []
    for own in plan.shares(number):
        numbers = [n for a, b in own.batches.tolist() for n in range(a, b)]
        batches += [(own.seed, n) for n in numbers[own.delivered :]]
    return batches
