"""One question: what does it cost to compare each page with its checksum?

    python benchmarks/bench_crc.py [--threads N] [--repeats N]

For each kind of data, passes of two datasets of the same file, with and without
IO(verify_crc=True), take turns in one process. The output has medians: seconds of a pass of each
dataset, their ratio, and the ratio of CPU seconds.

- sample: the sample of fastload-bench, with dictionary pages and snappy
- plain: float64 columns, neither encoded nor compressed: the most bytes to check for the least work
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from support.fractions_of_roof import cpu_s

from fastload import IO, FastParquetDataset
from fastload.runtime.cores import available_cores
from fastload.tools.bench import sample

if TYPE_CHECKING:
    from collections.abc import Iterator


def cases(directory: Path) -> Iterator[tuple[str, Path]]:
    """Yield the name and the file of each kind of data; make each file just before its turn."""
    made, checked = directory / "made.parquet", directory / "sample.parquet"
    sample.make(made)
    pq.write_table(pq.read_table(made), checked, row_group_size=1 << 18, write_page_checksum=True)
    yield "sample", checked
    plain = directory / "plain.parquet"
    values = np.random.default_rng(1).random((16, 1 << 21))
    pq.write_table(
        pa.table({f"f{j}": column for j, column in enumerate(values)}),
        plain,
        use_dictionary=False,
        compression="none",
        row_group_size=1 << 18,
        write_page_checksum=True,
    )
    yield "plain", plain


def measure(path: Path, threads: int, repeats: int) -> dict[bool, list[tuple[float, float]]]:
    """Return wall and CPU seconds of each pass after an uncounted pass; True = with checksums."""
    options: dict[str, Any] = {"batch_size": 16384, "threads": threads}
    datasets = {
        checked: FastParquetDataset(path, io=IO(verify_crc=checked), **options)
        for checked in (False, True)
    }
    passes: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    for _ in range(repeats + 1):
        for checked, dataset in datasets.items():
            cpu, start = cpu_s(), time.perf_counter()
            for _ in dataset:
                pass
            passes[checked].append((time.perf_counter() - start, cpu_s() - cpu))
    for dataset in datasets.values():
        dataset.close()
    return {checked: found[1:] for checked, found in passes.items()}


def main() -> None:
    """Run the benchmark and print a line for each kind of data."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=available_cores())
    parser.add_argument("--repeats", type=int, default=15)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        for name, path in cases(Path(directory)):
            passes = measure(path, arguments.threads, arguments.repeats)
            wall, cpu = (
                statistics.median(
                    b[k] / a[k] for a, b in zip(passes[False], passes[True], strict=True)
                )
                for k in (0, 1)
            )
            seconds = [statistics.median(s for s, _ in passes[c]) for c in (False, True)]
            print(
                f"{name:8} {seconds[0]:.3f} s a pass, checked {seconds[1]:.3f} s: "
                f"{wall:.2f} times the time, {cpu:.2f} times the CPU",
                flush=True,
            )


if __name__ == "__main__":
    main()
