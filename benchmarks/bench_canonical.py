"""One question: what do canonical slices cost, beside one slice and beside no slices?

    python benchmarks/bench_canonical.py [--rows N] [--documents N] [--repeats N] [--epochs N]
        [--keep-none]

One rank of 8 reads a table of 20 int64 columns (Snappy), and packed rows of the token files of
`bench_packing.py`. Its share of a step is one slice (`canonical_ranks=8`) or 8 slices
(`canonical_ranks=64`), in batches of one size: a few rows of each slice, or many. Beside these
stands a plain shuffled pass: as many rows in such batches, shuffled among as many rows at once;
and with "small windows" the same among an eighth as many, as each of the 8 slices is.
The table is written twice: with row groups of a quarter of a slice, and of twice a slice, so that
slices share row groups. Before any timing, the rows of the first steps over 8 ranks are compared
with those of one process. Every run opens the dataset anew, and the ways take turns. The output
has the rows per second of the first epoch and of later epochs, as the best of the runs; the rates
as shares of those of one slice; and the bytes of the files that were read, for each row. The goal
is a share of at least 0.9. With --keep-none, the datasets keep no decompressed pages in memory.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from bench_packing import write_documents
from support.fractions_of_roof import keep_no_pages

from fastload import FastParquetDataset, Pack
from fastload.runtime.cores import available_cores

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastload import Batch

_RANKS = 8
_SLICES = (8, 64)
_ROW_WINDOW = 1 << 19
_DOCUMENT_WINDOW = 1 << 16
_COLUMNS = 20
_LENGTH = 8192
_STEPS = 4  # that are compared


@dataclass(frozen=True, slots=True)
class Case:
    """Files, and batches of them.

    Attributes:
        name: what is read.
        source: the files.
        options: the dataset's arguments for them.
        each: rows that a batch has of each slice where a rank has several.
        key: the output that tells rows apart.
        window: rows or documents of all slices that are mixed at once.
    """

    name: str
    source: Any
    options: dict[str, Any]
    each: int
    key: str
    window: int

    @property
    def batch_rows(self) -> int:
        """Rows of a batch of a rank."""
        return self.each * _SLICES[-1] // _RANKS

    def sliced(self, slices: int, rank: int = 0, world: int = _RANKS) -> FastParquetDataset:
        """Open the dataset of a rank, in slices."""
        return FastParquetDataset(
            self.source,
            shuffle=True,
            shuffle_window=self.window,
            global_batch_size=self.batch_rows * _RANKS,
            canonical_ranks=slices,
            rank=rank,
            world_size=world,
            **self.options,
        )

    def plain(self, window: int) -> FastParquetDataset:
        """Open a dataset that has as many rows as a rank, and mixes `window` rows at once."""
        with self.sliced(_SLICES[0]) as sliced:
            limit = sliced.num_rows // _RANKS
        return FastParquetDataset(
            self.source,
            shuffle=True,
            shuffle_window=window,
            batch_size=self.batch_rows,
            limit=limit,
            rank=0,
            world_size=1,
            **self.options,
        )


def write_table(path: Path, rows: int, group_rows: int) -> None:
    """Write numbers beside the number of each row."""
    rng = np.random.default_rng(1)
    columns: dict[str, Any] = {f"i{i}": rng.integers(0, 2**40, rows) for i in range(_COLUMNS - 1)}
    columns["row"] = np.arange(rows)
    pq.write_table(pa.table(columns), path, compression="snappy", row_group_size=group_rows)


def expect_same_steps(case: Case, slices: int) -> None:
    """Raise unless the first steps of all ranks together have the rows of one process."""
    ranks = [_first_steps(case.sliced(slices, rank), case.key) for rank in range(_RANKS)]
    one = _first_steps(case.sliced(slices, 0, 1), case.key)
    for step, (parts, whole) in enumerate(zip(zip(*ranks, strict=True), one, strict=True)):
        if sum(parts, Counter()) != whole:
            raise AssertionError(
                f"Expected the rows of one process in step {step} of 8 ranks, got others - with "
                f"canonical_ranks={slices}"
            )


def _first_steps(dataset: FastParquetDataset, key: str) -> list[Counter[bytes]]:
    def keys(batch: Batch) -> Counter[bytes]:
        return Counter(row.tobytes() for row in batch[key].numpy())

    with dataset:
        return [keys(batch) for batch in islice(dataset, _STEPS)]


def figures_of(
    dataset: FastParquetDataset, later_epochs: int, *, keep: bool
) -> tuple[float, float, float]:
    """Return the rows per second of the first epoch and of later ones, and bytes read for a row."""
    with dataset:
        if not keep:
            keep_no_pages(dataset)
        len(dataset)  # lengths of documents are known before the clock starts
        rates, total = [], 0
        for epochs in (1, later_epochs):
            start, rows = time.perf_counter(), 0
            for _ in range(epochs):
                rows += sum(batch.rows for batch in dataset)
            rates.append(rows / (time.perf_counter() - start))
            total += rows
        return rates[0], rates[1], dataset.stats().read.bytes / total


def measure(
    case: Case, repeats: int, later_epochs: int, *, keep: bool
) -> dict[str, tuple[float, float, float]]:
    """Return the best figures of each way."""
    ways = {
        "one slice": lambda: case.sliced(_SLICES[0]),
        "8 slices": lambda: case.sliced(_SLICES[1]),
        "plain": lambda: case.plain(case.window // _SLICES[0]),
        "small windows": lambda: case.plain(case.window // _SLICES[1]),
    }
    best = dict.fromkeys(ways, (0.0, 0.0, float("inf")))
    for _ in range(repeats):
        for name, way in ways.items():
            first, later, read = figures_of(way(), later_epochs, keep=keep)
            before = best[name]
            best[name] = max(first, before[0]), max(later, before[1]), min(read, before[2])
    return best


def show(cases: Sequence[Case], repeats: int, later_epochs: int, *, keep: bool) -> None:
    """Compare the steps, measure, and print the table."""
    for case in cases:
        for slices in _SLICES:
            expect_same_steps(case, slices)
    print(f"rank 0 of {_RANKS}, {available_cores()} cores; the best of {repeats} runs")
    print(f"{'':52}{'first epoch':>12}{'share':>7}{'later':>12}{'share':>7}{'bytes read':>12}")
    for case in cases:
        figures = measure(case, repeats, later_epochs, keep=keep)
        base = figures["one slice"]
        for way, (first, later, read) in figures.items():
            name = f"{case.name}, {case.batch_rows} rows a batch, {way}"
            line = f"{name:52}{first:12,.0f}{first / base[0]:7.2f}"
            print(f"{line}{later:12,.0f}{later / base[1]:7.2f}{read:12,.0f}", flush=True)


def main() -> None:
    """Write the files and run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--documents", type=int, default=200_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default="", help="text in the names of the cases to measure")
    parser.add_argument("--epochs", type=int, default=40, help="number of later epochs")
    parser.add_argument("--keep-none", action="store_true", help="keep no pages in memory")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        os.environ["FASTLOAD_CACHE_DIR"] = os.path.join(directory, "cache")
        slice_rows = arguments.rows // _SLICES[-1]
        cases = []
        for group_rows in (slice_rows // 4, slice_rows * 2):
            path = Path(directory, f"groups-of-{group_rows}.parquet")
            write_table(path, arguments.rows, group_rows)
            name = f"row groups of {group_rows}"
            cases += [Case(name, path, {}, each, "row", _ROW_WINDOW) for each in (64, 512)]
        tokens = write_documents(Path(directory), arguments.documents)
        pack = {"pack": Pack("input_ids", _LENGTH)}
        cases += [
            Case("packed", tokens, pack, each, "input_ids", _DOCUMENT_WINDOW) for each in (1, 4)
        ]
        cases = [case for case in cases if arguments.only in case.name]
        show(cases, arguments.repeats, arguments.epochs, keep=not arguments.keep_none)


if __name__ == "__main__":
    main()
