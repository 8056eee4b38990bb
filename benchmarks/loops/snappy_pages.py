"""How quickly does the core decompress Snappy, against libarrow?

    python benchmarks/loops/snappy_pages.py [--rows N] [--repeats N]

For each kind of values a file is written twice, uncompressed and with Snappy. Decompression is the
CPU time of reading the second file beyond that of the first, on one thread: of fastload's passes,
and of libparquet's page reader, which has libarrow decompress. Printed are the pages' size over
their compressed size, GB of decompressed pages per CPU second of both, and their ratio.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from fastload import FastParquetDataset
from fastload.tools.bench.roof import Roof
from support import turns


def _kinds(rows: int) -> dict[str, pa.Array]:
    """Return values of each kind."""
    rng = np.random.default_rng(1)
    numbers = rng.integers(0, 2**40, rows)
    runs = (numbers[: rows // 20] % 100).astype(np.int32).repeat(20)
    return {
        "random 40-bit integers": pa.array(numbers),
        "integers below 10**6": pa.array(numbers % 10**6),
        "sorted integers": pa.array(np.arange(rows) * 7),
        "prices (float64)": pa.array(np.round(rng.gamma(2, 50, rows), 2)),
        "int32 below 100": pa.array((numbers % 100).astype(np.int32)),
        "int64 below 100": pa.array(numbers % 100),
        "int32 in runs of 20": pa.array(runs),
        "int16 in runs of 20": pa.array(runs.astype(np.int16)),
    }


def _cpu_s(path: Path, repeats: int) -> tuple[float, float]:
    """Return the CPU seconds of fastload's pass, and those of libparquet's page reader."""
    roof = Roof.of(str(path), None)
    roofs, passes = [], []
    with FastParquetDataset(path, threads=1, batch_size=65_536) as dataset:
        # Pages that stay in memory would be decompressed once.
        dataset._engines.of_process(1).pipeline.limit_kept(0)  # noqa: SLF001
        for _ in range(repeats):
            passes.append(turns.cost(lambda: [None for _ in dataset]).cpu_s)
            roofs.append(turns.cost(lambda: roof.measure(1, 1)).cpu_s)
    return statistics.median(passes), statistics.median(roofs)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    print(f"{'':24}{'packed':>8}{'libarrow':>10}{'fastload':>10}{'ratio':>8}")
    for kind, values in _kinds(arguments.rows).items():
        with tempfile.TemporaryDirectory() as directory:
            cpu_s, stored = {}, {}
            for codec in ("none", "snappy"):
                path = Path(directory, f"{codec}.parquet")
                pq.write_table(
                    pa.table({"x": values}), path, compression=codec, use_dictionary=False
                )
                stored[codec] = path.stat().st_size
                cpu_s[codec] = _cpu_s(path, arguments.repeats)
        ours, theirs = (
            stored["none"] / 1e9 / max(1e-6, cpu_s["snappy"][i] - cpu_s["none"][i]) for i in (0, 1)
        )
        line = f"{kind:24}{stored['none'] / stored['snappy']:8.2f}{theirs:10.2f}{ours:10.2f}"
        print(f"{line}{ours / theirs:8.2f}", flush=True)


if __name__ == "__main__":
    main()
