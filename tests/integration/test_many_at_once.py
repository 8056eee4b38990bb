"""Many datasets, threads and processes at the same time, each with its own rows."""

import hashlib
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

import pytest

from fastload import FastParquetDataset
from support.sample_files import ids_of, write_sample
from support.stored_dataset import served, write_files

ROWS = 4000
BATCH = 100


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_sample(tmp_path_factory.mktemp("many") / "sample.parquet", ROWS, 500)


def dataset_of(path, seed=0, **options):
    options = {"batch_size": BATCH, "shuffle": True, "shuffle_window": 1000, **options}
    return FastParquetDataset(path, seed=seed, memory_budget="64MB", **options)


def expected(path, seed, epochs=1):
    with dataset_of(path, seed, threads=0) as dataset:
        return [ids_of(dataset) for _ in range(epochs)]


def test_datasets_in_turns(path):
    """Eight, of which each gives a batch when the others have."""
    datasets = [dataset_of(path, seed, threads=2) for seed in range(8)]
    running = [iter(dataset) for dataset in datasets]
    found = [[] for _ in datasets]
    for _ in range(ROWS // BATCH):
        for rows, batches in zip(found, running, strict=True):
            rows += next(batches)["id"].tolist()
    assert found == [expected(path, seed)[0] for seed in range(8)]
    for dataset in datasets:
        dataset.close()


def test_threads_with_a_dataset_each(path):
    began = threading.Barrier(32)

    def run(seed):
        with dataset_of(path, seed, threads=1) as dataset:
            began.wait()
            return [ids_of(dataset) for _ in range(2)]

    with ThreadPoolExecutor(32) as pool:
        found = list(pool.map(run, range(32)))
    assert found[3] == expected(path, 3, epochs=2)
    for epochs in found:
        assert [sorted(rows) for rows in epochs] == [list(range(ROWS))] * 2
    assert len({tuple(rows) for epochs in found for rows in epochs}) == 64


@pytest.mark.parametrize("threads", [0, 2])
def test_a_pass_that_another_thread_begins_ends_this_one(path, threads):
    """Whoever waits for its next batch is told, and the new pass has all rows."""
    with dataset_of(path, threads=threads) as dataset:
        orders = expected(path, 0, epochs=40)
        for epoch in range(0, 40, 2):
            old = iter(dataset)
            first = ids_of(islice(old, epoch % 7))
            told = []

            def go_on(old=old, first=first, told=told):
                try:
                    first += ids_of(old)
                except Exception as error:  # noqa: BLE001 - all there is, compared below
                    told.append(f"{type(error).__name__}: {error}")

            thread = threading.Thread(target=go_on)
            thread.start()
            new = iter(dataset)
            assert ids_of(new) == orders[epoch + 1]
            thread.join(20)
            assert not thread.is_alive()
            assert first == orders[epoch][: len(first)]
            if len(first) < ROWS:
                assert "RuntimeError: A second iter() of the dataset ended" in told.pop()
            assert not told


def test_close_from_another_thread(path):
    for _ in range(10):
        dataset = dataset_of(path, threads=2)
        batches = iter(dataset)
        next(batches)
        thread = threading.Thread(target=dataset.close)
        thread.start()
        with pytest.raises(RuntimeError, match=r"close\(\) of the dataset ended this pass after"):
            ids_of(batches)
        thread.join(20)
        assert not thread.is_alive()


READER = """
import hashlib, sys
from fastload import IO, Cache, FastParquetDataset
url, directory, seed = sys.argv[1], sys.argv[2], int(sys.argv[3])
dataset = FastParquetDataset(
    "gs://bucket/train/*.parquet", shuffle=True, shuffle_window=2000, seed=seed,
    io=IO(transport="native", timeout_s=10), cache=Cache(directory, max_bytes=1 << 20),
    storage_options={"endpoint_url": url, "token": "anon"},
)
with dataset:
    for _ in range(3):
        rows = sorted(h for batch in dataset for h in batch["c3"].tolist())
        print(hashlib.sha256(repr(rows).encode()).hexdigest(), flush=True)
"""


def test_processes_with_one_cache(tmp_path):
    """Three, in a cache that has no room for all they read."""
    paths = write_files(tmp_path)
    with FastParquetDataset([str(path) for path in paths], columns=["c3"]) as dataset:
        rows = sorted(h for batch in dataset for h in batch["c3"].tolist())
    with served(paths) as server:
        command = [sys.executable, "-c", READER, server.url, str(tmp_path / "cache")]
        readers = [
            subprocess.Popen(
                [*command, str(seed)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
            for seed in range(3)
        ]
        told = [reader.communicate(timeout=100) for reader in readers]
    right = hashlib.sha256(repr(rows).encode()).hexdigest()
    assert [out.split() for out, _ in told] == [[right] * 3] * 3, told
