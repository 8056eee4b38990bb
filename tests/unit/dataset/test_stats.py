"""The seconds that `stats()` counts."""

import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fastload import FastParquetDataset, mix

ROWS = 400_000


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """A file that the page cache holds, whose pages are not kept in memory."""
    path = tmp_path_factory.mktemp("stats") / "a.parquet"
    values = np.random.default_rng(0).integers(0, 1 << 40, (4, ROWS))
    table = pa.table({f"value{number}": column for number, column in enumerate(values)})
    pq.write_table(table, path, row_group_size=ROWS // 8, compression="none")
    return path


@pytest.mark.parametrize("threads", [0, 1, 3])
@pytest.mark.parametrize("shuffle", [False, True])
def test_the_cpu_seconds_are_those_of_the_core(path, threads, shuffle):
    own, whole = time.thread_time(), time.process_time()
    with FastParquetDataset(path, batch_size=5000, shuffle=shuffle, threads=threads) as dataset:
        assert dataset.stats().cpu_s == 0
        for _ in dataset:
            pass
        first = dataset.stats()
        most = time.process_time() - whole if threads else time.thread_time() - own
        assert 0 < first.cpu_s <= most
        for _ in dataset:
            pass
        second = dataset.stats().cpu_s
        assert second > first.cpu_s
    # The threads have ended, and their time still counts.
    ended = dataset.stats().cpu_s
    assert second <= ended == dataset.stats().cpu_s
    assert f"fastload_cpu_seconds_total {ended}\n" in dataset.stats().to_prometheus()


def test_idle_threads_use_no_cpu_seconds(path):
    with FastParquetDataset(path, batch_size=5000, threads=2) as dataset:
        for _ in dataset:
            pass
        time.sleep(0.2)  # what is read for the next pass
        before = dataset.stats().cpu_s
        time.sleep(0.5)
        assert dataset.stats().cpu_s - before < 0.1


def test_each_source_of_a_mix_counts_its_own_threads(path):
    busy, idle = (FastParquetDataset(path, batch_size=5000, threads=1) for _ in range(2))
    with mix({"busy": busy, "idle": idle}) as mixed:
        for _ in busy:
            pass
        stats = mixed.stats()
    assert stats["busy"].cpu_s > 0 == stats["idle"].cpu_s


@pytest.mark.parametrize("shuffle", [False, True])
def test_reads_of_local_files_count_for_reading_alone(path, shuffle):
    with FastParquetDataset(path, batch_size=5000, shuffle=shuffle, threads=0) as dataset:
        for _ in dataset:
            pass
        stats = dataset.stats()
    assert stats.read.bytes > 8 * 4 * ROWS
    # One thread did all of it while the consumer waited.
    assert stats.read.working_s > 0
    assert stats.decode.working_s > 0
    assert stats.read.working_s + stats.decode.working_s <= stats.waiting_s


def test_a_fast_file_and_idle_threads_are_no_slow_store(path):
    with FastParquetDataset(path, batch_size=5000, threads=16) as dataset:
        for _ in dataset:
            pass
        stats = dataset.stats()
    assert not stats._awaits_store()
