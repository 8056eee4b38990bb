"""global_batch_size and canonical_ranks: the same steps on any number of ranks."""

import dataclasses
import json
import tempfile
from itertools import chain, islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mix_cases import lengths_of
from plan_cases import cases, even_slices
from semantics_cases import EXAMPLES
from torch.utils.data import DataLoader

from fastload import FastParquetDataset, Pack, TokenBudget
from fastload.plan.options import Options
from fastload.plan.permutation import permutation
from fastload.plan.position import Position, WorkerSlot, advance
from fastload.plan.rank_split import RankSplit, whole_epoch
from fastload.plan.steps import delivered_rows
from fastload.plan.units.canonical import row_units, slice_options
from fastload.plan.units.packed import PackedUnits, Packing
from fastload.plan.units.units import Units
from support.packing import PACKER

pytestmark = pytest.mark.timeout(1200 + 2 * EXAMPLES)
SLICES = (1, 2, 3, 4, 6, 8, 12)


def batches_of(units, at, world, rank, workers, most=None):
    """The rows of the batches that a rank delivers after a position, in the order of its steps.

    Of the batches after the first `most`, the rows are None.
    """
    of_workers, most = [], np.inf if most is None else most
    for worker in range(workers):
        share = units.share(at, WorkerSlot(world, workers, worker, rank))
        plan = units.read_plan(at, share, stripe_rows=60, ramp=False)
        # Each batch as a plan of its own, since lanes interleave.
        rows = []
        for start, stop in share.positions.tolist():
            for step in range(start, stop):
                if len(rows) * workers + worker >= most:
                    rows.append(None)
                    continue
                one = dataclasses.replace(share, positions=np.array([[step, step + 1]]))
                of_step = units.read_plan(at, one, stripe_rows=60, ramp=False)
                rows.append([tuple(row) for row in delivered_rows(of_step, permutation).tolist()])
        assert plan.batches == len(rows)
        assert None in rows or plan.rows == sum(map(len, rows))
        of_workers.append(rows)
    steps = []
    turn = 0
    while len(of_workers[turn % workers]) > turn // workers:
        steps.append(of_workers[turn % workers][turn // workers])
        turn += 1
    assert turn == sum(map(len, of_workers))
    return steps


@settings(max_examples=2 * EXAMPLES, deadline=None)
@given(
    cases(),
    st.sampled_from(SLICES),
    st.integers(1, 4),
    st.sampled_from(["wrap", "drop", "pad"]),
    st.integers(1, 2),
    st.lists(st.tuples(st.integers(0, 99), st.integers(0, 9)), max_size=3),
)
def test_steps_do_not_depend_on_ranks(case, slices, rows, uneven, workers, stops):
    options = dataclasses.replace(
        case.options, batch_size=slices * rows, uneven=uneven, canonical_ranks=slices
    )
    units = row_units(case.row_groups, options)
    worlds = [world for world in range(1, slices + 1) if slices % world == 0]
    start = Position(options.seed, case.epoch, ())
    first = batches_of(units, start, 1, 0, workers)
    whole = [sorted(step) for step in first]
    assert units.total(start) == len(whole)

    # All rows once, but those that short slices repeat and those that "drop" and drop_last lose.
    delivered = [row for step in whole for row in step]
    expected = dataclasses.replace(case, options=slice_options(options)).sequence()
    assert set(delivered) <= set(expected)
    # Without workers, a step has the next rows of each slice of the sequence.
    for step, found in enumerate(first if workers == 1 else []):
        of_slices = [part[step * rows :][:rows] for part in even_slices(expected, slices)]
        in_order = [row for part in of_slices for row in part]
        if len(in_order) == slices * rows:
            assert found == in_order
    repeats = len(delivered) - len(set(delivered))
    lost = len(set(expected)) - len(set(delivered))
    short_step = slices * (rows - 1) if options.drop_last else 0
    if uneven == "drop":
        assert repeats == 0
        assert lost < slices + short_step
    else:
        assert repeats < slices or not expected
        assert lost <= short_step

    progress, done = (), 0
    for choice, steps in [*stops, (0, len(whole))]:
        world = worlds[choice % len(worlds)]
        at = dataclasses.replace(start, progress=progress)
        left = len(whole) - done
        steps = min(steps, left)
        ranks = [batches_of(units, at, world, rank, workers, steps) for rank in range(world)]
        assert {len(rank) for rank in ranks} == {left}
        assert units.batches(at, world, None) == left
        for step in range(steps):
            together = sorted(row for rank in ranks for row in rank[step])
            assert together == whole[done + step]
        progress = advance(progress, world, workers, steps)
        done += steps


@settings(max_examples=200, deadline=None)
@given(
    cases(shuffle=True),
    st.sampled_from(SLICES),
    st.integers(1, 4),
    st.sampled_from(["wrap", "drop", "pad"]),
    st.integers(0, 5),
)
def test_lanes_planned_together_are_those_planned_one_by_one(case, slices, rows, uneven, first):
    options = dataclasses.replace(
        case.options, batch_size=slices * rows, uneven=uneven, canonical_ranks=slices
    )
    of_slices = row_units(case.row_groups, options).units
    assert_lanes_are_planned_alike(of_slices, case.epoch, slices, first, case.rows)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.integers(0, 12), max_size=60),
    st.sampled_from([Packing(10), Packing(10, "split"), Packing(5, long="drop")]),
    st.booleans(),
    st.sampled_from(SLICES),
    st.integers(1, 3),
    st.sampled_from(["wrap", "drop", "pad"]),
    st.integers(0, 3),
)
def test_lanes_packed_together_are_those_packed_one_by_one(
    lengths, packing, shuffle, slices, rows, uneven, first
):
    options = Options(rows, shuffle=shuffle, shuffle_window=9, seed=3, uneven=uneven)
    documents = lengths_of(lengths, 7)
    packed = PackedUnits(documents, options, packing, permutation, PACKER)
    assert_lanes_are_planned_alike(packed, 1, slices, first, None)


def assert_lanes_are_planned_alike(units, epoch, slices, first, rows):
    """Compare the plan of all slices, from a batch on, with the plans of each, put together."""
    at = Position(units.options.seed, epoch, ())
    total = units.total(at)
    rows = units.options.limited(total) if rows is None else rows
    split = RankSplit(whole_epoch(total, units.options), slices, units.options, rows)
    shares = [split.share(number, first, split.most) for number in range(slices)]
    planned = [
        plan(units, at, shares, stripe_rows=units.options.batch_size, ramp=False)
        for plan in (type(units).lanes_plan, Units.lanes_plan)
    ]
    for field in dataclasses.fields(planned[0]):
        together, one_by_one = (getattr(plan, field.name) for plan in planned)
        np.testing.assert_array_equal(together, one_by_one, field.name)


def test_a_world_that_does_not_divide_the_slices_is_refused(tmp_path):
    pq.write_table(pa.table({"id": range(10)}), tmp_path / "a.parquet")
    dataset = FastParquetDataset(
        tmp_path, global_batch_size=4, canonical_ranks=4, rank=0, world_size=3
    )
    with pytest.raises(ValueError, match="divides canonical_ranks=4, got 3"):
        next(iter(dataset))


def test_progress_on_ranks_that_do_not_divide_the_slices_is_refused(tmp_path):
    pq.write_table(pa.table({"id": range(24)}), tmp_path / "0.parquet")
    dataset = FastParquetDataset(tmp_path, global_batch_size=4, canonical_ranks=4)
    state = {**dataset.state_dict(), "progress": [[2, 1, 1], [5, 1, 2]]}
    with pytest.raises(ValueError, match=r"state .* divides canonical_ranks=4, got .* 5 ranks"):
        dataset.load_state_dict(state)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"global_batch_size": 10, "canonical_ranks": 4}, "canonical_ranks=4 divides, got 10"),
        ({"canonical_ranks": 4}, "Expected global_batch_size beside canonical_ranks"),
        ({"global_batch_size": 8, "batch_size": 8}, "got both"),
        ({"global_batch_size": 8, "uneven": "keep"}, "every step has rows of all ranks"),
        ({"global_batch_size": 8, "on_error": "skip"}, 'on_error="raise"'),
    ],
)
def test_arguments_that_do_not_go_together(tmp_path, arguments, message):
    pq.write_table(pa.table({"id": range(10)}), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=message):
        FastParquetDataset(tmp_path, rank=0, world_size=1, **arguments)


def test_another_number_of_slices_is_refused(tmp_path):
    pq.write_table(pa.table({"id": range(100)}), tmp_path / "a.parquet")
    shape = {"rank": 0, "world_size": 1, "global_batch_size": 12}
    dataset = FastParquetDataset(tmp_path, canonical_ranks=4, **shape)
    next(iter(dataset))
    state = dataset.state_dict()
    other = FastParquetDataset(tmp_path, canonical_ranks=6, **shape)
    with pytest.raises(ValueError, match="canonical_ranks=4"):
        other.load_state_dict(state)


def test_slices_share_no_window(tmp_path):
    pq.write_table(pa.table({"id": range(100)}), tmp_path / "a.parquet")
    shape = {"rank": 0, "world_size": 1, "global_batch_size": 8, "canonical_ranks": 4}

    with FastParquetDataset(tmp_path, shuffle=True, shuffle_window=40, **shape) as dataset:
        first = next(iter(dataset))["id"].tolist()
        # A slice has two windows of its own, of which a step takes two rows.
        assert [number // 25 for number in first] == [0, 0, 1, 1, 2, 2, 3, 3]


def test_rows_of_steps_after_a_resume_of_workers_on_other_ranks(tmp_path):
    pq.write_table(pa.table({"id": range(200)}), tmp_path / "a.parquet", row_group_size=20)

    def open_rank(rank, world):
        sizes = {"global_batch_size": 8, "canonical_ranks": 4, "rank": rank, "world_size": world}
        return FastParquetDataset(tmp_path, threads=0, memory_budget="64MB", **sizes)

    state, steps = None, []
    for world, count in ((1, 5), (2, 4), (4, 3)):
        of_ranks = []
        for rank in range(world):
            with open_rank(rank, world) as dataset:
                if state is not None:
                    dataset.load_state_dict(state)
                loader = DataLoader(dataset, batch_size=None, num_workers=2, timeout=60)
                batches = list(islice(loader, count))
                after = dataset.state_dict(after=batches[-1])
            of_ranks.append([batch["id"].tolist() for batch in batches])
        state = after
        steps += [list(chain.from_iterable(step)) for step in zip(*of_ranks, strict=True)]
    with open_rank(0, 4) as dataset:
        dataset.load_state_dict(state)
        found = [dataset.rows_of(number)["row"].tolist() for number in range(len(steps))]
    assert list(map(sorted, found)) == list(map(sorted, steps))


forms = st.sampled_from(
    [
        {"global_batch_size": 24},
        {"global_batch_size": 12, "pack": Pack("ids", 16)},
        {"global_batch_size": 12, "pack": Pack("ids", 16, fit="split")},
        {"batch_size": TokenBudget("ids", 40, long="alone")},
        {"batch_size": TokenBudget("ids", 40, padded=True, long="alone")},
    ]
)


def tokens_of(batch):
    if "ids__document" not in batch:
        return batch["id"].tolist()
    rows = zip(batch["ids"], batch["ids__document"] >= 0, strict=True)
    return [tuple(row[real].tolist()) for row, real in rows]


@settings(
    max_examples=max(1, EXAMPLES // 2),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(
    forms,
    st.integers(0, 400),
    st.sampled_from(["wrap", "drop", "pad"]),
    st.booleans(),
    st.integers(0, 2**32),
    st.lists(st.tuples(st.sampled_from([1, 2, 3, 4, 6, 12]), st.integers(0, 6)), max_size=3),
    st.sampled_from([None, ("keep", "==", True)]),
)
def test_steps_of_runs_that_resume_on_other_ranks(
    form, rows, uneven, shuffle, seed, legs, condition
):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 30, rows)
    table = pa.table(
        {
            "id": pa.array(np.arange(rows)),
            "keep": pa.array(rng.random(rows) < 0.7),
            "ids": pa.array(
                [rng.integers(0, 99, n).tolist() for n in lengths], pa.list_(pa.int32())
            ),
        }
    )
    with tempfile.TemporaryDirectory() as directory:
        pq.write_table(table, Path(directory) / "a.parquet", row_group_size=37)

        def ranks_of(world, state=None):
            ranks = [
                FastParquetDataset(
                    directory,
                    canonical_ranks=12,
                    rank=rank,
                    world_size=world,
                    shuffle=shuffle,
                    shuffle_window=150,
                    uneven=uneven,
                    filters=condition and [condition],
                    threads=0,
                    memory_budget="64MB",
                    **form,
                )
                for rank in range(world)
            ]
            for rank in ranks:
                if state is not None:
                    rank.load_state_dict(state)
            return ranks

        def together(batches):
            return sorted(map(str, (row for batch in batches for row in tokens_of(batch))))

        (alone,) = ranks_of(1)
        whole = [together([batch]) for batch in alone]
        state, done = None, 0
        for world, steps in [*legs, (4, 10**6)]:
            ranks = ranks_of(world, state)
            iterators = [iter(rank) for rank in ranks]
            for step in range(min(steps, len(whole) - done)):
                batches = [next(iterator) for iterator in iterators]
                assert together(batches) == whole[done + step]
                state = json.loads(json.dumps(ranks[-1].state_dict(after=batches[-1])))
            done += min(steps, len(whole) - done)
            if done == len(whole):
                assert [next(iterator, None) for iterator in iterators] == [None] * world
                break
        assert len(json.dumps(state)) <= 512 or state is None
