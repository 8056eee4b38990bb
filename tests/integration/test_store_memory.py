"""What is read from a store stays within memory_budget."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.stores import GcsServer

FILES, GROUP_ROWS, COLUMNS = 4, 500_000, 12  # 48 MB a row group, one in each file

SCRIPT = """
import json, sys
import psutil
from fastload import IO, FastParquetDataset
process = psutil.Process()
options, transport, budget = json.loads(sys.argv[1])
with FastParquetDataset(
    "gs://bucket/train/", batch_size=4096, shuffle=True, shuffle_window=200_000, threads=2,
    memory_budget=budget, storage_options=options,
    io=IO(transport=transport, request_bytes="2MB", concurrency=16),
) as dataset:
    batches = iter(dataset)
    next(batches)  # what is imported and started is there
    del batches
    before = most = process.memory_info().rss
    held = read = 0
    for number, batch in enumerate(dataset):
        most = max(most, process.memory_info().rss)
        memory = dataset.stats().memory
        held, read = max(held, memory.total), max(read, memory.read)
    print(json.dumps([most - before, held, read]))
"""


@pytest.mark.parametrize("transport", ["fsspec", "native"])
def test_resident_memory_keeps_to_the_budget(tmp_path, transport):
    random = np.random.default_rng(0)
    path = tmp_path / "part.parquet"
    columns = {f"c{i}": random.integers(0, 1 << 62, GROUP_ROWS) for i in range(COLUMNS)}
    pq.write_table(
        pa.table(columns), path, row_group_size=GROUP_ROWS, compression="none", use_dictionary=False
    )
    budget = 160_000_000
    with GcsServer() as server:
        for number in range(FILES):
            server.put("bucket", f"train/{number}.parquet", path.read_bytes())
        arguments = json.dumps([server.options, transport, budget])
        run = [sys.executable, "-c", SCRIPT, arguments]
        done = subprocess.run(run, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    resident, held, read = json.loads(done.stdout)
    assert read > 2_000_000  # what the client lends counts
    assert held <= budget
    assert resident <= 1.15 * budget
