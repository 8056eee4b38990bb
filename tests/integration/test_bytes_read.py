"""What a process reads from its files, as the kernel counts it."""

import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fastload import FastParquetDataset
from fastload.plan import read_plan as plan

GROUP_ROWS = 20_000
GROUPS = 40
# Whatever else a process reads meanwhile: code and the like. Less than one row group.
OTHER_BYTES = 100_000

# `rchar` counts the bytes of every read and pread of the process.
SCRIPT = """
import json, sys
from itertools import islice
from fastload import FastParquetDataset
def rchar():
    with open("/proc/self/io") as file:
        return int(file.readline().split()[1])
path, options, state, batches = json.loads(sys.argv[1])
list(islice(FastParquetDataset(path, batch_size=7, limit=7), 1))  # imports what is imported late
with FastParquetDataset(path, **options) as dataset:
    if state is not None:
        dataset.load_state_dict(state)
    before = rchar()
    rows = sum(batch.rows for batch in islice(dataset, batches))
    print(json.dumps([rows, rchar() - before]))
"""


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("bytes") / "sample.parquet")
    ids = np.random.default_rng(0).permutation(GROUP_ROWS * GROUPS)
    table = pa.table({"id": ids})
    pq.write_table(table, path, row_group_size=GROUP_ROWS, compression="none", use_dictionary=False)
    return path


def read_by(path, options, state=None, batches=None):
    """Rows delivered and bytes read by a process of its own."""
    arguments = json.dumps([path, options, state, batches])
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def bytes_of(path, groups):
    metadata = pq.read_metadata(path)
    return sum(metadata.row_group(g).column(0).total_compressed_size for g in groups)


def planned_groups(path, options, progress=()):
    """The row groups that the windows of a rank touch, by the definition of the order."""
    with FastParquetDataset(path, **options) as dataset:
        rank = options.get("rank", 0), options.get("world_size", 1)
        pieces = plan.read_plan(
            dataset._rows.row_groups,
            dataset._options,
            0,
            progress,
            rank[1],
            rank[0],
            stripe_rows=options["batch_size"],
        ).pieces
    return {int(group) for _, group, _, _ in pieces}


def assert_reads(path, options, groups, state=None):
    rows, read = read_by(path, options, state)
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
    groups = planned_groups(path, options, [plan.Leg(1, 1, delivered)])
    assert assert_reads(path, options, groups, state) <= GROUPS * (1 - share) + 2


def test_a_single_batch_needs_a_single_window(path):
    options = {"batch_size": 1000, "shuffle": True, "shuffle_window": 2 * GROUP_ROWS, "threads": 0}
    _, read = read_by(path, options, batches=1)
    # Without threads only what the batch needs is done, and the next window asked for.
    assert read <= bytes_of(path, range(4)) + OTHER_BYTES
