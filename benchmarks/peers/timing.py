"""Rows per second of a loader, as fastload-bench counts them, in an environment without fastload.

    pipx run benchmarks/peers/daft_rows.py FILES [--columns C,...] [--batch-size N] [--shuffle]

The first lines of each program name the releases that it needs; `uv run` knows them, too.
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


@dataclass(frozen=True)
class Work:
    """The rows to read: those of `fastload.tools.bench.peers.Work`."""

    files: list[str]
    columns: list[str]
    batch_size: int
    shuffle: bool
    window_rows: int = 1 << 19


def measure(make: Callable[[Work], Callable[[int], Iterable[dict[str, Any]]]]) -> None:
    """Print the rows per second of a loader: the median of the epochs after the first.

    Args:
        make: function that makes the loader, and returns what yields the batches of an epoch.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("files", nargs="+")
    parser.add_argument("--columns", type=lambda text: text.split(","))
    parser.add_argument("--batch-size", type=int, default=16384)
    parser.add_argument("--shuffle", action="store_true")
    parser.add_argument("--epochs", type=int, default=3)
    given = parser.parse_args()
    columns = given.columns or [
        field.name
        for field in pq.read_schema(given.files[0])
        if pa.types.is_primitive(field.type) and not pa.types.is_temporal(field.type)
    ]
    expected = sum(pq.read_metadata(file).num_rows for file in given.files)

    started = time.perf_counter()
    epoch = make(Work(given.files, columns, given.batch_size, given.shuffle))
    print(f"made in {time.perf_counter() - started:.1f} s")
    seconds = []
    for number in range(given.epochs):
        started = time.perf_counter()
        rows = sum(len(batch[columns[0]]) for batch in epoch(number))
        seconds.append(time.perf_counter() - started)
        if rows != expected:
            raise SystemExit(f"Expected {expected:,} rows, got {rows:,}")
    median = statistics.median(seconds[1:] or seconds)
    print(f"{'shuffled' if given.shuffle else 'in order'}: {expected / median:,.0f} rows/s")
