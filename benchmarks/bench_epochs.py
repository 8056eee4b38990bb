"""One question: how long does a training loop wait for data, from its second epoch on?

    python benchmarks/bench_epochs.py [--rows N] [--epochs N] [--workers N] [--cache]

A table of 10 int64 columns, zstd, is read in order, and shuffled in 1, 2 and 20 windows. The
consumer takes half of what the loader can give: its step, a sleep, lasts twice the mean time of a
batch in a pass that does nothing else. For each case the output has the step, the longest wait of
the second epoch, and the longest wait of all later epochs, in milliseconds, and the latter as a
share of the step. The goal is a share of at most 1: no wait longer than one step. Every epoch has
to deliver all rows once.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from torch.utils.data import DataLoader

from fastload import FastParquetDataset

if TYPE_CHECKING:
    from collections.abc import Iterable

_BATCH_ROWS = 4096
_WINDOWS = (1, 2, 20)


def write_table(path: Path, rows: int) -> None:
    """Write numbers beside the number of each row."""
    rng = np.random.default_rng(1)
    columns: dict[str, Any] = {f"i{i}": rng.integers(0, 2**20, rows) for i in range(9)}
    columns["row"] = np.arange(rows)
    pq.write_table(pa.table(columns), path, compression="zstd", row_group_size=rows // 40)


def waits_of(batches: Iterable[Any], rows: int, step_s: float) -> list[float]:
    """Consume one epoch and return the seconds of each wait.

    Raises:
        AssertionError: the epoch did not deliver each row once.
    """
    waits = []
    total = 0
    iterator, start = None, time.perf_counter()
    iterator = iter(batches)
    while (batch := next(iterator, None)) is not None:
        waits.append(time.perf_counter() - start)
        total += int(batch["row"].sum())
        if step_s:
            time.sleep(step_s)
        start = time.perf_counter()
    assert total == rows * (rows - 1) // 2, "an epoch lost or repeated rows"
    return waits


def measure(path: Path, rows: int, epochs: int, workers: int, options: dict[str, Any]) -> list[str]:
    """Return the cells of a case: step, longest wait of the second epoch, of later ones, share."""
    with FastParquetDataset(path, batch_size=_BATCH_ROWS, **options) as dataset:
        loader: Iterable[Any] = dataset
        if workers:
            loader = DataLoader(
                dataset, batch_size=None, num_workers=workers, persistent_workers=True
            )
        waits_of(loader, rows, 0)
        start = time.perf_counter()
        waits_of(loader, rows, 0)
        step_s = 2 * (time.perf_counter() - start) / len(dataset)
    with FastParquetDataset(path, batch_size=_BATCH_ROWS, **options) as dataset:
        loader = dataset
        if workers:
            loader = DataLoader(
                dataset, batch_size=None, num_workers=workers, persistent_workers=True
            )
        longest = [max(waits_of(loader, rows, step_s)) for _ in range(epochs)]
    later = max(longest[2:])
    return [
        f"{step_s * 1e3:8.2f}",
        f"{longest[1] * 1e3:8.2f}",
        f"{later * 1e3:8.2f}",
        f"{later / step_s:8.2f}",
    ]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=800_000)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--workers", type=int, default=0, help="of a DataLoader")
    parser.add_argument("--cache", action="store_true", help="with the decoded tier of the cache")
    arguments = parser.parse_args()
    rows = arguments.rows
    print(f"{'':24}{'step':>8}{'2nd':>9}{'later':>9}{'share':>9}")
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "table.parquet")
        write_table(path, rows)
        for shuffle in (False, True):
            for windows in _WINDOWS if shuffle else (1,):
                options: dict[str, Any] = {"shuffle": shuffle}
                if shuffle:
                    options["shuffle_window"] = rows // windows
                if arguments.cache:
                    options["cache"] = Path(directory, f"cache-{shuffle}-{windows}")
                name = f"shuffled, {windows} window(s)" if shuffle else "in order"
                cells = measure(path, rows, arguments.epochs, arguments.workers, options)
                print(f"{name:24}{' '.join(cells)}", flush=True)


if __name__ == "__main__":
    main()
