"""rows_of: what it says of a step is what the ranks deliver in that step."""

import tempfile
from collections import defaultdict
from itertools import accumulate, islice
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from plan_cases import cases, in_turn, legs, shapes
from semantics_cases import EXAMPLES, runs
from torch.utils.data import DataLoader

import fastload
from fastload import FastParquetDataset
from fastload.plan.position import advance
from fastload.plan.steps import rows_in, step_of_leg, step_shares
from support.deliveries import steps_to_ask
from support.sample_files import write_files

pytestmark = pytest.mark.timeout(1200 + 2 * EXAMPLES)

slow = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@settings(deadline=None)
@given(cases(), legs, shapes)
def test_steps_of_a_plan(case, legs, shape):
    expected, progress = defaultdict(list), ()
    for world, workers, delivered in [*legs, (*shape, None)]:
        first = sum(leg.delivered for leg in progress)
        left = case.batches(progress, world, None, workers)
        delivered = left if delivered is None else delivered % (left + 1)
        for rank in range(world):
            batches = in_turn(case, progress, world, rank, workers)
            for step, batch in enumerate(batches[:delivered], first):
                expected[step].append([row for row, _ in batch])
        before = progress
        progress = advance(progress, world, workers, delivered)
    total = case.row_groups.total_rows
    steps = [step_of_leg(before, *shape, step) for step in sorted(expected)]
    found = list(step_shares(total, case.options, case.options.seed, steps, None))
    shares = [share.share for share in found]
    rows = rows_in(case.row_groups, case.options, case.epoch, shares)
    batches = [batch for step in sorted(expected) for batch in expected[step]]
    assert [share.rows for share in shares] == list(map(len, batches))
    assert [tuple(row) for row in rows.tolist()] == [row for batch in batches for row in batch]
    beyond = step_of_leg(before, *shape, len(expected))
    with pytest.raises(ValueError, match=f"the epoch's {len(expected)} steps, .* got step"):
        list(step_shares(total, case.options, 0, [beyond], None))


def provenance(batch):
    return list(zip(batch["__file__"].tolist(), batch["__row__"].tolist(), strict=True))


def make(paths, run, world, rank=0):
    return FastParquetDataset(
        paths,
        rank=rank,
        world_size=world,
        threads=0,
        memory_budget="64MB",
        provenance=True,
        **run.options,
    )


def check(files, rows, expected):
    got = list(zip(rows["file"].tolist(), rows["row"].tolist(), strict=True))
    assert got == [row for batch in expected for row in batch]
    for file, group, row in zip(*(rows[name].tolist() for name in rows), strict=True):
        first = [0, *accumulate(files[file])]
        assert first[group] <= row < first[group + 1]
    assert all(array.dtype == np.int64 for array in rows.values())


@slow
@given(runs())
def test_steps_of_a_run(run):
    with tempfile.TemporaryDirectory() as directory:
        paths = write_files(directory, run.files)
        state, done, expected = None, 0, {}
        for leg in run.legs:
            ranks, states = [], []
            for rank in range(leg.world):
                with make(paths, run, leg.world, rank) as dataset:
                    if state is not None:
                        dataset.load_state_dict(state)
                    dataset.set_epoch(run.epoch)
                    loader = dataset
                    if leg.workers:
                        loader = DataLoader(
                            dataset, batch_size=None, num_workers=leg.workers, timeout=60
                        )
                    after, delivered, batch = dataset.state_dict(), [], None
                    for batch in islice(loader, leg.steps):
                        delivered.append(provenance(batch))
                    if delivered:
                        after = dataset.state_dict(after=batch)
                        # The latest pass says what the epoch and the number of workers are.
                        last = done + len(delivered) - 1
                        check(run.files, dataset.rows_of(last, rank), delivered[-1:])
                ranks.append(delivered)
                states.append(after)
            steps = max(map(len, ranks))
            for step in range(steps):
                expected[done + step] = [own[step] if step < len(own) else [] for own in ranks]
            with make(paths, run, leg.world) as dataset:
                if state is not None:
                    dataset.load_state_dict(state)
                dataset.set_epoch(run.epoch)
                own = range(done, done + steps)
                found = dataset.rows_of(own, num_workers=leg.workers)
                check(run.files, found, [batch for step in own for batch in expected[step]])
                # Some steps alone: what is found of all does not say where each begins.
                for step in steps_to_ask(own):
                    found = dataset.rows_of(step, num_workers=leg.workers)
                    check(run.files, found, expected[step])
            state = states[[len(own) for own in ranks].index(steps)]
            done += steps
        with make(paths, run, run.legs[-1].world) as dataset:
            dataset.load_state_dict(state)
            dataset.set_epoch(run.epoch)
            whole = [batch for step in range(done) for batch in expected[step]]
            check(run.files, dataset.rows_of(range(done)), whole)
            with pytest.raises(ValueError, match=f"Expected a step of the epoch's {done} steps"):
                dataset.rows_of(done)


sources = st.lists(
    st.tuples(
        st.lists(st.lists(st.integers(1, 40), min_size=1, max_size=3), min_size=1, max_size=2),
        st.integers(1, 9),  # rows of a batch
        st.sampled_from(["wrap", "drop", "pad"]),
        st.sampled_from([0, 0, 5]),  # offset
    ),
    min_size=1,
    max_size=3,
)
mix_legs = st.lists(
    st.tuples(st.integers(1, 3), st.sampled_from([0, 0, 0, 2]), st.integers(0, 9)), max_size=2
)


# With an offset, a source may have no batch.
@pytest.mark.filterwarnings("ignore:Expected a batch of each source")
@settings(parent=slow, max_examples=max(1, EXAMPLES // 2))
@given(
    sources,
    mix_legs,
    st.sampled_from(["first", "all", "repeat"]),
    st.sampled_from([None, 3.0]),
    st.integers(0, 2),
)
def test_steps_of_a_mix(sources, legs, stop, weight, epoch):
    with tempfile.TemporaryDirectory() as directory:
        paths = {}
        for number, (files, *_) in enumerate(sources):
            folder = Path(directory, str(number))
            folder.mkdir()
            paths[f"s{number}"] = write_files(folder, files)
        weights = weight and [weight, *[1.0] * (len(sources) - 1)]

        def mixed(rank, world):
            datasets = {
                name: FastParquetDataset(
                    paths[name],
                    batch_size=rows,
                    uneven=uneven,
                    offset=offset,
                    shuffle=True,
                    shuffle_window=16,
                    rank=rank,
                    world_size=world,
                    threads=0,
                    memory_budget="64MB",
                    provenance=True,
                )
                for name, (_, rows, uneven, offset) in zip(paths, sources, strict=True)
            }
            return fastload.mix(datasets, weights=weights, stop=stop)

        state, done, expected = None, 0, {}
        for world, workers, steps in [*legs, (2, 0, None)]:
            ranks = []
            for rank in range(world):
                with mixed(rank, world) as dataset:
                    if state is not None:
                        dataset.load_state_dict(state)
                    dataset.set_epoch(epoch)
                    loader = dataset
                    if workers:
                        loader = DataLoader(
                            dataset, batch_size=None, num_workers=workers, timeout=60
                        )
                    after, delivered, batch = dataset.state_dict(), [], None
                    for batch in islice(loader, steps):
                        delivered.append([(batch.source, *row) for row in provenance(batch)])
                    if delivered:
                        after = dataset.state_dict(after=batch)
                ranks.append(delivered)
            expected.update(enumerate(zip(*ranks, strict=True), done))
            state, done = after, done + len(ranks[0])
        with mixed(0, 2) as dataset:
            dataset.load_state_dict(state)
            dataset.set_epoch(epoch)
            for step, batches in expected.items():
                rows = dataset.rows_of(step)
                names = ("source", "file", "row")
                got = list(zip(*(rows[name].tolist() for name in names), strict=True))
                assert got == [row for batch in batches for row in batch]
            with pytest.raises(ValueError, match=f"Expected a step of the epoch's {done} steps"):
                dataset.rows_of(done)
