"""Nothing is left of passes that were abandoned, and of datasets that were dropped."""

import gc
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fastload import FastParquetDataset
from support.sample_files import write_sample


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_sample(tmp_path_factory.mktemp("leaks") / "sample.parquet", 50_000, 5000)


def held():
    """Threads, file descriptors, and resident bytes of this process."""
    gc.collect()
    status = dict(
        line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines()
    )
    descriptors = len(os.listdir("/proc/self/fd"))
    return int(status["Threads"]), descriptors, int(status["VmRSS"].split()[0]) * 1024


def abandon(dataset):
    running = iter(dataset)
    for _ in range(25):
        next(running)


def wait_for_nothing_in_use(dataset):
    """Tasks of an abandoned pass that had begun may still end."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        used = dataset._engine.pipeline.counts()["memory_used"]
        if used == 0:
            return
        time.sleep(0.01)
    pytest.fail(f"{used} bytes of batches and reads are in use")


# Tasks that end after their pass make the peak vary by this much; a block of batches or reads
# left by each of 200 passes would be several times more.
RESIDENT_BYTES = 40 << 20


@pytest.mark.parametrize("options", [{"batch_size": 1000, "shuffle": True}, {"batch_size": 1000}])
def test_two_hundred_passes_of_a_dataset(path, options):
    at_first = held()
    dataset = FastParquetDataset(path, threads=2, **options)
    for _ in range(20):
        abandon(dataset)
    before = held()
    for _ in range(200):
        abandon(dataset)
    after = held()
    assert after[:2] == before[:2]
    assert after[2] < before[2] + RESIDENT_BYTES
    list(dataset)
    dataset.set_epoch(0)  # not the one whose first windows have been read
    wait_for_nothing_in_use(dataset)
    dataset.close()
    assert held()[0] == at_first[0]
    del dataset
    assert held()[:2] == at_first[:2]


DATASETS = """
import json, sys
from fastload import FastParquetDataset
from test_leaks import abandon, held
marks = [held()]
for passes in (100, 200, 200):
    for _ in range(passes):
        abandon(FastParquetDataset(sys.argv[1], batch_size=1000, threads=2))
    marks.append(held())
print(json.dumps(marks))
"""


def test_two_hundred_datasets(path):
    """In a process of its own, whose heap other tests have not left in pieces."""
    done = subprocess.run(
        [sys.executable, "-c", DATASETS, path],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    at_first, before, *after = json.loads(done.stdout)
    for counts in (before, *after):
        assert counts[:2] == at_first[:2]
    # The peaks differ more where other processes hold the threads up; a leak would grow on.
    assert min(counts[2] for counts in after) < before[2] + RESIDENT_BYTES


def test_refused_datasets_leave_nothing(path):
    before = held()
    for _ in range(50):
        with pytest.raises(KeyError):
            FastParquetDataset(path, columns=["none"])
        with pytest.raises(ValueError, match="memory_budget"):
            FastParquetDataset(path, memory_budget=10)
    after = held()
    assert after[:2] == before[:2]


def test_no_threads_before_the_first_pass(path):
    before = held()[0]
    with FastParquetDataset(path, threads=4) as dataset:
        assert len(dataset) == 49
        assert held()[0] == before
        next(iter(dataset))
        assert held()[0] > before
    assert held()[0] == before
