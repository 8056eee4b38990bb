"""One question: what do the threads of `per_row` give, and what do steps cost?

    python benchmarks/bench_per_row.py [--rows N] [--repeats N]

Each row is 100 kB that zlib has compressed; a step decompresses the row, and zlib releases the GIL.
The output has medians of the seconds of a dataset's second pass, for ways of decompressing that
take turns: for a consumer that takes batches as fast as they come, and for a consumer that sleeps
for as long as one thread needs for two thirds of a batch. Then come the microseconds that the
consumer waits for a row whose function does nothing, and for a batch of 4,096 rows and 40 columns
whose step does nothing. The batches of every way are checked before any timing.
"""

from __future__ import annotations

import argparse
import tempfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from support.step_passes import medians, pass_s, show

from fastload import FastParquetDataset, per_row
from fastload.steps.row_values import column_of

if TYPE_CHECKING:
    from collections.abc import Mapping

_BATCH_ROWS = 256
_ROW_BYTES = 100_000
_CHEAP_ROWS = 1 << 18


def decompress(data: bytes) -> np.ndarray[Any, Any]:
    """Return the numbers of a row."""
    return np.frombuffer(zlib.decompress(data, bufsize=_ROW_BYTES), np.uint8)


def decompress_block(block: dict[str, Any]) -> Mapping[str, Any]:
    """Return the numbers of all rows, in one call."""
    return {"data": column_of([decompress(data) for data in block["data"]], None)}


def by_threads(threads: int, prefetch: int = 4) -> dict[str, Any]:
    """Return the arguments of a dataset whose rows are decompressed on threads."""
    step = per_row(decompress, "data", "data", threads)
    return {"batch_size": _BATCH_ROWS, "preprocess": step, "prefetch": prefetch}


WAYS: Mapping[str, Mapping[str, Any]] = {
    "a callable": {"batch_size": _BATCH_ROWS, "preprocess": decompress_block},
    "per_row, threads=0": by_threads(0),
    "per_row, threads=1": by_threads(1),
    "per_row, threads=2": by_threads(2),
    "per_row, threads=2, prefetch=0": by_threads(2, prefetch=0),
}


def write_rows(path: Path, rows: int) -> list[int]:
    """Write rows of compressible bytes, and return the sum of each row."""
    rng = np.random.default_rng(1)
    numbers = [rng.integers(0, 64, _ROW_BYTES).astype(np.uint8) for _ in range(rows)]
    data = [zlib.compress(row.tobytes(), 1) for row in numbers]
    pq.write_table(pa.table({"data": data}), path, row_group_size=rows // 4, compression="none")
    return [int(row.sum()) for row in numbers]


def check(path: Path, sums: list[int]) -> None:
    """Raise unless every way delivers every row."""
    for name, options in WAYS.items():
        with FastParquetDataset(path, **options) as dataset:
            got = [row for batch in dataset for row in batch["data"].sum(1).tolist()]
        if got != sums:
            raise AssertionError(f"Expected the rows that were written, got others - at {name}")


def nothing(number: int) -> int:
    """Return the number."""
    return number


def same(block: Any, _seeds: object = None) -> Any:
    """Return the block."""
    return block


def overhead_us(directory: Path, repeats: int) -> dict[str, float]:
    """Return the microseconds that the consumer waits for steps that do nothing."""
    path = directory / "cheap.parquet"
    columns = {f"c{k}": torch.arange(_CHEAP_ROWS).numpy() for k in range(40)}
    pq.write_table(pa.table(columns), path)
    batches = _CHEAP_ROWS // 4096
    ways: dict[str, tuple[int, Mapping[str, Any]]] = {
        f"a row of per_row, threads={threads}": (
            _CHEAP_ROWS,
            {"preprocess": per_row(nothing, "c0", "n", threads)},
        )
        for threads in (0, 1, 2)
    }
    ways |= {
        "a batch of preprocess": (batches, {"preprocess": same}),
        "a batch of augment": (batches, {"augment": same}),
    }

    def steps_s(options: Mapping[str, Any]) -> float:
        with FastParquetDataset(path, batch_size=4096, threads=1, **options) as dataset:
            for _ in range(repeats):
                pass_s(dataset)
            return dataset.stats().steps_s / repeats

    return {name: steps_s(options) / count * 1e6 for name, (count, options) in ways.items()}


def main() -> None:
    """Read the arguments, measure, and print the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1536)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "rows.parquet"
        sums = write_rows(path, arguments.rows)
        check(path, sums)
        at_once = medians(path, WAYS, 0, arguments.repeats)
        show("seconds of a pass", at_once, "{:.3f}".format)
        away_s = at_once["per_row, threads=1"] / (arguments.rows / _BATCH_ROWS) * 2 / 3
        title = f"seconds of a pass whose consumer is away for {1e3 * away_s:.1f} ms a batch"
        show(title, medians(path, WAYS, away_s, arguments.repeats), "{:.3f}".format)
        nothing_us = overhead_us(Path(directory), arguments.repeats)
        show("microseconds of steps that do nothing", nothing_us, "{:.2f}".format)


if __name__ == "__main__":
    main()
