"""How much memory do the weights of rows take?

    python benchmarks/loops/weights_memory.py [--rows N]

A dataset of one int32 column, `memory_budget="64MB"`, with float32 weights for each row. Printed is
how much resident memory grows, in MiB: when the dataset is made, and after two epochs, with the
peak until then. The array that the caller holds is not counted.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fastload import FastParquetDataset

_GROUP_ROWS = 250_000


def resident(name: str) -> int:
    """Return VmRSS or VmHWM of this process in KiB."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=40_000_000)
    rows = parser.parse_args().rows // _GROUP_ROWS * _GROUP_ROWS
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "rows.parquet")
        schema = pa.schema({"x": pa.int32()})
        with pq.ParquetWriter(path, schema) as writer:
            for _ in range(rows // _GROUP_ROWS):
                numbers = rng.integers(0, 1000, _GROUP_ROWS, dtype=np.int32)
                writer.write_table(pa.table([numbers], schema=schema))
        weights = rng.random(rows, dtype=np.float32)
        before = resident("VmRSS")
        with FastParquetDataset(
            path, weights=weights, batch_size=8192, threads=2, memory_budget="64MB"
        ) as dataset:
            made = resident("VmRSS") - before
            for _ in range(2):
                for _batch in dataset:
                    pass
            after, most = resident("VmRSS") - before, resident("VmHWM") - before
    print(
        f"{rows:,} rows: {made >> 10} MiB made, {after >> 10} after two epochs, {most >> 10} most"
    )


if __name__ == "__main__":
    main()
