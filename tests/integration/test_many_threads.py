"""A machine of many cores delivers what a small one does, within the same memory."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from fastload import FastParquetDataset, Stack

ROWS = 60_000
NAMES = [f"c{number}" for number in range(5)]
COLUMNS = {
    "one": ["c0"],
    "all": NAMES,
    "stack": {"a": Stack(NAMES, dtype=torch.float64)},
    "stack and column": {"a": Stack(NAMES[:3]), "b": "c4"},
}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("threads") / "a.parquet"
    generator = np.random.default_rng(7)
    columns = {name: generator.integers(0, 10**6, ROWS) for name in NAMES}
    pq.write_table(pa.table(columns), path, row_group_size=3000)
    return path


@pytest.fixture
def many_cores(monkeypatch):
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    monkeypatch.setattr("fastload.runtime.cores.usable_cores", lambda: 208)
    monkeypatch.setattr("fastload.runtime.cores._cgroup_quota", lambda: None)


def batches_of(path, **options):
    with FastParquetDataset(path, batch_size=1000, **options) as dataset:
        batches = [{name: batch[name].clone() for name in batch} for batch in dataset]
        return batches, dataset._engines.current.budget


@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("order", [{}, {"shuffle": True, "shuffle_window": 5000}])
@pytest.mark.parametrize("memory_budget", ["2MB", "4GB"])
def test_the_same_rows(path, many_cores, columns, order, memory_budget):
    options = {"columns": COLUMNS[columns], "memory_budget": memory_budget, **order}
    expected, small = batches_of(path, threads=1, **options)
    found, large = batches_of(path, **options)
    assert small.threads == 1
    assert large.threads == 208 if memory_budget == "4GB" or not order else large.threads < 16
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert all(torch.equal(one[name], other[name]) for name in expected[0])


def test_who_asks_for_more_threads_than_there_is_memory_for_is_told(path):
    options = {"memory_budget": "2MB", "shuffle": True, "shuffle_window": 5000, "threads": 64}
    with pytest.warns(UserWarning, match=r"has room for \d of 64 threads that shuffle"):
        batches_of(path, **options)
