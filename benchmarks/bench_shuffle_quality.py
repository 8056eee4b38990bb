"""One question: how well does a shuffle window mix, and what does it cost in memory and speed?

    python benchmarks/bench_shuffle_quality.py [--rows N] [--group-rows N] [--repeats N]

For each window, a line of a Markdown table has the results of `fastload.testing.shuffle_quality`
(means of three epochs); the peak of MB that batches and reads hold; rows per second as a share of a
pass without shuffle (medians of passes that take turns); and the quality of other libraries'
shuffle buffers that hold as many rows as the two open windows, by simulation (`shuffle_buffers`).
Before any timing, each pass must deliver each row once, in the order whose quality is printed. The
speed of the other libraries is not measured.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from dataclasses import astuple
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from support.passes import seconds_of_pass

from fastload import FastParquetDataset
from fastload.runtime.cores import available_cores
from fastload.testing import ShuffleQuality, shuffle_quality
from fastload.testing.quality import order_quality
from support import shuffle_buffers

if TYPE_CHECKING:
    from collections.abc import Callable

_BATCH_ROWS = 4096
# The whole dataset is a further window. shuffle_window=None chooses at most 2**19.
_WINDOWS = (1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 19, 1 << 20, 1 << 21)
_EPOCHS = 3
_TIMED_PASSES = 3
_HEADER = (
    "| window | row groups in it | score | effective rows | neighbours | MB | speed "
    "| Hugging Face's buffer: score, effective rows | Petastorm's: score, effective rows |"
)


def write_table(path: Path, rows: int, group_rows: int) -> None:
    """Write a row number, eight numbers and a category: 80 bytes a row."""
    rng = np.random.default_rng(1)
    numbers = {f"x{k}": rng.standard_normal(rows) for k in range(8)}
    columns = {"id": np.arange(rows), **numbers, "c": rng.integers(0, 1000, rows)}
    pq.write_table(pa.table(columns), path, row_group_size=group_rows, compression="none")


def open_dataset(path: Path, window: int | None, threads: int) -> FastParquetDataset:
    """Open a dataset; without a window, in order."""
    return FastParquetDataset(
        path,
        batch_size=_BATCH_ROWS,
        shuffle=window is not None,
        shuffle_window=window,
        threads=threads,
        memory_budget="8GB",
    )


def measure_quality(
    path: Path, window: int, threads: int, rows: int
) -> tuple[int, tuple[float, float, float]]:
    """Return the peak of bytes held with a window, and the result of `mean`."""
    with open_dataset(path, window, threads) as dataset:
        peak = check_order(dataset, rows)
        return peak, mean([shuffle_quality(dataset, epoch=epoch) for epoch in range(_EPOCHS)])


def check_order(dataset: FastParquetDataset, rows: int) -> int:
    """Raise unless an epoch has the measured order; return the peak of bytes held."""
    dataset.set_epoch(0)
    ids, peak = [], 0
    for batch in dataset:
        ids.append(batch["id"].numpy().copy())
        peak = max(peak, dataset.stats().memory.total)
    if not (np.bincount(np.concatenate(ids), minlength=rows) == 1).all():
        raise SystemExit("Expected each row once, got some twice or never")
    got, want = order_quality(ids, rows, _BATCH_ROWS), shuffle_quality(dataset)
    # The two sums add numbers in different orders.
    if not np.allclose(astuple(got), astuple(want), rtol=1e-9):
        raise SystemExit("Expected the order that shuffle_quality looks at, got another")
    return peak


def pass_seconds(path: Path, windows: list[int | None], threads: int, repeats: int) -> list[float]:
    """Return the median seconds of a pass with each window; the windows take turns.

    Each repeat has a dataset of its own, whose first pass is not timed: it takes memory from the
    system. The next ones are timed together, since each has begun to read the one after it.
    """
    seconds: list[list[float]] = [[] for _ in windows]
    for _ in range(repeats):
        for window, own in zip(windows, seconds, strict=True):
            with open_dataset(path, window, threads) as dataset:
                seconds_of_pass(dataset)
                own.append(seconds_of_pass(dataset, _TIMED_PASSES))
    return [statistics.median(own) for own in seconds]


def mean(qualities: list[ShuffleQuality]) -> tuple[float, float, float]:
    """Return mean score, effective rows (harmonic, as variances add up), neighbour distance."""
    return (
        statistics.fmean(q.score for q in qualities),
        statistics.harmonic_mean([q.effective_rows for q in qualities]),
        statistics.fmean(q.neighbour_distance for q in qualities),
    )


def buffer_quality(buffer: Callable[..., Any], rows: int, group_rows: int, held: int) -> str:
    """Format the score and the effective rows of a buffer of `shuffle_buffers`."""
    qualities = []
    for seed in range(_EPOCHS):
        order = buffer(rows, group_rows, held, seed)
        if not (np.bincount(order, minlength=rows) == 1).all():
            raise SystemExit(
                f"Expected each row once, got some twice or never - of {buffer.__name__}"
            )
        qualities.append(order_quality([order], rows, _BATCH_ROWS))
    score, effective, _ = mean(qualities)
    return f"{score:.3f}, {effective:.0f}"


def main() -> None:
    """Run the benchmark and print its table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1 << 22)
    parser.add_argument("--group-rows", type=int, default=1 << 14)
    parser.add_argument("--threads", type=int, default=available_cores())
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    rows, group_rows = arguments.rows, arguments.group_rows
    windows = [*(window for window in _WINDOWS if window < rows), rows]
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "table.parquet")
        write_table(path, rows, group_rows)
        measured = [measure_quality(path, window, arguments.threads, rows) for window in windows]
        in_order, *seconds = pass_seconds(
            path, [None, *windows], arguments.threads, arguments.repeats
        )
        print(
            f"{rows} rows of 80 bytes in row groups of {group_rows}, batches of {_BATCH_ROWS}, "
            f"{arguments.threads} threads; in order {rows / in_order / 1e6:.1f} M rows/s\n"
        )
        print(_HEADER)
        print("|" + "---|" * (_HEADER.count("|") - 1))
        for window, (peak, quality), own in zip(windows, measured, seconds, strict=True):
            score, effective, neighbours = quality
            held = min(2 * window, rows)
            print(
                f"| {window} | {window / group_rows:g} | {score:.3f} | {effective:.0f} "
                f"| {neighbours:.3f} | {peak / 1e6:.0f} | {in_order / own:.2f} "
                f"| {buffer_quality(shuffle_buffers.huggingface, rows, group_rows, held)} "
                f"| {buffer_quality(shuffle_buffers.petastorm, rows, group_rows, held)} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
