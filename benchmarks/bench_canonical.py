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
with those of one process. Every run opens the datasets anew, and the ways take turns of a few
epochs. The output has the rows per second of the first epoch and of later epochs, as medians; the
median of the shares of the rate that one slice has in the same turn; and the bytes of the files
that were read, for each row. Before the epochs of a turn, one epoch is not timed: a dataset reads
the first windows of its next epoch ahead while the other ways have their turns, and the larger its
windows, the more of the epoch was then read outside of the clock. The goal is a share of at least
0.9. With --keep-none, the datasets keep no decompressed pages in memory.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
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
_TURNS = 8


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


@dataclass(slots=True)
class Figures:
    """The figures of one way.

    Attributes:
        first: rows per second of the first epoch, by run.
        later: rows per second of later epochs, by turn of every run.
        read: bytes of the files that were read.
        rows: number of rows that were delivered.
    """

    first: list[float] = field(default_factory=list)
    later: list[float] = field(default_factory=list)
    read: int = 0
    rows: int = 0

    def rate_of(self, dataset: FastParquetDataset, epochs: int) -> float:
        """Return the rows per second of some epochs, and count the rows."""
        start, rows = time.perf_counter(), 0
        for _ in range(epochs):
            rows += sum(batch.rows for batch in dataset)
        self.rows += rows
        return rows / (time.perf_counter() - start)


def measure(case: Case, repeats: int, later_epochs: int, *, keep: bool) -> dict[str, Figures]:
    """Return the figures of each way; the ways take turns."""
    ways = {
        "one slice": lambda: case.sliced(_SLICES[0]),
        "8 slices": lambda: case.sliced(_SLICES[1]),
        "plain": lambda: case.plain(case.window // _SLICES[0]),
        "small windows": lambda: case.plain(case.window // _SLICES[1]),
    }
    figures = {name: Figures() for name in ways}
    epochs = max(1, later_epochs // _TURNS)
    for _ in range(repeats):
        with ExitStack() as stack:
            opened = {name: stack.enter_context(way()) for name, way in ways.items()}
            for name, dataset in opened.items():
                if not keep:
                    keep_no_pages(dataset)
                len(dataset)  # lengths of documents are known before the clock starts
                figures[name].first.append(figures[name].rate_of(dataset, 1))
            for _ in range(_TURNS):
                for name, dataset in opened.items():
                    figures[name].rate_of(dataset, 1)
                    figures[name].later.append(figures[name].rate_of(dataset, epochs))
            for name, dataset in opened.items():
                figures[name].read += dataset.stats().read.bytes
    return figures


def share_of(rates: list[float], base: list[float]) -> float:
    """Return the median share of rates, each of the rate of the base in the same turn."""
    return statistics.median(rate / of for rate, of in zip(rates, base, strict=True))


def show(cases: Sequence[Case], repeats: int, later_epochs: int, *, keep: bool) -> None:
    """Compare the steps, measure, and print the table."""
    for case in cases:
        for slices in _SLICES:
            expect_same_steps(case, slices)
    print(f"rank 0 of {_RANKS}, {available_cores()} cores; medians of {repeats} runs")
    print(f"{'':52}{'first epoch':>12}{'share':>7}{'later':>12}{'share':>7}{'bytes read':>12}")
    for case in cases:
        figures = measure(case, repeats, later_epochs, keep=keep)
        base = figures["one slice"]
        for way, got in figures.items():
            name = f"{case.name}, {case.batch_rows} rows a batch, {way}"
            first, later = statistics.median(got.first), statistics.median(got.later)
            line = f"{name:52}{first:12,.0f}{share_of(got.first, base.first):7.2f}"
            line += f"{later:12,.0f}{share_of(got.later, base.later):7.2f}"
            print(f"{line}{got.read / got.rows:12,.0f}", flush=True)


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
