"""A dataset delivers exactly the rows of its plan, in its order, for any file and thread count."""

import tempfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given, reject
from hypothesis import strategies as st
from parquet_cases import EXAMPLES, files
from spec_cases import outputs_of

from fastload import FastParquetDataset
from fastload.plan.options import Options
from fastload.plan.position import WorkerSlot
from fastload.plan.read_plan import read_plan
from fastload.testing import assert_same_batches
from support.plan_definition import epoch_rows, rows_of
from support.same_rows import assert_same_rows
from support.stored_tables import StoredTables


@st.composite
def readings(draw):
    world = draw(st.sampled_from([1, 1, 2, 5]))
    return {
        "batch_size": draw(st.one_of(st.integers(1, 40), st.integers(1, 1000))),
        "shuffle": draw(st.sampled_from([False, True, True])),
        "shuffle_window": draw(st.sampled_from([1, 2, 30, 1000, 2**19])),
        "seed": draw(st.integers(0, 2**63)),
        "drop_last": draw(st.booleans()),
        "uneven": draw(st.sampled_from(["wrap", "drop", "pad", "keep"])),
        "limit": draw(st.one_of(st.none(), st.none(), st.integers(0, 600))),
        "world_size": world,
        "rank": draw(st.integers(0, world - 1)),
    }


def options_of(reading):
    kept = {name: value for name, value in reading.items() if name not in ("world_size", "rank")}
    return Options(**kept)


def planned_rows(tables, reading, epoch):
    """The plan that the rows are expected to follow, and the rows themselves."""
    plan = read_plan(
        tables.row_groups,
        options_of(reading),
        epoch,
        WorkerSlot(reading["world_size"], rank=reading["rank"]),
        stripe_rows=reading["batch_size"],
    )
    rows = rows_of(plan)
    if reading["world_size"] == 1:
        whole = epoch_rows(tables.row_groups, options_of(reading), epoch)
        assert (whole[: len(rows)] == rows).all()
        assert len(rows) == len(whole) or reading["drop_last"]
    return plan, tables.indices(rows)


def stored(files, directory):
    """The paths of the files, written, and what pyarrow reads of them, if it does either."""
    try:
        paths = files.write(directory)
        tables = StoredTables(paths)
    # Such as ns in version 1.0, Arrow's dictionaries from delta encodings, lists of nulls in V1.
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid, OSError):
        reject()
    # Of lists that go on in the next page pyarrow 26 loses those of DELTA_BINARY_PACKED.
    assume(tables.table.num_rows == sum(map(sum, files.rows)))
    return paths, tables


@EXAMPLES
@given(files=files(), reading=readings(), data=st.data())
def test_rows_are_those_of_the_plan(files, reading, data):
    with tempfile.TemporaryDirectory() as directory:
        paths, tables = stored(files, directory)
        columns = data.draw(outputs_of(tables.leaves))
        threads = [1, data.draw(st.sampled_from([0, 2, 5]))]
        first = None
        for count in threads:
            with FastParquetDataset(
                paths, columns=columns, threads=count, provenance=True, **reading
            ) as dataset:
                batches = list(dataset)
            if first is None:
                assert_planned(dataset, batches, tables, reading, columns)
                first = batches
            else:
                assert_same_batches(batches, first)


def assert_planned(dataset, batches, tables, reading, columns):
    plan, want = planned_rows(tables, reading, epoch=0)
    assert len(batches) == plan.batches
    dataset.set_epoch(0)
    assert len(dataset) == len(batches)
    assert [batch.rows for batch in batches[:-1]] == [reading["batch_size"]] * (len(batches) - 1)
    assert sum(batch.rows for batch in batches) == len(want)
    real_rows = want[: len(want) - plan.padding] if reading["uneven"] == "pad" else want
    assert_same_rows(batches, tables.table.take(pa.array(real_rows)), columns)
    start = 0
    for batch in batches:
        rows = want[start : start + batch.rows]
        start += batch.rows
        assert list(batch) == list(dataset.schema)
        assert (tables.indices_of(batch) == rows).all()
        if reading["uneven"] == "pad":
            real = len(want) - plan.padding - (start - batch.rows)
            assert (batch["__valid__"].numpy() == (np.arange(batch.rows) < real)).all()


@pytest.mark.parametrize("shuffle", [False, True])
def test_thread_counts_agree_over_epochs(tmp_path, shuffle):
    """Large enough that windows, fetches and batches overlap."""
    rng = np.random.default_rng(5)
    rows = 60_000
    table = pa.table(
        {
            "wide": rng.integers(-(2**62), 2**62, rows),
            "narrow": rng.integers(0, 100, rows).astype(np.int16),
            "text": [f"{k:x}" for k in rng.integers(0, 2**40, rows).tolist()],
            "maybe": pa.array(rng.random(rows), mask=rng.random(rows) < 0.2),
        }
    )
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=7_001)
    first = None
    for threads in (0, 1, 4, 7):
        with FastParquetDataset(
            tmp_path / "t.parquet",
            batch_size=900,
            shuffle=shuffle,
            shuffle_window=10_000,
            nulls="nan",
            threads=threads,
        ) as dataset:
            batches = [*dataset, *dataset]
        first = first or batches
        assert_same_batches(batches, first)
