"""Local files that are not in the page cache: what is needed next is brought ahead."""

import os
import time
from itertools import islice

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fastload import FastParquetDataset
from support.page_cache import leave_page_cache

COLUMNS = 4
ROWS = 1 << 21
GROUP_ROWS = 1 << 17
ALMOST_ALL = 0.95


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    values = np.random.default_rng(0).integers(0, 1 << 60, (COLUMNS, ROWS))
    table = pa.table({f"value{number}": column for number, column in enumerate(values)})
    path = tmp_path_factory.mktemp("cold") / "values.parquet"
    pq.write_table(table, path, row_group_size=GROUP_ROWS, use_dictionary=False, compression="none")
    return path


def make_cold(path):
    if not leave_page_cache(path):
        pytest.skip("the system keeps the file in memory")


def read_while_waiting(path, idle_s):
    """The share of a file that is read while a consumer looks at one of the first batches.

    The consumer goes on once almost all is read, or nothing more for `idle_s` seconds.
    """
    with FastParquetDataset(path, batch_size=1 << 14, shuffle=False, threads=2) as dataset:
        batches = iter(dataset)
        # Beyond what the system reads ahead by itself.
        next(islice(batches, 24, None))
        share, since = 0.0, time.monotonic()
        while share <= ALMOST_ALL and time.monotonic() - since < idle_s:
            time.sleep(0.1)
            now = dataset.stats().read.bytes / os.path.getsize(path)
            if now > share:
                share, since = now, time.monotonic()
        del batches
        return share


def test_row_groups_are_read_ahead_of_windows(path):
    make_cold(path)
    assert read_while_waiting(path, idle_s=30) > ALMOST_ALL
    # What is in the page cache can wait there.
    assert read_while_waiting(path, idle_s=0.5) < 0.7


@pytest.mark.parametrize("options", [{"threads": 0}, {"threads": 2}, {"memory_budget": "96MB"}])
@pytest.mark.parametrize("shuffle", [False, True])
def test_the_same_rows(path, options, shuffle):
    def values():
        options_of = {"batch_size": 1 << 14, "shuffle": shuffle, "seed": 5, **options}
        with FastParquetDataset(path, **options_of) as dataset:
            return np.concatenate([batch["value1"].numpy().copy() for batch in dataset])

    expected = values()
    make_cold(path)
    assert np.array_equal(values(), expected)


def test_a_pass_that_is_given_up(path):
    make_cold(path)
    with FastParquetDataset(path, batch_size=1 << 14, shuffle=False, threads=2) as dataset:
        for _ in range(3):
            assert len(list(islice(dataset, 2))) == 2
