"""Threads that call steps: how far they look ahead, how they end, and in which process."""

import gc
import threading
import time

import pytest
import torch
from torch.utils.data import DataLoader

from fastload import per_row
from fastload.steps.per_row import RowJob
from fastload.steps.thread_pool import StepPool
from support.sample_files import ids_of, write_sample
from support.stepped_dataset import (
    DESCRIBE,
    ROWS,
    STEPS,
    TIMEOUT_S,
    check,
    dataset_of,
    draw,
    threads_of_steps,
    until,
    wait_for_decoding,
)

pytestmark = pytest.mark.filterwarnings("ignore:Row group .* is left out")


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_sample(tmp_path_factory.mktemp("steps") / "a.parquet", ROWS, 70)


@pytest.mark.parametrize("prefetch", [0, 1, 4])
def test_rows_of_the_next_batches_are_in_work_but_no_more(path, prefetch, monkeypatch):
    wait_for_decoding(monkeypatch)
    called = []

    def look(number):
        called.append(number)
        return number

    with dataset_of(path, per_row(look, "id", "n", threads=2), prefetch=prefetch) as dataset:
        iterator = iter(dataset)
        next(iterator)
        next(iterator)
        most = 40 * (2 + min(prefetch, 2))
        until(lambda: len(called) >= most)
        time.sleep(0.05)
        assert sorted(called) == list(range(most))
        assert 1 <= len(threads_of_steps()) <= 2
        assert dataset.stats().steps_s > 0
    until(lambda: not threads_of_steps())


def test_look_ahead_leaves_memory_for_those_who_keep_batches(path):
    with dataset_of(path, per_row(len, "name", "n", threads=2), memory_budget="2MB") as dataset:
        batches = list(dataset)
        assert dataset.stats().copied_batches == 0
    assert ids_of(batches) == list(range(ROWS))


def test_closing_in_mid_pass_ends_threads_at_once(path):
    called = []

    def slow(number):
        called.append(number)
        time.sleep(0.02)
        return number

    dataset = dataset_of(path, per_row(slow, "id", "n", threads=2), batch_size=400)

    def consume(dataset):
        with pytest.raises(RuntimeError, match=r"close\(\) of the dataset ended this pass"):
            next(iter(dataset))

    running = threading.Thread(target=consume, args=[dataset])
    running.start()
    until(threads_of_steps)
    dataset.close()
    running.join(TIMEOUT_S)
    assert not running.is_alive()
    assert len(called) < 400
    assert not threads_of_steps()
    dataset.close()
    dataset = dataset_of(path, DESCRIBE)
    next(iter(dataset))
    assert threads_of_steps()
    del dataset
    gc.collect()
    until(lambda: not threads_of_steps())


def test_rows_of_a_pool_that_was_closed_are_not_waited_for():
    """While its threads are still in their turns, too."""
    pool, free = StepPool(2), threading.Event()
    step = per_row(lambda _: free.wait(TIMEOUT_S), "x", "y", threads=2)
    jobs = [RowJob(step, [torch.arange(8)], 8, str) for _ in range(2)]
    pool.begin(jobs[0])
    closing = threading.Thread(target=pool.close)
    closing.start()
    until(lambda: jobs[0].done)
    pool.begin(jobs[1])
    assert jobs[1].done
    free.set()
    closing.join(TIMEOUT_S)
    for job in jobs:
        with pytest.raises(RuntimeError, match="closed"):
            job.outputs()


def test_threads_of_each_process_are_its_own(path):
    """Forked while the threads of this process work."""
    with dataset_of(path, STEPS, draw) as dataset:
        running = iter(dataset)
        first = next(running)
        for _ in range(3):
            loader = DataLoader(
                dataset, batch_size=None, num_workers=2, multiprocessing_context="fork", timeout=60
            )
            dataset.set_epoch(0)
            batches = list(loader)
            assert sorted(ids_of(batches)) == list(range(ROWS))
            check(batches[0])
        check(first)
        dataset.set_epoch(0)
        assert ids_of(dataset) == list(range(ROWS))


def test_spawned_workers(path):
    with dataset_of(path, STEPS, draw) as dataset:
        loader = DataLoader(
            dataset, batch_size=None, num_workers=1, multiprocessing_context="spawn", timeout=120
        )
        for batch in loader:
            check(batch)
