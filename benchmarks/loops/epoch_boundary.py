"""How soon does an epoch's first batch come, with and without windows that were read ahead?

    python benchmarks/loops/epoch_boundary.py [--passes N] [--step-ms X]

1 M rows of 10 int64 columns, zstd, shuffled in windows of 200,000 rows, two threads, and a consumer
that sleeps after each batch. While a pass ends, the next pass is begun; the first pass of a dataset
in a process begins none. Printed are the median milliseconds from iter() to the first batch of
second passes, which nothing prepared, of later passes, and the ratio.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fastload import FastParquetDataset

_ROWS, _WINDOW_ROWS = 1_000_000, 200_000


def _first_batches(path: Path, passes: int, step_s: float) -> list[float]:
    """Return the seconds to the first batch of each pass of a new dataset."""
    seconds = []
    with FastParquetDataset(
        path, batch_size=8192, shuffle=True, shuffle_window=_WINDOW_ROWS, threads=2
    ) as dataset:
        for _ in range(passes):
            start = time.perf_counter()
            batches = iter(dataset)
            next(batches)
            seconds.append(time.perf_counter() - start)
            for _batch in batches:
                time.sleep(step_s)
    return seconds


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--passes", type=int, default=5, help="of each dataset")
    parser.add_argument("--datasets", type=int, default=5)
    parser.add_argument("--step-ms", type=float, default=1.0)
    arguments = parser.parse_args()
    rng = np.random.default_rng(1)
    table = pa.table({f"i{i}": rng.integers(0, 2**20, _ROWS) for i in range(10)})
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "table.parquet")
        pq.write_table(table, path, compression="zstd", row_group_size=50_000)
        found = [
            _first_batches(path, arguments.passes, arguments.step_ms / 1e3)
            for _ in range(arguments.datasets)
        ]
    without = statistics.median(seconds[1] for seconds in found)
    ahead = statistics.median(s for seconds in found for s in seconds[2:])
    print(f"nothing read ahead: {without * 1e3:.1f} ms to the first batch")
    print(f"windows read ahead: {ahead * 1e3:.1f} ms, {ahead / without:.2f} of that")


if __name__ == "__main__":
    main()
