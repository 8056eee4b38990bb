"""skip_steps: every step that is left has the rows that it had, through resumes."""

import dataclasses
import tempfile
from functools import partial
from itertools import islice

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from plan_cases import cases, in_turn, legs, progress_of, shapes
from semantics_cases import EXAMPLES
from torchdata.stateful_dataloader import StatefulDataLoader

import fastload
from fastload import FastParquetDataset
from fastload.plan.position import advance
from fastload.plan.rank_split import skipped_steps, steps_over
from support.deliveries import assert_other_steps_stay
from support.sample_files import write_files, write_sample
from support.worker_errors import worker_raises

pytestmark = pytest.mark.timeout(1200 + 2 * EXAMPLES)
steps = st.sets(st.one_of(st.integers(0, 6), st.integers(0, 40)), max_size=8)


@settings(max_examples=4 * EXAMPLES, deadline=None)
@given(cases(), legs, shapes, steps, st.integers(0, 99))
def test_steps_that_are_left_have_their_rows(case, legs, shape, skipped, stop):
    world, workers = shape
    options = dataclasses.replace(case.options, skip_steps=tuple(sorted(skipped)))
    without = dataclasses.replace(case, options=options)
    progress = progress_of(case, legs)
    first = sum(leg.delivered for leg in progress)
    ranks = []
    for rank in range(world):
        whole = in_turn(case, progress, world, rank, workers)
        left = [batch for step, batch in enumerate(whole, first) if step not in skipped]
        assert in_turn(without, progress, world, rank, workers) == left
        assert without.batches(progress, world, rank, workers) == len(left)
        ranks.append(left)
    # The state after some of these steps goes on with the next step.
    most = max(map(len, ranks))
    assert without.batches(progress, world, None, workers) == most
    stop %= most + 1
    own = skipped_steps(options.skip_steps, first, case.batches(progress, world, None, workers))
    progress = advance(progress, world, workers, steps_over(own, stop))
    for rank in range(world):
        assert in_turn(without, progress, world, rank, workers) == ranks[rank][stop:]
    if stop == most:
        # On other worlds, too, nothing is left.
        assert without.batches(progress, world + 1, None, workers) == 0


def test_steps_over():
    own = skipped_steps((0, 4, 5, 9), 1, 7)
    assert own.tolist() == [3, 4]
    assert [steps_over(own, n) for n in range(5)] == [0, 1, 2, 5, 6]


def make(paths, **arguments):
    given = {"batch_size": 7, "threads": 0, "memory_budget": "64MB", "shuffle": True}
    return FastParquetDataset(paths, **{**given, "shuffle_window": 50, **arguments})


def ids(batches):
    return [batch["id"].tolist() for batch in batches]


@pytest.mark.filterwarnings("ignore:Expected a number in skip_steps")  # a short epoch
@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(
    st.sampled_from(["wrap", "drop", "pad", "keep"]),
    st.integers(1, 3),
    st.sampled_from([0, 0, 0, 0, 2]),
    steps,
    st.integers(0, 12),
    st.sampled_from(["raise", "skip"]),
)
def test_datasets(uneven, world, workers, skipped, stop, on_error):
    with tempfile.TemporaryDirectory() as directory:
        paths = write_files(directory, [[40, 30], [25, 60]])
        for rank in range(world):
            shape = {"uneven": uneven, "rank": rank, "world_size": world, "on_error": on_error}
            make_one = partial(make, paths, **shape)
            assert_other_steps_stay(make_one, ids, skipped, [stop], workers)


@pytest.fixture
def path(tmp_path):
    return write_sample(tmp_path / "a.parquet", 300, 70)


def test_a_state_from_before_a_spike(path):
    with make(path) as dataset:
        whole = ids(dataset)
        dataset.set_epoch(0)
        batches = iter(dataset)
        for _ in range(10):
            next(batches)
        state = dataset.state_dict()
    with make(path, skip_steps=range(12, 20)) as dataset:
        dataset.load_state_dict(state)
        assert len(dataset) == len(whole) - 8
        assert ids(islice(dataset, 4)) == whole[10:12] + whole[20:22]
        after = dataset.state_dict()
        assert after["progress"] == [[1, 1, 22]]
        assert dataset.rows_of(15)["row"].tolist() == whole[15]
    with make(path, skip_steps=[25]) as dataset:
        dataset.load_state_dict(after)
        assert ids(dataset) == whole[22:25] + whole[26:]


def test_every_row_of_the_other_steps_comes_once_on_another_world(path):
    skipped = {2, 3, 9}
    with make(path, skip_steps=skipped, uneven="keep") as dataset:
        first = ids(islice(dataset, 5))
        state = dataset.state_dict()
    with make(path, uneven="keep") as dataset:
        whole = ids(dataset)
    rest, left_out = [], []
    for rank in range(2):
        shape = {"rank": rank, "world_size": 2, "uneven": "keep"}
        with make(path, skip_steps=skipped, **shape) as dataset:
            dataset.load_state_dict(state)
            rest += ids(dataset)
            left_out += dataset.rows_of(9, rank)["row"].tolist()
    rows = [row for batch in first + rest for row in batch]
    assert len(rows) == len(set(rows))
    assert set(range(300)) - set(rows) == {*whole[2], *whole[3], *left_out}


def test_a_whole_epoch_may_be_left_out(path):
    with make(path, skip_steps=range(1000)) as dataset:
        assert len(dataset) == 0
        assert list(dataset) == []
        assert "without 1,000 steps" in repr(dataset)


def test_single_rows(path):
    with make(path, batch_size=None) as dataset:
        whole = [row["id"].item() for row in dataset]
    with make(path, batch_size=None, skip_steps=[3, 5]) as dataset:
        assert len(dataset) == 298
        assert [row["id"].item() for row in dataset] == [*whole[:3], whole[4], *whole[6:]]


def test_stateful_loader(path):
    def loader(**arguments):
        return StatefulDataLoader(make(path, **arguments), batch_size=None, num_workers=2)

    whole = ids(loader(skip_steps=[1, 6, 7]))
    running = loader(skip_steps=[1, 6, 7])
    batches = iter(running)
    got = ids(next(batches) for _ in range(9))
    state = running.state_dict()
    again = loader(skip_steps=[1, 6, 7])
    again.load_state_dict(state)
    assert got + ids(again) == whole
    other = loader(skip_steps=[1])
    other.load_state_dict(state)
    with worker_raises(ValueError, match="Expected the skip_steps that the state was saved with"):
        next(iter(other))


@pytest.mark.parametrize("steps", [5, None, ["a"], [1.5], [True]])
def test_no_numbers(path, steps):
    with pytest.raises(TypeError, match="Expected skip_steps as numbers of steps"):
        make(path, skip_steps=steps)


def test_what_is_refused(path):
    with pytest.raises(ValueError, match="skip_steps to be at least 0, got -1"):
        make(path, skip_steps=[-1])
    with pytest.raises(ValueError, match=r"write mix\(\.\.\., skip_steps=\) .* - at source `a`"):
        fastload.mix({"a": make(path, skip_steps=[1])})
