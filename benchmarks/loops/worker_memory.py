"""Does the memory of a DataLoader's processes grow with the size of the data set?

    python benchmarks/loops/worker_memory.py [--budget SIZE] [--megabytes N,N] [--workers N]

For each size of data set, and without and with workers, one pass in order in a process of its own.
Printed is by how many MiB the proportional set size (PSS) of that process and its children grew at
most, seen after every 16th batch, over what it was before the pass; Linux only.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from torch.utils.data import DataLoader

from fastload import FastParquetDataset

_COLUMNS = 16
_GROUP_ROWS = 65_536


def _write(path: Path, megabytes: int) -> None:
    """Write a file of float64 columns, uncompressed."""
    rng = np.random.default_rng(1)
    group = pa.table({f"f{i}": rng.standard_normal(_GROUP_ROWS) for i in range(_COLUMNS)})
    with pq.ParquetWriter(path, group.schema, compression="none", use_dictionary=False) as writer:
        for _ in range(-(-megabytes * 10**6 // group.nbytes)):
            writer.write_table(group, row_group_size=_GROUP_ROWS)


def _pss_mib() -> float:
    """Return the PSS of this process and of its children."""
    children = Path("/proc/self/task").glob("*/children")
    pids = ["self", *(pid for file in children for pid in file.read_text().split())]
    total = 0
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except (FileNotFoundError, ProcessLookupError):
            continue  # a child that has just ended
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total / 1024


def _grown(path: str, workers: int, budget: str) -> float:
    warnings.filterwarnings("ignore", "This DataLoader will create")
    with FastParquetDataset(path, batch_size=8192, memory_budget=budget) as dataset:
        before = most = _pss_mib()
        for number, _batch in enumerate(DataLoader(dataset, batch_size=None, num_workers=workers)):
            if number % 16 == 0:
                most = max(most, _pss_mib())
    return most - before


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--budget", default="64MiB")
    parser.add_argument(
        "--megabytes", type=lambda text: [int(n) for n in text.split(",")], default=[200, 600]
    )
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(f"{_grown(arguments.child, arguments.workers, arguments.budget):.0f}")
        return
    print(f"memory_budget={arguments.budget}: MiB that a pass adds")
    for megabytes in arguments.megabytes:
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory, "table.parquet")
            _write(path, megabytes)
            for workers in (0, arguments.workers):
                command = [sys.executable, __file__, "--child", str(path)]
                command += ["--workers", str(workers), "--budget", arguments.budget]
                answer = subprocess.run(  # noqa: S603 - this program
                    command,
                    stdout=subprocess.PIPE,
                    text=True,
                    check=True,
                )
                print(
                    f"{megabytes:6} MB, {workers} workers: {answer.stdout.strip():>5}", flush=True
                )


if __name__ == "__main__":
    main()
