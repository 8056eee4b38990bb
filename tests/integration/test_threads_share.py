"""Several Python threads use one dataset, which has one pass at a time."""

import threading

import pytest

import fastload
from fastload import FastParquetDataset
from support.sample_files import ids_of, write_sample

ROWS, THREADS, ROUNDS = 400, 4, 60


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_sample(tmp_path_factory.mktemp("share") / "sample.parquet", ROWS)


def dataset_of(path):
    return FastParquetDataset(path, batch_size=50, shuffle=True, threads=1)


def mix_of(path):
    return fastload.mix({name: dataset_of(path) for name in "ab"}, stop="all")


@pytest.mark.parametrize(("make", "rows"), [(dataset_of, ROWS), (mix_of, 2 * ROWS)])
def test_of_passes_that_threads_begin_at_once_one_goes_on(path, often_switched, make, rows):
    with make(path) as dataset:
        for _ in range(ROUNDS):
            together, passes = threading.Barrier(THREADS), []

            def begin(together=together, passes=passes):
                together.wait()
                passes.append(iter(dataset))

            threads = [threading.Thread(target=begin) for _ in range(THREADS)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert len(passes) == THREADS
            *ended, last = sorted(passes, key=lambda one: not one.finished)
            assert len(ids_of(last)) == rows
            for one in ended:
                with pytest.raises(RuntimeError, match=r"A second iter\(\) of the dataset ended"):
                    next(one)
