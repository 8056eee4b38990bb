"""Properties of the plan of a mix: equal ranks, each row once, one sequence of sources, resume."""

import collections
import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from fastload.plan.mix.mix_plan import Mixture, SourceRows, mix_batches, mix_plan
from fastload.plan.options import Options
from fastload.plan.progress import Leg, advance

thorough = settings(max_examples=400, deadline=None)

sources = st.builds(
    SourceRows,
    st.integers(0, 60),
    st.builds(
        Options,
        st.integers(1, 9),
        drop_last=st.booleans(),
        uneven=st.sampled_from(["wrap", "wrap", "drop", "pad"]),
        limit=st.one_of(st.none(), st.integers(0, 40)),
    ),
)


@st.composite
def mixtures(draw, stops=("first", "all", "repeat")):
    chosen = tuple(draw(st.lists(sources, min_size=1, max_size=4)))
    weight = st.sampled_from([0.5, 1.0, 1.0, 4.0])
    weights = draw(st.one_of(st.none(), st.tuples(*[weight] * len(chosen))))
    return Mixture(chosen, weights, draw(st.sampled_from(stops)), draw(st.integers(0, 99)))


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
    for own in plan.shares(number, number):
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
    for number, (rows, options) in enumerate(mixture.sources):
        for (source, seed), count in counts.items():
            if source != number:
                continue
            assert set(count.values()) <= {1}
            lost = options.limited(rows) - len(count)
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
    rows = SourceRows(1200, Options(1, uneven="drop"))
    mixture = Mixture((rows, rows), None, "all", 1)
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
