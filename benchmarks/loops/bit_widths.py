"""What does a dictionary code of each width cost?

    python benchmarks/loops/bit_widths.py [--rows N] [--repeats N] [--widths W,W,...]

For each width, a file of one int32 column with 2**width different values, read in order on one
thread. Printed are the CPU nanoseconds of a value, unpacking and looking up, and their ratio to
those of the width before. A width whose unpacking is bad stands out beside its neighbours.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from fastload import FastParquetDataset
from support import turns


def _ns(path: Path, rows: int, repeats: int) -> float:
    with FastParquetDataset(path, threads=1, batch_size=65_536) as dataset:
        cost = turns.in_turns({"": lambda: [None for _ in dataset]}, repeats)[""]
    return cost.cpu_s / rows * 1e9


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument(
        "--widths",
        type=lambda text: [int(part) for part in text.split(",")],
        default=[8, 10, 12, 14, 15, 16, 17],
    )
    arguments = parser.parse_args()
    rng = np.random.default_rng(1)
    print(f"{'bits':>4}{'CPU ns a value':>16}{'of the width before':>21}")
    before = 0.0
    for width in arguments.widths:
        values = rng.integers(0, 1 << width, arguments.rows, np.int32)
        values[: 1 << width] = np.arange(1 << width)
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory, "codes.parquet")
            pq.write_table(pa.table({"x": values}), path, row_group_size=arguments.rows)
            ns = _ns(path, arguments.rows, arguments.repeats)
        print(f"{width:4}{ns:16.3f}{ns / before if before else 1:21.2f}", flush=True)
        before = ns


if __name__ == "__main__":
    main()
