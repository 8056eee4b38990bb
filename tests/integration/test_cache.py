"""What was read of a store is not asked for again: by no epoch, process, filter or footer."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys

import pytest
from torch.utils.data import DataLoader

from fastload import IO, Cache, CacheError, FastParquetDataset
from support.stored_dataset import assert_same, projected_bytes
from support.stores import GcsServer

COLUMNS = ["c3", "c14", "s"]
TRANSPORTS = ["fsspec", "native"]


def remote(server, cache, transport="native", **options):
    io = IO(transport=transport, hole_bytes=4096, timeout_s=5)
    return FastParquetDataset(
        "gs://bucket/train/*.parquet",
        io=io,
        storage_options=server.options,
        cache=cache,
        **options,
    )


def local(paths, **options):
    return FastParquetDataset([str(path) for path in paths], **options)


def data_requests(server):
    return [request for request in server.requests if request.range is not None]


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"columns": COLUMNS, "shuffle": True, "shuffle_window": 2000},
        {"columns": COLUMNS, "threads": 0, "batch_size": 700},
        {"columns": COLUMNS, "filters": [("day", "<", 30)]},
        {"columns": COLUMNS, "filters": [("s", "==", "word 5")]},
        {"columns": COLUMNS, "uneven": "keep", "filters": [("day", ">", 970)]},
        {"columns": COLUMNS, "on_error": "skip", "shuffle": True},
    ],
    ids=str,
)
def test_nothing_is_asked_for_twice(server, paths, transport, options, monkeypatch, tmp_path):
    monkeypatch.setenv("FASTLOAD_CACHE_DIR", str(tmp_path / "selections"))
    with remote(server, tmp_path / "cache", transport, **options) as dataset:
        got = [list(dataset)]
        first = len(server.requests)
        got += [list(dataset) for _ in range(2)]
        assert len(server.requests) == first
    monkeypatch.setenv("FASTLOAD_CACHE_DIR", str(tmp_path / "others"))
    with remote(server, tmp_path / "cache", transport, **options) as dataset:
        again = list(dataset)
    assert [request.range for request in server.requests[first:]] == [None]
    with local(paths, **options) as dataset:
        for epoch in got:
            assert_same(epoch, dataset)
    with local(paths, **options) as dataset:
        assert_same(again, dataset)


def test_only_what_is_missing_is_asked_for(server, paths, tmp_path):
    with remote(server, tmp_path, columns=["c4", "c6"]) as dataset:
        list(dataset)
    server.reset()
    with remote(server, tmp_path, columns=["c4", "c5", "c6"], batch_size=999) as dataset:
        got = list(dataset)
    sent = sum(request.sent for request in data_requests(server))
    assert 0 < sent <= 1.02 * projected_bytes(paths, ["c5"])
    with local(paths, columns=["c4", "c5", "c6"], batch_size=999) as dataset:
        assert_same(got, dataset)


# A process of its own, with workers of its own.
SCRIPT = """
import json, sys
from torch.utils.data import DataLoader
from fastload import IO, FastParquetDataset
if __name__ == "__main__":
    options, cache, transport, workers, epochs = json.loads(sys.argv[1])
    dataset = FastParquetDataset(
        "gs://bucket/train/", columns=["c3", "c14"], storage_options=options, cache=cache,
        io=IO(transport=transport), shuffle=True, shuffle_window=2000, batch_size=500,
    )
    loader = DataLoader(dataset, batch_size=None, num_workers=workers, timeout=60 * bool(workers))
    sums = [sum(int((batch["c3"] >> 32).sum()) for batch in loader) for _ in range(epochs)]
    print(json.dumps(sums))
"""


def run_reader(server, cache, transport="auto", workers=0, epochs=1):
    arguments = json.dumps([server.options, str(cache), transport, workers, epochs])
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, arguments], stdout=subprocess.PIPE, text=True
    )


def test_processes_share_what_they_fetch(server, paths, tmp_path):
    """Three at a time fetch each range once; one after them none."""
    with local(paths, columns=["c3"]) as dataset:
        expected = sum(int((batch["c3"] >> 32).sum()) for batch in dataset)
    server.latency_s = 0.02
    readers = [run_reader(server, tmp_path, "fsspec", workers, epochs=2) for workers in (0, 0, 2)]
    outputs = [reader.communicate(timeout=60)[0] for reader in readers]
    server.latency_s = 0.0
    assert [json.loads(output) for output in outputs] == [[expected] * 2] * 3
    asked = [(request.path, request.range) for request in data_requests(server)]
    # Workers cut the epoch, and so a few row groups, where one process does not.
    assert len(asked) == len(set(asked))
    server.reset()
    output = run_reader(server, tmp_path).communicate(timeout=60)[0]
    assert json.loads(output) == [expected]
    assert not data_requests(server)


def test_another_version_is_another_file(paths, tmp_path):
    with GcsServer() as server:
        server.put("bucket", "train/a.parquet", paths[0].read_bytes())
        with remote(server, tmp_path, columns=COLUMNS) as dataset:
            list(dataset)
        server.put("bucket", "train/a.parquet", paths[1].read_bytes())
        with remote(server, tmp_path, columns=COLUMNS) as dataset:
            got = list(dataset)
    with local(paths[1:2], columns=COLUMNS) as dataset:
        assert_same(got, dataset)


def test_filesystems_that_are_given(server, paths, tmp_path):
    from gcsfs.core import GCSFileSystem
    from pyarrow.fs import LocalFileSystem

    filesystem = GCSFileSystem(**server.options)
    for _ in range(2):
        with FastParquetDataset(
            "bucket/train", filesystem=filesystem, columns=COLUMNS, cache=tmp_path / "gcs"
        ) as dataset:
            got = list(dataset)
            asked = len(data_requests(server))
    assert len(data_requests(server)) == asked
    with local(paths, columns=COLUMNS) as dataset:
        assert_same(got, dataset)
    # What lies on this machine is not kept a second time.
    directory, cache = str(paths[0].parent), tmp_path / "near"
    raw = {"columns": COLUMNS, "cache": cache}
    for options in ({"filesystem": LocalFileSystem(), **raw}, raw):
        with FastParquetDataset(directory, **options) as dataset:
            assert len(list(dataset)) == len(got)
    assert not list(cache.rglob("[0-9]*-[0-9]*"))


def test_a_loader_with_workers(server, tmp_path):
    with remote(server, tmp_path, "fsspec", columns=COLUMNS) as dataset:
        loader = DataLoader(dataset, batch_size=None, num_workers=2)
        for _ in loader:
            pass
        asked = len(data_requests(server))
        for _ in itertools.chain(loader, loader):
            pass
        assert len(data_requests(server)) == asked


def test_arguments(server, tmp_path):
    for wrong in (
        lambda: Cache(7),
        lambda: Cache("x", max_bytes=1.5),
        lambda: Cache("x", raw="yes"),
        lambda: Cache("x", prepared=1),
        lambda: Cache("x", key=3),
        lambda: remote(server, 7),
    ):
        with pytest.raises(TypeError, match="Expected"):
            wrong()
    with pytest.raises(ValueError, match="max_bytes of Cache"):
        Cache("x", max_bytes="lots")
    off = Cache(tmp_path / "off", raw=False, prepared=False)
    with remote(server, off, columns=COLUMNS) as dataset:
        list(dataset)
    assert not (tmp_path / "off").exists()
    with remote(server, tmp_path / "a" / "b", columns=COLUMNS):
        assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700


def test_the_directory_is_this_users_alone(server, tmp_path):
    (tmp_path / "raw-1").mkdir()
    (tmp_path / "raw-1").chmod(0o777)
    with pytest.raises(CacheError, match="only its user may write to"):
        remote(server, tmp_path)
