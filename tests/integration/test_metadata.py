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
from support.stored_dataset import FILES, assert_same, served, write_files
from support.stores import assert_few_connections, most_in_flight, rounds

COLUMNS = ["c3", "c14", "s"]
LATENCY_S = 0.15


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    return write_files(tmp_path_factory.mktemp("metadata"))


@pytest.fixture(scope="module")
def shared_server(paths):
    with served(paths) as server:
        yield server


@pytest.fixture
def server(shared_server, tmp_path, monkeypatch):
    monkeypatch.setenv("FASTLOAD_CACHE_DIR", str(tmp_path / "cache"))
    shared_server.reset()
    yield shared_server
    shared_server.latency_s = 0.0


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
    monkeypatch.setattr("fastload.source.footers._PARSED_BYTES", 0)
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
    monkeypatch.setattr("fastload.runtime.progress_line._EVERY_S", 0.0)
    with remote(server, columns=["c3"]):
        pass
    assert f"fastload: read {FILES} of {FILES} footers" in capfd.readouterr().err
    with remote(server, columns=["c3"]):  # kept: nothing to tell
        pass
    assert "footers" not in capfd.readouterr().err


def write_with_summary(directory, files=6):
    """Files of a hive directory, and a `_metadata` that names them."""
    collected = []
    for number in range(files):
        folder = directory / f"k={number % 2}"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"part-{number}.parquet"
        table = pa.table({"x": range(100 * number, 100 * number + 90 + number)})
        pq.write_table(table, path, row_group_size=40, metadata_collector=collected)
        collected[-1].set_file_path(f"k={number % 2}/part-{number}.parquet")
    pq.write_metadata(table.schema, directory / "_metadata", metadata_collector=collected)
    return sorted(directory.glob("k=*/*.parquet"))


def upload(server, directory, paths):
    for path in [*paths, directory / "_metadata"]:
        name = path.relative_to(directory).as_posix()
        server.put("bucket", f"{directory.name}/{name}", path.read_bytes())


def url_of(directory):
    return f"gs://bucket/{directory.name}/"


def values(dataset):
    return [value for batch in dataset for value in batch["x"].tolist()]


@pytest.fixture
def summarized(tmp_path):
    directory = tmp_path / tmp_path.name  # its own place in the bucket, too
    return directory, write_with_summary(directory)


@pytest.mark.parametrize("glob", [False, True])
def test_a_summary_file_stands_for_footers(server, summarized, glob):
    directory, paths = summarized
    upload(server, directory, paths)
    with FastParquetDataset([str(path) for path in paths]) as dataset:
        expected = values(dataset)
    with remote(server, url_of(directory) + ("*/*" if glob else "")) as dataset:
        # The listing, the summary, and two footers that speak for it.
        assert len(server.requests) == 4
        assert values(dataset) == expected
        assert list(dataset.schema) == ["x", "k"]
    server.reset()
    with remote(server, url_of(directory)) as dataset:
        assert len([r for r in server.requests if r.range is None]) == 1
        assert values(dataset) == expected


def test_a_local_summary_file(summarized, monkeypatch, caplog):
    directory, paths = summarized
    read = []
    real = os.pread
    monkeypatch.setattr(os, "pread", lambda *of: read.append(of) or real(*of))
    with FastParquetDataset(directory) as dataset:
        assert len(read) == 3
        got = values(dataset)
    (directory / "_metadata").unlink()
    with FastParquetDataset(directory) as dataset:
        assert values(dataset) == got
        assert dataset.files == tuple(map(str, paths))
    assert not caplog.messages


@pytest.mark.parametrize("wrong", ["rewritten", "added", "other", "damaged"])
def test_a_summary_file_that_does_not_fit(server, summarized, wrong, caplog):
    directory, paths = summarized
    upload(server, directory, paths)
    other = pa.table({"x": pa.array(range(7), pa.int32())})
    if wrong == "rewritten":  # in the middle, where no footer is looked at
        pq.write_table(other, paths[2])
        server.put("bucket", f"{directory.name}/k=0/{paths[2].name}", paths[2].read_bytes())
    elif wrong == "added":
        added = directory / "k=0" / "part-3b.parquet"
        pq.write_table(other, added)
        paths = sorted([*paths, added])
        server.put("bucket", f"{directory.name}/k=0/part-3b.parquet", added.read_bytes())
    elif wrong == "other":  # with times that say nothing
        pq.write_table(other, paths[0])
        os.utime(paths[0], ns=(1, 1))
        for path in [*paths, directory / "_metadata"]:
            name = path.relative_to(directory).as_posix()
            server.put("bucket", f"{directory.name}/{name}", path.read_bytes())
    else:
        (directory / "_metadata").write_bytes(b"PAR1" * 10)
        server.put("bucket", f"{directory.name}/_metadata", b"PAR1" * 10)
    with FastParquetDataset([str(path) for path in paths]) as dataset:
        expected = values(dataset)
    for make in (lambda: FastParquetDataset(directory), lambda: remote(server, url_of(directory))):
        caplog.clear()
        with make() as dataset:
            assert values(dataset) == expected
        assert "the summary file doesn't fit" in "".join(caplog.messages)
