"""Filters with uneven="keep": rows are found on the way, and come as if all had been counted."""

import itertools
import json
import subprocess
import sys
from functools import partial
from itertools import islice

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from torch.utils.data import DataLoader

from damage import damage, write_groups
from fastload import CorruptFileError, FastParquetDataset, Pad
from fastload.rows.finder import RowFinder
from fastload.testing import assert_ranks_agree, assert_resumes_exactly, assert_same_batches

FILES = [[90, 200, 5], [60], [150, 150, 150, 40]]
ROWS = sum(map(sum, FILES))
# Of each 7 ids three, but none of the first 30.
FILTERS = (pc.field("id") >= 30) & (pc.bit_wise_and(pc.field("id"), 7) < 3)
KEPT = [k for k in range(30, ROWS) if k & 7 < 3]


@pytest.fixture(autouse=True)
def steps(monkeypatch):
    """A few row groups at a time."""
    monkeypatch.setattr("fastload.plan.plan_steps._STEP_PLACES", 100)


@pytest.fixture
def forget(tmp_path, monkeypatch):
    """Called, has what was found so far forgotten."""
    numbers = itertools.count()

    def forget():
        monkeypatch.setenv("FASTLOAD_CACHE_DIR", str(tmp_path / f"cache-{next(numbers)}"))

    forget()
    return forget


def write(directory, files=FILES):
    paths, first = [], 0
    for k, groups in enumerate(files):
        paths.append(write_groups(directory / f"part-{k}.parquet", groups, first))
        first += sum(groups)
    return paths


def dataset_of(paths, **options):
    options = {"batch_size": 16, "shuffle_window": 130, "threads": 2, **options}
    return FastParquetDataset(paths, filters=FILTERS, uneven="keep", **options)


def ids(batches):
    return [k for batch in batches for k in batch["id"].tolist()]


def counted(paths, forget, epochs=1, **options):
    """The batches of some epochs, all rows counted first."""
    forget()
    with dataset_of(paths, **options) as dataset:
        assert len(dataset) >= 0
        passes = [[batch.clone() for batch in dataset] for _ in range(epochs)]
    forget()
    return passes if epochs > 1 else passes[0]


@pytest.mark.parametrize("threads", [0, 3])
@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("batch_size", [1, 7, 64, 1000])
def test_batches_are_those_of_counted_rows(tmp_path, forget, threads, shuffle, batch_size):
    paths = write(tmp_path)
    columns = {"id": "id", "text": "text", "items": "items", "padded": Pad("items", 3)}
    options = {"shuffle": shuffle, "batch_size": batch_size, "columns": columns}
    whole = []
    for rank in range(3):
        place = {"rank": rank, "world_size": 3}
        expected = counted(paths, forget, threads=threads, **options, **place)
        with dataset_of(paths, threads=threads, **options, **place) as dataset:
            batches = [batch.clone() for batch in dataset]
            assert dataset.stats().read_ahead.bytes == 0
        assert_same_batches(batches, expected)
        whole += batches
    assert sorted(ids(whole)) == KEPT
    if not shuffle:
        assert ids(whole) == KEPT
    for batch in whole:
        assert list(batch["text"]) == [f"row {k}" for k in batch["id"].tolist()]


def test_columns_that_the_core_does_not_filter_by(tmp_path, forget):
    filters = pc.equal(pc.list_element(pc.field("items"), 0), 300) | (pc.field("id") > 700)
    with FastParquetDataset(write(tmp_path), filters=filters, uneven="keep") as dataset:
        assert ids(dataset) == [300, *range(701, ROWS)]
        assert len(dataset) == 1


def test_rows_one_by_one(tmp_path, forget):
    paths = write(tmp_path)
    for shuffle in (False, True):
        rows = [row["id"].item() for row in dataset_of(paths, batch_size=None, shuffle=shuffle)]
        again = dataset_of(paths, batch_size=None, shuffle=shuffle)
        assert len(again) == len(rows)
        assert [row["id"].item() for row in again] == rows
        assert sorted(rows) == KEPT
        forget()


@pytest.mark.parametrize("options", [{}, {"shuffle": True}, {"shuffle": True, "drop_last": True}])
def test_passes_that_follow(tmp_path, forget, options):
    """After one that was abandoned, and one that was whole; len() in the middle changes nothing."""
    paths = write(tmp_path)
    first, second, third, fourth = counted(paths, forget, 4, **options)
    with dataset_of(paths, **options) as dataset:
        assert_same_batches([batch.clone() for batch in islice(dataset, 2)], first[:2])
        running = iter(dataset)
        batches = [next(running).clone()]
        assert len(dataset) == len(second)
        batches += [batch.clone() for batch in running]
        assert_same_batches(batches, second)
        assert_same_batches([batch.clone() for batch in dataset], third)
        assert_same_batches([batch.clone() for batch in dataset], fourth)


def test_what_a_pass_found_is_kept(tmp_path, forget, monkeypatch):
    paths = write(tmp_path)
    with dataset_of(paths) as dataset:
        assert repr(dataset).endswith(f"up to {ROWS} rows, 3 outputs)")
        assert ids(dataset) == KEPT
        assert ids(dataset) == KEPT
        assert repr(dataset).endswith(f": {len(KEPT)} rows, 3 outputs)")
    monkeypatch.setattr(RowFinder, "__init__", lambda *_, **__: pytest.fail("it looks again"))
    with dataset_of(paths) as dataset:
        assert len(dataset) == -(-len(KEPT) // 16)
        assert ids(dataset) == KEPT
    with dataset_of(paths) as dataset:
        assert ids(dataset) == KEPT


@pytest.mark.parametrize("shuffle", [False, True])
def test_an_interrupted_run(tmp_path, forget, shuffle):
    paths = write(tmp_path)
    expected = counted(paths, forget, shuffle=shuffle)
    for taken in (1, 3, len(expected)):
        forget()
        with dataset_of(paths, shuffle=shuffle) as dataset:
            state = [dataset.state_dict(after=batch) for batch in islice(dataset, taken)][-1]
        assert len(json.dumps(state)) < 2048
        forget()
        with dataset_of(paths, shuffle=shuffle) as dataset:
            dataset.load_state_dict(state)
            dataset.set_epoch(0)
            assert_same_batches([batch.clone() for batch in dataset], expected[taken:])
    forget()
    make = partial(dataset_of, paths, shuffle=shuffle)
    assert_resumes_exactly(make, after=[1, 7])
    assert_ranks_agree(make, world_sizes=(2, 5, 3), uneven="keep")


def test_a_state_of_slices_by_rows_is_refused(tmp_path, forget):
    forget()
    with dataset_of(write(tmp_path)) as dataset:
        state = dataset.state_dict(after=next(iter(dataset)))
        assert state["order"]["total_places"] == ROWS
        del state["order"]["total_places"]
        with pytest.raises(ValueError, match=f"got total_places={ROWS}"):
            dataset.load_state_dict(state)


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
@pytest.mark.parametrize(
    ("workers", "context", "persistent"),
    [(1, "fork", False), (1, "fork", True), (1, "forkserver", False), (2, "fork", False)],
)
def test_worker_processes(tmp_path, forget, workers, context, persistent):
    paths = write(tmp_path)
    passes = counted(paths, forget, 2, shuffle=True)
    with dataset_of(paths, shuffle=True) as dataset:
        loader = DataLoader(
            dataset,
            batch_size=None,
            num_workers=workers,
            multiprocessing_context=context,
            persistent_workers=persistent,
            timeout=60,
        )
        for expected in passes:
            batches = [batch.clone() for batch in loader]
            if workers == 1:
                assert_same_batches(batches, expected)
            assert sorted(ids(batches)) == KEPT


@pytest.mark.parametrize("threads", [0, 2])
@pytest.mark.parametrize("column", ["id", "text"])
def test_damage_is_told_where_it_is_met(tmp_path, forget, column, threads):
    paths = write(tmp_path)
    expected = counted(paths, forget)
    damage(paths[2], 2, column)
    place = rf"part-2\.parquet, row group 2, column `{column}`"
    with dataset_of(paths, threads=threads) as dataset:
        running = iter(dataset)
        batches = []
        with pytest.raises(CorruptFileError, match=place):
            batches.extend(batch.clone() for batch in running)
        with pytest.raises(CorruptFileError, match=place):
            next(running)
        # All before the row group that has the damage.
        assert len(batches) == sum(k < 655 for k in KEPT) // 16
        assert_same_batches(batches, expected[: len(batches)])
        if column == "id":
            with pytest.raises(CorruptFileError, match=place):
                len(dataset)


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("columns", [["id"], ["text"], ["id", "text"]])
def test_what_cannot_be_read_is_left_out(tmp_path, forget, shuffle, columns):
    paths = write(tmp_path)
    for number, column in enumerate(columns):
        damage(paths[2], number + 1, column)
    options = {"shuffle": shuffle, "on_error": "skip"}
    with pytest.warns(UserWarning, match="is left out") as warned:
        expected = counted(paths, forget, **options)
    assert len(warned) == 1
    with dataset_of(paths, **options) as dataset:
        running = iter(dataset)
        batches = []
        with pytest.warns(UserWarning, match="is left out") as warned:
            batches.extend(batch.clone() for batch in running)
        assert warned[0].filename == __file__
        assert {group for _, group, _ in dataset.skipped} == set(range(1, len(columns) + 1))
        assert len(batches) == len(dataset) if not shuffle else True
    assert_same_batches(batches, expected)
    if columns == ["id"]:
        assert sorted(ids(batches)) == [k for k in KEPT if not 505 <= k < 655]


def test_a_damaged_part_that_no_batch_needs_yet_is_not_read(tmp_path, forget):
    paths = write(tmp_path, [[400]] * 6)
    for path in paths[3:]:
        damage(path, 0, "id")
    with dataset_of(paths) as dataset:
        assert ids(islice(dataset, 20)) == [k for k in range(30, 2400) if k & 7 < 3][:320]


GROUP_ROWS = 20_000
GROUPS = 200
# `rchar` counts the bytes of every read and pread of the process.
SCRIPT = """
import json, sys
from itertools import islice
from fastload import FastParquetDataset
def rchar():
    with open("/proc/self/io") as file:
        return int(file.readline().split()[1])
path, shuffle, counted = json.loads(sys.argv[1])
options = dict(filters=[("key", "<", 50)], uneven="keep", shuffle=shuffle, batch_size=500)
list(islice(FastParquetDataset(path, limit=7, filters=[("key", "==", -1)]), 1))  # late imports
with FastParquetDataset(path, shuffle_window=2 * 20_000, **options) as dataset:
    before = rchar()
    if counted:
        len(dataset)
    running = iter(dataset)
    rows = next(running).rows
    first = rchar() - before
    rows += sum(batch.rows for batch in running)
    print(json.dumps([rows, first, rchar() - before]))
"""


@pytest.mark.parametrize("shuffle", [False, True])
def test_nothing_is_counted_ahead(tmp_path, shuffle, monkeypatch):
    path = str(tmp_path / "sample.parquet")
    key = np.random.default_rng(0).integers(0, 100, GROUP_ROWS * GROUPS)
    pq.write_table(
        pa.table({"id": np.arange(len(key)), "key": key}),
        path,
        row_group_size=GROUP_ROWS,
        compression="none",
        use_dictionary=False,
    )
    column = 8 * len(key)
    firsts = []
    for counted in (False, True):
        monkeypatch.setenv("FASTLOAD_CACHE_DIR", str(tmp_path / f"cache-{counted}"))
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, json.dumps([path, shuffle, counted])],
            check=False,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        rows, first, whole = json.loads(done.stdout)
        assert rows == (key < 50).sum()
        assert 3 * column < whole < 3.5 * column  # `key` to find the rows, then both
        firsts.append(first)
    # Of 16 steps the first and, as they come, two that follow; else all of `key`.
    assert firsts[0] < 3 * column * 3 / 16 + 1_000_000
    assert firsts[1] > column
