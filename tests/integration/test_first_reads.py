"""A second start asks for its first bytes beside the listing, and believes the listing alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from fastload import IO, Cache, FastloadError, FastParquetDataset
from stored_dataset import assert_same, served, write_files
from stores import Fault, rounds

COLUMNS = ["c3", "c14", "s"]
TRANSPORTS = ["fsspec", "native"]
# Requests of a round are begun within it on a busy machine, too.
LATENCY_S = 0.5


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    return write_files(tmp_path_factory.mktemp("first"))


@pytest.fixture
def server(paths, tmp_path, monkeypatch):
    monkeypatch.setenv("FASTLOAD_CACHE_DIR", str(tmp_path / "cache"))
    with served(paths) as server:
        yield server


def remote(server, transport="native", source="gs://bucket/train/", **options):
    options = {"columns": COLUMNS, "io": IO(transport=transport)} | options
    return FastParquetDataset(source, storage_options=server.options, **options)


def data(server):
    """Requests of ranges."""
    return [request for request in server.requests if request.range is not None]


def start(server, **options) -> int:
    """Rounds of requests until a dataset is made and has given its first batch, of a whole pass."""
    server.reset()
    with remote(server, **options) as dataset:
        batches = iter(dataset)
        next(batches)
        found = rounds(server.requests)
        for _ in batches:
            pass
    return found


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("listed", [True, False])
def test_rounds_to_the_first_batch(server, paths, transport, listed):
    server.latency_s = LATENCY_S
    source = "gs://bucket/train/" if listed else [f"gs://bucket/train/{p.name}" for p in paths]
    options = {"transport": transport, "source": source, "limit": 1000}
    # A listing (or a look at each file), footers, data; then footers are kept.
    assert [start(server, **options) for _ in range(3)] == [3, 1, 1]


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("options", [{}, {"shuffle": True, "seed": 3}, {"memory_budget": "12MB"}])
def test_nothing_is_read_twice(server, paths, transport, options):
    with FastParquetDataset([str(path) for path in paths], columns=COLUMNS, **options) as local:
        expected = list(local)
    for _ in range(3):
        server.reset()
        with remote(server, transport, **options) as dataset:
            assert_same(dataset, expected)
        ranges = [(request.path, request.range) for request in data(server)]
        assert len(set(ranges)) == len(ranges)


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("decoded", [False, True])
def test_an_empty_cache_takes_no_further_round(server, transport, decoded, tmp_path):
    server.latency_s = LATENCY_S

    def started(name):
        cache = Cache(tmp_path / name, decoded=decoded)
        return start(server, transport=transport, limit=1000, cache=cache)

    assert started("first") == 3
    assert started("second") == 1
    ranges = [(request.path, request.range) for request in data(server)]
    assert len(set(ranges)) == len(ranges) > 0
    # All of it was kept, and is not asked for again.
    assert started("second") == 1
    assert data(server) == []


def add(server, paths):
    server.put("bucket", "train/part-00.parquet", paths[1].read_bytes())


def remove(server, paths):
    server.delete("bucket", f"train/{paths[0].name}")


def rewrite(server, paths):
    server.put("bucket", f"train/{paths[0].name}", paths[2].read_bytes())


def damage(server, paths):
    server.put("bucket", f"train/{paths[0].name}", paths[0].read_bytes()[:-9] + b"x" * 9)


def forbid(server, paths):
    server.fault = lambda request: Fault(403)


def forbid_data(server, paths):
    server.fault = lambda request: Fault(403) if request.range else None


def forbid_listing(server, paths):
    server.fault = lambda request: None if request.range else Fault(403)


def empty(server, paths):
    for path in paths:
        server.delete("bucket", f"train/{path.name}")


CHANGES = [add, remove, rewrite, damage, forbid, forbid_data, forbid_listing, empty]


def outcome(server, transport):
    """Batches, or which error is raised where."""
    made = False
    try:
        with remote(server, transport) as dataset:
            made = True
            return len(dataset), list(dataset)
    except FastloadError as error:
        return made, type(error), str(error)


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("change", CHANGES)
def test_what_changed_is_as_without(server, paths, transport, change, monkeypatch, tmp_path):
    start(server, transport=transport)
    change(server, paths)
    got = outcome(server, transport)
    monkeypatch.setenv("FASTLOAD_CACHE_DIR", str(tmp_path / "empty"))
    if change is forbid_data:  # so that footers are kept, and nothing else
        server.fault = lambda request: None
        with remote(server, transport):
            forbid_data(server, paths)
    expected = outcome(server, transport)
    assert got[0] == expected[0]
    if isinstance(got[1], list):
        assert_same(got[1], expected[1])
    else:
        assert got == expected


def test_a_guess_is_made_once(server):
    """Where no pass begins as before, nothing is read ahead at the start after that."""
    start(server)
    read = []
    for _ in range(2):
        server.reset()
        with remote(server) as dataset:
            len(dataset)
            read.append(len(data(server)))
    assert read[0] > 0
    assert read[1] == 0


def test_arguments_tell_datasets_apart(server):
    start(server)
    for options in ({"columns": ["c5"]}, {"shuffle": True}, {"limit": 7}):
        server.reset()
        with remote(server, **options):
            assert not data(server)


@pytest.mark.parametrize("content", [b"", b"{}", b"[[1]]", b'[["gs", ["b/x", 9, ""], 3, 20]]'])
def test_a_damaged_guess_is_none(server, tmp_path, content):
    start(server)
    (kept,) = (tmp_path / "cache" / "first-reads-1").iterdir()
    kept.write_bytes(content)
    server.reset()
    with remote(server):
        assert not data(server)


def test_few_are_remembered(server, tmp_path, monkeypatch):
    monkeypatch.setattr("fastload.source.stores.first_reads._MOST_KEPT", 2)
    for seed in range(4):
        start(server, seed=seed)
    assert len(os.listdir(tmp_path / "cache" / "first-reads-1")) == 2


WORKERS = """
import json, sys
from torch.utils.data import DataLoader
from fastload import FastParquetDataset
if __name__ == "__main__":
    options, context = json.loads(sys.argv[1])
    dataset = FastParquetDataset("gs://bucket/train/", columns=["c3"], storage_options=options)
    if context is None:
        loader = dataset
    else:
        loader = DataLoader(dataset, batch_size=None, num_workers=2, timeout=60,
                            multiprocessing_context=context)
    print(sum(int((batch["c3"] >> 32).sum()) for batch in loader))
"""


@pytest.mark.parametrize("context", ["fork", "spawn", "forkserver"])
def test_workers(server, paths, tmp_path, context):
    """They list nothing, and the start after theirs reads nothing ahead."""
    script = tmp_path / "script.py"
    script.write_text(WORKERS)
    with FastParquetDataset([str(path) for path in paths], columns=["c3"]) as dataset:
        expected = sum(int((batch["c3"] >> 32).sum()) for batch in dataset)

    def run(context):
        server.reset()
        arguments = json.dumps([server.options, context])
        done = subprocess.run(
            [sys.executable, str(script), arguments],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env=dict(os.environ),
        )
        assert done.returncode == 0, done.stderr
        assert int(done.stdout) == expected
        assert len([request for request in server.requests if request.range is None]) == 1
        return len(data(server))

    run(None)
    guessed, alone = run(context), run(context)
    assert guessed > alone
    assert os.listdir(tmp_path / "cache" / "first-reads-1") == []
