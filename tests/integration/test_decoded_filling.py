"""How blocks are made: what is read for them, in which order, by whom, in how many pieces."""

from __future__ import annotations

import threading
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from fastload import IO, Cache, FastParquetDataset
from fastload.engine.cache.maker import BlockMaker
from fastload.engine.cache.store import BlockStore
from fastload.engine.engine import Engine
from fastload.runtime.disk.cache import DECODED
from fastload.runtime.disk.entries import entries_of
from support.stored_dataset import served


@pytest.mark.parametrize(("row_group_rows", "record_batches"), [(100_000, 1), (600_000, 5)])
def test_a_small_row_group_is_one_record_batch(tmp_path, row_group_rows, record_batches):
    """Of a quarter of the memory that its row group is made in, at most: 14 MB of that here."""
    table = pa.table({"x": np.arange(row_group_rows)})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=row_group_rows)
    cache = Cache(tmp_path / "cache")
    with FastParquetDataset(
        tmp_path / "a.parquet", cache=cache, memory_budget="64MB", batch_size=1000, threads=2
    ) as dataset:
        assert sum(batch.rows for batch in dataset) == row_group_rows
    (entry,) = entries_of(cache.path / DECODED)
    with pa.memory_map(entry.path) as file:
        blocks = pa.ipc.open_file(file)
        assert blocks.num_record_batches == record_batches
        assert blocks.read_all()["x"].equals(table["x"])


def test_blocks_are_filled_with_few_requests(tmp_path):
    """Also where the memory for making them is a fraction of the row groups."""
    rng = np.random.default_rng(3)
    columns = {f"c{k}": rng.integers(0, 1 << 60, 150_000) for k in range(8)}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet", row_group_size=50_000)
    with served([tmp_path / "a.parquet"]) as server:
        with FastParquetDataset(
            "gs://bucket/train/a.parquet",
            batch_size=1_000,
            storage_options=server.options,
            io=IO(transport="native"),
            cache=Cache(tmp_path / "cache", raw=False),
            memory_budget="64MB",
        ) as dataset:
            server.reset()
            for name, values in columns.items():
                assert np.array_equal(torch.cat([b[name] for b in dataset]).numpy(), values)
        # Three row groups of 3.2 MB each.
        assert len(server.media_requests()) <= 3 * len(columns)


def test_row_groups_are_read_one_after_the_other(tmp_path):
    """Many are made at a time; none waits for columns of those that come after it."""
    groups, columns = 16, [f"c{k}" for k in range(6)]
    table = pa.table({name: np.arange(groups * 1000) for name in columns})
    path = tmp_path / "a.parquet"
    pq.write_table(table, path, row_group_size=1000)
    metadata = pq.read_metadata(path)
    begins = [metadata.row_group(g).column(0).dictionary_page_offset for g in range(groups)]
    with (
        served([path]) as server,
        FastParquetDataset(
            "gs://bucket/train/a.parquet",
            columns=columns[::2],
            batch_size=1000,
            storage_options=server.options,
            io=IO(transport="native", concurrency=4, hole_bytes=0),
            cache=tmp_path / "cache",
        ) as dataset,
    ):
        server.reset()
        server.latency_s = 0.02
        assert sum(batch.rows for batch in dataset) == table.num_rows
    starts = [int(r.range.partition("=")[2].partition("-")[0]) for r in server.media_requests()]
    asked = [int(np.searchsorted(begins, start, "right")) - 1 for start in starts]
    # What lay near the footer is there already.
    assert len(asked) > 2 * groups
    places = [np.flatnonzero(np.array(asked) == group) for group in range(groups)]
    between = [int(place[-1] - place[0]) + 1 - len(place) for place in places if len(place)]
    # Those of another one, begun at the same moment, may come between now and then.
    assert np.median(between) <= 3, between


def test_row_groups_are_begun_in_the_order_of_the_pass(tmp_path, monkeypatch):
    """So the first batch doesn't wait for what comes after it."""
    groups, begun = 24, []
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": np.arange(groups * 1000)}), path, row_group_size=1000)
    read = BlockMaker.read

    def noted(self, file, row_group, *more):
        begun.append(row_group)
        return read(self, file, row_group, *more)

    monkeypatch.setattr(BlockMaker, "read", noted)
    with served([path]) as server:
        server.latency_s = 0.02
        with FastParquetDataset(
            "gs://bucket/train/a.parquet",
            batch_size=1000,
            storage_options=server.options,
            io=IO(transport="native"),
            cache=Cache(tmp_path / "cache", raw=False),
        ) as dataset:
            assert sum(batch.rows for batch in dataset) == groups * 1000
    assert begun == list(range(groups))


def test_what_is_in_work_is_given_up_with_the_dataset(tmp_path):
    groups = 24
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": np.arange(groups * 1000)}), path, row_group_size=1000)
    cache = Cache(tmp_path / "cache", raw=False)
    with served([path]) as server:
        server.latency_s = 0.05
        for seen in (0, 1, 5):
            with FastParquetDataset(
                "gs://bucket/train/a.parquet",
                batch_size=1000,
                storage_options=server.options,
                io=IO(transport="native", concurrency=4),
                cache=cache,
            ) as dataset:
                for batch, _ in zip(dataset, range(seen + 1), strict=False):
                    assert batch.rows == 1000
            assert not list(tmp_path.rglob("*.part"))


def test_the_next_row_group_is_made_beside_the_first(tmp_path, monkeypatch):
    """However many of the pass's first windows, which are small, lie in the first one."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": np.arange(300_000)}), path, row_group_size=100_000)
    begun, two, together = [], threading.Event(), []
    read, record_batch = BlockMaker.read, BlockMaker.record_batch

    def noted(self, file, row_group, *more):
        begun.append(row_group)
        if len(begun) == 2:
            two.set()
        return read(self, file, row_group, *more)

    def waiting(self, lent):
        together.append(two.wait(10))
        return record_batch(self, lent)

    monkeypatch.setattr(BlockMaker, "read", noted)
    monkeypatch.setattr(BlockMaker, "record_batch", waiting)
    cache = tmp_path / "cache"
    with FastParquetDataset(path, batch_size=1000, threads=2, cache=cache) as dataset:
        assert sum(batch.rows for batch in dataset) == 300_000
    assert all(together)


def test_few_of_the_threads_that_make_blocks_compute_at_a_time(tmp_path, monkeypatch):
    """The others wait for what they read, so that they don't take turns at the GIL."""
    inside, most, lock = [0], [0], threading.Lock()
    record_batch = BlockMaker.record_batch

    def counted(maker, lent):
        with lock:
            inside[0] += 1
            most[0] = max(most[0], inside[0])
        time.sleep(0.005)
        with lock:
            inside[0] -= 1
        return record_batch(maker, lent)

    monkeypatch.setattr(BlockMaker, "record_batch", counted)
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": np.arange(32_000)}), path, row_group_size=1000)
    with (
        served([path]) as server,
        FastParquetDataset(
            "gs://bucket/train/a.parquet",
            batch_size=1000,
            threads=2,
            storage_options=server.options,
            cache=tmp_path / "cache",
        ) as dataset,
    ):
        assert sum(batch.rows for batch in dataset) == 32_000
    assert 1 <= most[0] <= 2


def test_a_full_cache_makes_nothing_ready_to_fill_it(tmp_path, monkeypatch):
    """No second engine with its threads, and each block is looked for once."""
    path, cache = tmp_path / "a.parquet", tmp_path / "cache"
    pq.write_table(pa.table({"x": np.arange(20_000)}), path, row_group_size=1000)
    engines, looks = [], []
    made, looked = Engine.__init__, BlockStore.touch_if_exists

    def noted(self, *more, **options):
        engines.append(type(self).__name__)
        made(self, *more, **options)

    def counted(self, name):
        looks.append(name)
        return looked(self, name)

    monkeypatch.setattr(Engine, "__init__", noted)
    monkeypatch.setattr(BlockStore, "touch_if_exists", counted)
    for expected in (["BlockEngine", "Engine"], ["BlockEngine"]):
        engines.clear()
        looks.clear()
        with FastParquetDataset(path, cache=cache) as dataset:
            assert sum(batch.rows for batch in dataset) == 20_000
        assert engines == expected
    assert len(looks) == len(set(looks)) == 20
