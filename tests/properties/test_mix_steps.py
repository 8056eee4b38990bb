"""Properties of the steps of a mix: the same on every number of ranks."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mix_cases import in_turn, mixtures, shapes

from fastload.plan.mix.mix_plan import mix_batches, mix_plan, mix_step
from fastload.plan.position import WorkerSlot, advance
from fastload.plan.steps import step_of_leg

SLICES = 12
WORLDS = (1, 2, 3, 4, 6, 12)

thorough = settings(max_examples=settings.default.max_examples // 2, deadline=None)
canonical_legs = st.lists(
    st.tuples(st.sampled_from(WORLDS), st.integers(1, 3), st.integers(0, 30)), max_size=4
)


@thorough
@given(mixtures(SLICES), canonical_legs, shapes.map(lambda shape: shape[1]))
def test_steps_do_not_depend_on_ranks(mixture, legs, last_workers):
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
        steps = min(steps, len(whole))
        found += whole[:steps]
        progress = advance(progress, world, workers, steps)
        alone = advance(alone, 1, workers, steps)
    assert mix_batches(mixture, 7, progress, 6) == 0
    for number, batch in enumerate(found):
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
@given(mixtures(), shapes, st.integers(0, 20), st.integers(0, 9))
def test_workers_resume_on_their_own(mixture, shape, stop, taken):
    world, workers = shape
    left = mix_batches(mixture, 7, (), world)
    progress = advance((), world, workers, stop % (left + 1))
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
        batches += [(own.seed, n) for n in own.batches[own.delivered :]]
    return batches
