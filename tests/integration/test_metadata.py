"""What is asked of a store before the first batch: once, together, and not again."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fastload import IO, Cache, FastParquetDataset
from support.stored_dataset import FILES, assert_same
from support.stores import assert_few_connections, most_in_flight, rounds

COLUMNS = ["c3", "c14", "s"]
LATENCY_S = 0.15


def remote(server, source="gs://bucket/train/", **options):
    return FastParquetDataset(source, storage_options=server.options, **options)


def footers(server, paths):
    """Requests of the ends of files."""
    sizes = {path.name: path.stat().st_size for path in paths}
    ranges = [(r.path.rpartition("/")[2], r.range) for r in server.requests if r.range]
    return [name for name, range_ in ranges if range_.endswith(f"-{sizes.get(name, 0) - 1}")]


def test_a_second_start_lists_and_no_more(server, paths):
    with remote(server, columns=COLUMNS) as dataset:
        expected = list(dataset)
    assert len(footers(server, paths)) == FILES
    for source in ("gs://bucket/train/", "gs://bucket/train/*.parquet"):
        server.reset()
        with remote(server, source, columns=COLUMNS) as dataset:
            assert len([r for r in server.requests if r.range is None]) == 1
            assert_same(dataset, expected)
            assert not footers(server, paths)


@pytest.mark.parametrize("transport", ["fsspec", "native"])
@pytest.mark.parametrize("listed", [True, False])
def test_rounds_to_the_first_batch(server, paths, transport, listed):
    source = "gs://bucket/train/" if listed else [f"gs://bucket/train/{p.name}" for p in paths]
    # Requests of a round begin within the latency, on a busy machine too.
    server.latency_s = 0.5
    found = []
    for _ in range(3):
        server.reset()
        io = IO(transport=transport)
        with remote(server, source, columns=COLUMNS, limit=1000, io=io) as dataset:
            next(iter(dataset))
            found.append(rounds(server.requests))
    # A listing (or a look at each file), footers and data; footers are then on disk.
    assert found == [3, 2, 2]


@pytest.mark.parametrize("transport", ["fsspec", "native"])
@pytest.mark.parametrize("cached", [False, True])
def test_no_range_is_read_twice(server, tmp_path, transport, cached):
    for number in range(2):
        server.reset()
        cache = Cache(tmp_path / f"ranges-{number}") if cached else None
        with remote(server, columns=COLUMNS, io=IO(transport=transport), cache=cache) as dataset:
            list(dataset)
        ranges = [(request.path, request.range) for request in server.requests if request.range]
        assert len(set(ranges)) == len(ranges) > 0


def test_a_file_written_anew_has_its_footer_read(server, paths):
    options = {"columns": ["c3"]}
    with remote(server, **options):
        pass
    name = f"train/{paths[0].name}"
    server.put("bucket", name, paths[1].read_bytes())
    try:
        server.reset()
        with remote(server, **options) as dataset:
            assert len(server.requests) == 2
            local = [str(paths[1]), *map(str, paths[1:])]
            with FastParquetDataset(local, **options) as expected:
                assert_same(dataset, expected)
    finally:
        server.put("bucket", name, paths[0].read_bytes())


def test_footers_that_are_packed_read_the_same(server, paths, monkeypatch):
    monkeypatch.setattr("fastload.source.footers._UNPACKED_BYTES", 0)
    options = {"columns": COLUMNS, "shuffle": True, "shuffle_window": 2000}
    local = [str(path) for path in paths]
    with FastParquetDataset(local, **options) as expected:
        for _ in range(2):
            with remote(server, **options) as dataset:
                assert_same(dataset, expected)
                expected.set_epoch(0)


def wide_rows(directory):
    """Column chunks of many pages."""
    path = directory / "part.parquet"
    rows = 40_000
    columns = {f"c{i}": range(i, rows + i) for i in range(4)}
    pq.write_table(
        pa.table(columns),
        path,
        row_group_size=20_000,
        compression="none",
        use_dictionary=False,
        data_page_size=4096,
        write_page_index=True,
    )
    return path


def test_page_indexes_are_asked_for_together(server, tmp_path):
    path = wide_rows(tmp_path)
    server.put("bucket", "pages/part.parquet", path.read_bytes())
    options = {"filters": [("c0", ">=", 100), ("c0", "<", 30_000), ("c1", ">", 900)]}
    server.latency_s = LATENCY_S
    with remote(server, "gs://bucket/pages/", batch_size=50_000, **options) as dataset:
        batches = [next(iter(dataset))]
        found = rounds(server.requests)
    with FastParquetDataset(str(path), batch_size=50_000, **options) as expected:
        assert_same(batches, expected)
    # A listing, footers; of the filters' columns the page indexes, then the pages; of all
    # columns the offset indexes, then the pages.
    assert found <= 6


WORKERS = """
import json, sys
from torch.utils.data import DataLoader
from fastload import IO, FastParquetDataset
if __name__ == "__main__":
    options, context = json.loads(sys.argv[1])
    dataset = FastParquetDataset(
        "gs://bucket/train/", columns=["c3"], storage_options=options, io=IO(concurrency=4),
    )
    loader = DataLoader(dataset, batch_size=None, num_workers=2, timeout=60,
                        multiprocessing_context=context)
    print(sum(int((batch["c3"] >> 32).sum()) for batch in loader))
"""


@pytest.mark.parametrize("context", ["fork", "forkserver"])
def test_workers_ask_for_data_alone(server, paths, tmp_path, context):
    script = tmp_path / "script.py"
    script.write_text(WORKERS)
    server.latency_s = 0.005
    arguments = json.dumps([server.options, context])
    run = [sys.executable, str(script), arguments]
    with FastParquetDataset([str(path) for path in paths], columns=["c3"]) as dataset:
        expected = sum(int((batch["c3"] >> 32).sum()) for batch in dataset)

    attempts = itertools.count()

    def most_open() -> int:
        server.reset()
        found = subprocess.run(
            run,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env=os.environ | {"FASTLOAD_CACHE_DIR": str(tmp_path / f"cache-{next(attempts)}")},
        )
        assert found.returncode == 0, found.stderr
        assert int(found.stdout) == expected
        listed = [r for r in server.requests if r.range is None]
        assert len(listed) == 1
        assert len(footers(server, paths)) == FILES
        # Workers divide the concurrency of the process.
        assert most_in_flight(server.requests) <= 4
        return server.most_open

    # That which made the dataset has four, too.
    assert_few_connections(most_open, 2 * 4)


def test_a_long_listing_comes_in_pages(server, paths):
    data = paths[0].read_bytes()
    for number in range(25):
        server.put("bucket", f"many/k={number % 5}/part-{number:03}.parquet", data)
        server.put("bucket", f"many/k={number % 5}/part-{number:03}.crc", b"")
    server.page_size = 10
    try:
        with remote(server, "gs://bucket/many/k=[0-3]/*.parquet", columns=["k"]) as dataset:
            listed = [request for request in server.requests if request.range is None]
            assert len(listed) == 5
            assert len(dataset.files) == 20
            counts = itertools.chain.from_iterable(b["k"].tolist() for b in dataset)
            assert set(counts) == {0, 1, 2, 3}
    finally:
        server.page_size = 1000


def test_many_footers_are_told_of(server, capfd, monkeypatch):
    monkeypatch.setattr("fastload.runtime.progress._EVERY_S", 0.0)
    with remote(server, columns=["c3"]):
        pass
    assert f"fastload: read {FILES} of {FILES} footers" in capfd.readouterr().err
    with remote(server, columns=["c3"]):  # kept: nothing to tell
        pass
    assert "footers" not in capfd.readouterr().err


@pytest.mark.parametrize("glob", ["", "*", "**"])
def test_a_summary_file_is_no_data_file(server, tmp_path, glob):
    """Nor is its content read: a `_metadata` file may be out of date."""
    table = pa.table({"x": range(100)})
    collected = []
    directory = tmp_path / tmp_path.name  # its own place in the bucket, too
    directory.mkdir()
    path = directory / "part.parquet"
    pq.write_table(table, path, metadata_collector=collected)
    collected[0].set_file_path(path.name)
    pq.write_metadata(table.schema, directory / "_metadata", metadata_collector=collected)
    for file in directory.iterdir():
        server.put("bucket", f"{directory.name}/{file.name}", file.read_bytes())
    with FastParquetDataset(str(directory / glob)) as dataset:
        assert dataset.files == (str(path),)
    with remote(server, f"gs://bucket/{directory.name}/{glob}") as dataset:
        assert dataset.files == (f"gs://bucket/{directory.name}/part.parquet",)
    assert not [request for request in server.requests if "_metadata" in request.path]
