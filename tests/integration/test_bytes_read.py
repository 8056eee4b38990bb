"""What a process reads from its files, as the kernel counts it."""

import os
import time
from itertools import islice

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from fastload import FastParquetDataset
from fastload.plan.position import Leg, WorkerSlot
from support.own_process import in_its_own_process
from support.worker_plan import worker_plan

GROUP_ROWS = 20_000
GROUPS = 40
# Whatever else a process reads meanwhile: code and the like. Less than one row group.
OTHER_BYTES = 100_000


def rchar():
    """The bytes of every read and pread of the process."""
    with open("/proc/self/io") as file:
        return int(file.readline().split()[1])


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("bytes") / "sample.parquet")
    ids = np.random.default_rng(0).permutation(GROUP_ROWS * GROUPS)
    table = pa.table({"id": ids})
    pq.write_table(table, path, row_group_size=GROUP_ROWS, compression="none", use_dictionary=False)
    return path


def settled(dataset):
    """Return the bytes that the process has read for no next pass, once nothing more is read."""
    before = -1
    while (now := rchar() - dataset.stats().read_ahead.bytes) - before > OTHER_BYTES / 100:
        before = now
        time.sleep(0.2)
    return now


def read_by(path, options, state=None, batches=None):
    """Rows delivered and bytes read by this process, but for those read for the next pass."""
    list(
        islice(FastParquetDataset(path, batch_size=7, limit=7), 1)
    )  # imports what is imported late
    with FastParquetDataset(path, **options) as dataset:
        if state is not None:
            dataset.load_state_dict(state)
        before = rchar()
        rows = sum(batch.rows for batch in islice(dataset, batches))
        return rows, settled(dataset) - before


def bytes_of(path, groups):
    metadata = pq.read_metadata(path)
    return sum(metadata.row_group(g).column(0).total_compressed_size for g in groups)


def planned_groups(path, options, progress=()):
    """The row groups that the windows of a rank touch, by the definition of the order."""
    with FastParquetDataset(path, **options) as dataset:
        pieces = worker_plan(
            dataset._rows.row_groups,
            dataset._options,
            0,
            progress,
            WorkerSlot(options.get("world_size", 1), rank=options.get("rank", 0)),
            stripe_rows=options["batch_size"],
        ).pieces
    return {int(group) for _, group, _, _ in pieces}


def assert_reads(path, options, groups, state=None):
    rows, read = in_its_own_process(read_by, path, options, state)
    least = bytes_of(path, groups)
    assert rows > 0
    assert least <= read <= least + OTHER_BYTES
    return len(groups)


@pytest.mark.parametrize("rank", [0, 3, 7])
@pytest.mark.parametrize("shuffle", [False, True])
def test_a_rank_reads_what_its_windows_touch(path, rank, shuffle):
    options = {
        "batch_size": 1000,
        "shuffle": shuffle,
        "shuffle_window": 2 * GROUP_ROWS,
        "rank": rank,
        "world_size": 8,
    }
    # A window may begin in the middle of a row group, but ranks share 40 of them.
    assert assert_reads(path, options, planned_groups(path, options)) <= 10


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_resumed_run_reads_what_is_left(path, shuffle, share):
    options = {"batch_size": 1000, "shuffle": shuffle, "shuffle_window": 2 * GROUP_ROWS}
    delivered = int(share * GROUP_ROWS * GROUPS) // 1000
    with FastParquetDataset(path, **options) as dataset:
        state = dataset.state_dict()
    state["progress"] = [[1, 1, delivered]]
    groups = planned_groups(path, options, [Leg(1, 1, delivered)])
    assert assert_reads(path, options, groups, state) <= GROUPS * (1 - share) + 2


def test_a_single_batch_needs_a_single_window(path):
    options = {"batch_size": 1000, "shuffle": True, "shuffle_window": 2 * GROUP_ROWS, "threads": 0}
    _, read = in_its_own_process(read_by, path, options, None, 1)
    # Without threads only what the batch needs is done, and the next window asked for.
    assert read <= bytes_of(path, range(4)) + OTHER_BYTES


def find_rows(warm, path, filters, cache):
    """The bytes that this process reads to find rows, as it does when a dataset is made."""
    os.environ["FASTLOAD_CACHE_DIR"] = cache
    FastParquetDataset(warm, filters=filters, columns=["other"])  # imports what is imported late
    before = rchar()
    len(FastParquetDataset(path, filters=filters, columns=["other"]))
    return rchar() - before


@pytest.mark.parametrize(
    ("filters", "columns", "share"),
    [
        # The core: the page index leaves one page of 100 open.
        (pc.field("number") == 123_456, ["number"], 0.05),
        (pc.field("text") == "0123456", ["text"], 0.05),
        # pyarrow's scanner: statistics leave one row group of 10 open.
        (pc.field("text") < "0010000", ["text"], 0.15),
        # Neither bounds nor statistics help: the columns of the filters, and no other column.
        (pc.field("number") * 1 != -1, ["number"], 1.02),
    ],
)
def test_filters_read_few_bytes_of_their_columns(tmp_path, filters, columns, share):
    number = np.arange(400_000)
    text = pa.array([f"{n:07}" for n in number])
    table = pa.table({"number": number, "text": text, "other": number * 3})
    options = {"use_dictionary": False, "compression": "none", "write_page_index": True}
    path, warm = str(tmp_path / "a.parquet"), str(tmp_path / "warm.parquet")
    pq.write_table(table, path, row_group_size=40_000, data_page_size=4_000, **options)
    pq.write_table(table.slice(0, 100), warm, **options)
    read = in_its_own_process(find_rows, warm, path, filters, str(tmp_path / "cache"))
    metadata = pq.read_metadata(path)
    footer = metadata.serialized_size
    index = [table.column_names.index(name) for name in columns]
    whole = sum(
        metadata.row_group(group).column(column).total_compressed_size
        for group in range(metadata.num_row_groups)
        for column in index
    )
    assert read <= share * whole + 2 * footer + OTHER_BYTES
