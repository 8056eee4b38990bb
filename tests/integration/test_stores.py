"""What lies in an object store is read as local files are, in few and small requests."""

from __future__ import annotations

import itertools
import json
import pickle
import subprocess
import sys
import threading
import time

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from torch.utils.data import DataLoader

from fastload import IO, FastParquetDataset, StorageError
from support.stepped_dataset import TIMEOUT_S
from support.stored_dataset import FILES, assert_same, projected_bytes, served
from support.stores import assert_few_connections

COLUMNS = ["c3", "c14", "s"]
TRANSPORTS = ["fsspec", "native"]


@pytest.fixture(scope="module")
def shared_server(paths):
    with served(paths) as server:
        server.put("bucket", "train/_SUCCESS", b"")
        yield server


def remote(server, transport="native", *, concurrency=64, hole_bytes=4096, **options):
    io = IO(transport=transport, concurrency=concurrency, hole_bytes=hole_bytes)
    return FastParquetDataset(
        "gs://bucket/train/*.parquet", io=io, storage_options=server.options, **options
    )


def local(paths, **options):
    return FastParquetDataset([str(path) for path in paths], **options)


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"columns": COLUMNS, "shuffle": True, "shuffle_window": 2000},
        {"columns": COLUMNS, "threads": 0, "batch_size": 700},
        {"columns": COLUMNS, "shuffle": True, "memory_budget": "12MB", "shuffle_window": 2000},
        {"columns": COLUMNS, "filters": [("day", "<", 30)]},
        {"columns": COLUMNS, "filters": [("s", "==", "word 5")]},
        {"columns": COLUMNS, "split": ("s", 0, 0.2), "uneven": "keep"},
        {"columns": COLUMNS, "uneven": "keep", "filters": [("day", ">", 970)]},
        {"columns": COLUMNS, "preprocess": lambda block: {"sum": block["c3"] + block["c14"]}},
        {"columns": COLUMNS, "on_error": "skip", "shuffle": True},
    ],
    ids=", ".join,
)
def test_as_local(server, paths, transport, options, monkeypatch, tmp_path):
    monkeypatch.setenv("FASTLOAD_CACHE_DIR", str(tmp_path))  # each finds its rows itself
    with remote(server, transport, **options) as dataset:
        got = [list(dataset) for _ in range(2)]
        files = dataset.files
    monkeypatch.setenv("FASTLOAD_CACHE_DIR", str(tmp_path / "other"))
    with local(paths, **options) as dataset:
        for epoch in got:
            assert_same(epoch, dataset)
    assert files == tuple(f"gs://bucket/train/{path.name}" for path in paths)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_requests_are_those_of_the_plan(server, paths, transport):
    with remote(server, transport, columns=COLUMNS) as dataset:
        opened = list(server.requests)
        list(dataset)
        read = server.requests[len(opened) :]
        assert dataset.stats().read.bytes == sum(request.sent for request in read)
        assert dataset.stats().requests == len(read)
    # A listing, and the end of each file.
    assert [request.range is None for request in opened] == [True] + [False] * FILES
    bytes_read = sum(request.sent for request in read)
    assert bytes_read <= 1.02 * projected_bytes(paths, COLUMNS)
    # Three columns that don't touch, five row groups a file.
    assert len(read) <= FILES * 5 * 3
    assert {request.status for request in read} == {206}
    assert {r.query["generation"] for r in read} == {
        r.query["generation"] for r in opened if r.range is not None
    }


def test_neighbours_come_in_one_request(server):
    with remote(server, columns=["c4", "c5", "c6"]) as dataset:
        opened = len(server.requests)
        list(dataset)
    # Four row groups a file, and in three files one more of a few rows.
    assert len(server.requests) - opened <= FILES * 5


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_connections_are_few_and_used_again(server, transport):
    server.latency_s = 0.005

    def opened() -> int:
        server.reset()
        with remote(server, transport, columns=COLUMNS, concurrency=5) as dataset:
            for _ in range(3):
                list(dataset)
        return server.connections

    # Those that listed, and those that read.
    assert_few_connections(opened, 2 * 5)


def test_requests_wait_for_each_other_in_few_rounds(server):
    with remote(server, columns=COLUMNS, batch_size=100_000) as dataset:
        together = threading.Barrier(10)
        held = iter(range(together.parties))

        def meet(request):
            if next(held, None) is not None:
                together.wait(TIMEOUT_S)  # raises if so many requests are not in flight together

        opened = len(server.requests)
        server.fault = meet
        list(dataset)
        assert not together.broken, "requests should be in flight together"
        assert len(server.requests) > opened + 20


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_resume(server, paths, transport):
    options = {"columns": COLUMNS, "shuffle": True, "shuffle_window": 2000, "batch_size": 500}
    with remote(server, transport, **options) as dataset:
        rows = iter(dataset)
        list(itertools.islice(rows, 7))
        state = dataset.state_dict()
    with remote(server, transport, **options) as dataset:
        dataset.load_state_dict(state)
        rest = list(dataset)
    with local(paths, **options) as dataset:
        assert_same(rest, itertools.islice(dataset, 7, None))


# Reads in the real order: the dataset is made, its footers are read, workers begin.
SCRIPT = """
import json, multiprocessing, sys
from torch.utils.data import DataLoader
from fastload import IO, FastParquetDataset
if __name__ == "__main__":
    multiprocessing.set_forkserver_preload(["fastload"])
    options, transport, contexts = json.loads(sys.argv[1])
    sums = []
    for context in contexts:
        dataset = FastParquetDataset(
            "gs://bucket/train/", columns=["c3"], storage_options=options,
            io=IO(transport=transport, concurrency=4), shuffle=True,
        )
        loader = DataLoader(dataset, batch_size=None, num_workers=2, timeout=60,
                            multiprocessing_context=context)
        passes = 1 if context == "spawn" else 2  # a spawned worker imports torch
        sums += [sum(int((batch["c3"] >> 32).sum()) for batch in loader) for _ in range(passes)]
        sums.append(sum(int((batch["c3"] >> 32).sum()) for batch in dataset))
        dataset.close()
    print(json.dumps(sums))
"""


@pytest.mark.parametrize(
    ("transport", "contexts"),
    [
        ("fsspec", ["fork", "forkserver"]),
        ("native", ["fork"]),
        ("native", ["forkserver"]),
        # The second time workers are forked from a process that has read by itself.
        ("auto", ["fork", "fork", "spawn"]),
    ],
)
def test_workers(server, paths, transport, contexts, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    arguments = json.dumps([server.options, transport, contexts])
    run = [sys.executable, str(script), arguments]
    found = subprocess.run(run, capture_output=True, text=True, timeout=120, check=False)
    assert found.returncode == 0, found.stderr
    assert "Error" not in found.stderr, found.stderr
    with local(paths, columns=["c3"]) as dataset:
        expected = sum(int((batch["c3"] >> 32).sum()) for batch in dataset)
    passes = sum(2 if context == "spawn" else 3 for context in contexts)
    assert json.loads(found.stdout) == [expected] * passes
    # The process that lists, and its workers, who share the concurrency.
    assert server.most_open <= 2 * 4 + 4


def test_a_forked_worker_does_not_touch_the_native_client(server):
    with remote(server, "native", columns=["c3"]) as dataset:
        list(dataset)
        loader = DataLoader(dataset, batch_size=None, num_workers=1, timeout=60)
        batches = iter(loader)
        with pytest.raises(StorageError, match='multiprocessing_context="forkserver"'):
            next(batches)
        batches._shutdown_workers()


@pytest.mark.parametrize("kind", ["fsspec", "memory", "pyarrow"])
def test_a_filesystem_of_the_user(server, paths, kind):
    options = {"columns": COLUMNS, "shuffle": True}
    if kind == "pyarrow":
        from pyarrow.fs import LocalFileSystem

        filesystem, source = LocalFileSystem(), str(paths[0].parent)
    elif kind == "memory":
        filesystem, source = fsspec.filesystem("memory"), "/train"
        for path in paths:
            filesystem.pipe_file(f"/train/{path.name}", path.read_bytes())
    else:
        from gcsfs.core import GCSFileSystem

        filesystem, source = GCSFileSystem(**server.options), "bucket/train"
    dataset = FastParquetDataset(source, filesystem=filesystem, **options)
    with dataset, local(paths, **options) as expected:
        assert_same(dataset, expected)
        if kind != "memory":  # which is another one in another process
            assert_same(pickle.loads(pickle.dumps(dataset)), expected)


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("name", ["a#b.parquet", "#1.parquet", "a?b.parquet", "a%20b+c d.parquet"])
def test_names_that_are_no_urls(server, paths, transport, name):
    server.put("bucket", f"odd/{name}", paths[0].read_bytes())
    options = {"columns": COLUMNS}
    with local(paths[:1], **options) as expected:
        for url in ("gs://bucket/odd/", f"gs://bucket/odd/{name}"):
            io = IO(transport=transport)
            with FastParquetDataset(
                url, io=io, storage_options=server.options, **options
            ) as dataset:
                assert_same(dataset, expected)
    server.delete("bucket", f"odd/{name}")


def test_names_that_obstore_refuses(server, paths):
    server.put("bucket", "odd/a//b.parquet", paths[0].read_bytes())
    options = {"columns": COLUMNS}
    with local(paths[:1], **options) as expected:
        dataset = FastParquetDataset("gs://bucket/odd/", storage_options=server.options, **options)
        with dataset:
            assert_same(dataset, expected)
    server.delete("bucket", "odd/a//b.parquet")


def test_over_http(server, paths):
    url = f"{server.url}/bucket/train/{paths[0].name}"
    for transport in TRANSPORTS:
        dataset = FastParquetDataset(url, columns=COLUMNS, io=IO(transport=transport))
        with dataset, local(paths[:1], columns=COLUMNS) as expected:
            assert_same(dataset, expected)


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("scheme", ["gs", "http"])
def test_through_the_proxy_of_the_environment(server, paths, transport, scheme, monkeypatch):
    for name in ("http_proxy", "https_proxy", "no_proxy", "HTTPS_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTP_PROXY", server.url)  # which alone knows the host below
    unknown = "http://store.invalid"
    options = {"endpoint_url": unknown, "token": "anon"} if scheme == "gs" else {}
    within = "gs://bucket" if scheme == "gs" else f"{unknown}/bucket"
    urls = [f"{within}/train/{path.name}" for path in paths]
    io = IO(transport=transport, retries=0)
    dataset = FastParquetDataset(urls, columns=COLUMNS, storage_options=options, io=io)
    with dataset, local(paths, columns=COLUMNS) as expected:
        assert_same(dataset, expected)


def test_python_is_free_while_bytes_move(server):
    """The thread that asks for a batch waits without the GIL."""
    server.latency_s = 0.3
    ticks = 0
    over = threading.Event()

    def tick():
        nonlocal ticks
        while not over.wait(0.01):
            ticks += 1

    with remote(server, columns=["c3"], limit=1000) as dataset:
        thread = threading.Thread(target=tick)
        thread.start()
        next(iter(dataset))
        over.set()
        thread.join()
    assert ticks > 20


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_slow_store_is_the_bottleneck(server, transport, shuffle):
    with remote(server, transport, concurrency=1, columns=COLUMNS, shuffle=shuffle) as dataset:
        server.latency_s = 0.05
        assert sum(1 for _ in dataset) > 1
        assert dataset.stats().bottleneck == "read"


def test_a_slow_loop_over_a_slow_store_is_the_bottleneck(server):
    with remote(server, concurrency=1, columns=COLUMNS) as dataset:
        server.latency_s = 0.01
        for _ in dataset:
            time.sleep(0.05)
        assert dataset.stats().bottleneck == "consumer"


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_what_is_asked_for_ahead_keeps_to_the_budget(server, paths, transport):
    """A consumer that stops has only so much read."""
    options = {"memory_budget": "6MB", "batch_size": 500}
    with remote(server, transport, **options) as dataset:
        opened = len(server.requests)
        next(iter(dataset))
        time.sleep(0.3)
        read = sum(request.sent for request in server.requests[opened:])
    assert 0 < read < 0.9 * projected_bytes(paths, [*dataset.schema])
    with remote(server, transport, **options) as dataset, local(paths, **options) as expected:
        assert_same(dataset, expected)


def test_a_budget_that_leaves_little_for_reading_is_told(tmp_path):
    table = pa.table({f"c{k}": np.arange(100_000) for k in range(4)})
    pq.write_table(table, tmp_path / "a.parquet")
    small = {"batch_size": 40_000, "memory_budget": "5MB"}
    with served([tmp_path / "a.parquet"]) as server:
        options = {"storage_options": server.options, **small}
        with FastParquetDataset("gs://bucket/train/a.parquet", **options) as dataset:
            with pytest.warns(
                UserWarning, match="leaves 312500 bytes for data on its way from the store"
            ):
                iter(dataset)
            assert sum(batch.rows for batch in dataset) == table.num_rows
    # Of a local file nobody waits for requests.
    with FastParquetDataset(tmp_path / "a.parquet", **small) as dataset:
        assert sum(batch.rows for batch in dataset) == table.num_rows
