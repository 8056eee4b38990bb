"""What do torch's threads cost a consumer that sums, where other processes keep the cores busy?

    python benchmarks/loops/sums_on_busy_cores.py [--others N] [--passes N]

Passes over a file of int64 columns whose consumer sums each column of each batch, with one thread
of torch and with one for each core, alone and beside endless loops in so many other processes.
Printed are the median and the largest milliseconds of a pass, and the median as a share of the
first line's.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from fastload import FastParquetDataset
from fastload.runtime.cores import available_cores
from support import turns

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def _busy(processes: int) -> Iterator[None]:
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--others", type=int, default=4)
    parser.add_argument("--passes", type=int, default=9)
    arguments = parser.parse_args()
    rng = np.random.default_rng(1)
    table = pa.table({f"i{i}": rng.integers(0, 2**20, 1 << 20) for i in range(3)})
    alone = 0.0
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "table.parquet")
        pq.write_table(table, path, row_group_size=1 << 16)
        for others in (0, arguments.others):
            for threads in (1, available_cores()):
                torch.set_num_threads(threads)
                with _busy(others), FastParquetDataset(path, batch_size=65_536) as dataset:
                    sums = lambda: [int(c.sum()) for b in dataset for c in b.values()]  # noqa: E731
                    seconds = [turns.cost(sums).seconds for _ in range(arguments.passes)][1:]
                middle = statistics.median(seconds)
                alone = alone or middle
                print(
                    f"{others} other processes, {threads} threads of torch: {middle * 1e3:.0f} ms, "
                    f"at most {max(seconds) * 1e3:.0f}; {middle / alone:.2f} of the first",
                    flush=True,
                )


if __name__ == "__main__":
    main()
