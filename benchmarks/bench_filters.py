"""One question: what does a filter cost, in time and bytes, against pyarrow.dataset and polars?

    python benchmarks/bench_filters.py [--rows N] [--threads N] [--repeats N]

For each share of rows that the filter keeps, scattered over the file or in one cluster, a line has
the seconds of one pass (the best of the repeats) and the bytes read. The lines are of fastload's
first pass, which finds the rows and reads them; of its later, successive passes (their mean); and
of pyarrow.dataset and polars, which find the rows on every pass. All must yield the same rows as
tensors, which is checked before any timing. Bytes are those of read calls; polars maps files, which
no read call shows.

Then, for filters of string columns of 2 M rows, the milliseconds to find the rows: by fastload,
which finds the rows while a dataset is made, with nothing cached, and by pyarrow's scanner, which
counts the rows. The benchmark prints the best of the repeats and their ratio. A filter with `<` on
strings goes through pyarrow's scanner in fastload too; the core evaluates the others. The counts
are compared before any timing.
"""

from __future__ import annotations

import argparse
import functools
import os
import shutil
import tempfile
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import torch
from support.fractions_of_roof import SteadyPasses
from torch.utils.dlpack import from_dlpack

from fastload import FastParquetDataset
from fastload.runtime.cores import available_cores

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROW_GROUP_ROWS = 250_000
_SHARES = (0.001, 0.01, 0.1, 1.0)
KEYS = 1_000_000
_BATCH_ROWS = 65_536
COLUMNS = ["i0", "i1", "f0", "f1", "f2", "c0", "c1"]

Columns = dict[str, torch.Tensor]


def table(rows: int = 4_000_000) -> pa.Table:
    """Make numbers and categories beside two keys in [0, KEYS): one scattered, one sorted."""
    rng = np.random.default_rng(1)
    return pa.table(
        {
            "scattered": rng.integers(0, KEYS, rows),
            "clustered": np.arange(rows) * KEYS // rows,
            **{f"i{i}": rng.integers(0, 2**40, rows) for i in range(2)},
            **{f"f{i}": rng.standard_normal(rows, np.float32) for i in range(3)},
            **{f"c{i}": rng.integers(0, 1000, rows).astype(np.int32) for i in range(2)},
        }
    )


def fastload_passes(
    path: Path, key: str, limit: int, threads: int
) -> tuple[Callable[[], Iterator[Columns]], FastParquetDataset]:
    """Return a function that makes a first pass, and a dataset for later passes."""
    home = Path(os.environ["FASTLOAD_CACHE_DIR"])

    def make() -> FastParquetDataset:
        filters = pc.field(key) < limit
        return FastParquetDataset(
            path, columns=COLUMNS, filters=filters, batch_size=_BATCH_ROWS, threads=threads
        )

    later = make()

    def first() -> Iterator[Columns]:
        shutil.rmtree(home, ignore_errors=True)
        with make() as dataset:
            yield from dataset

    return first, later


def pyarrow_pass(path: Path, key: str, limit: int) -> Iterator[Columns]:
    """Yield the batches of pyarrow.dataset."""
    scanner = pads.dataset(path).scanner(columns=COLUMNS, filter=pc.field(key) < limit)
    for batch in scanner.to_batches():
        yield {name: _tensor(batch[name].to_numpy()) for name in COLUMNS}


def polars_pass(path: Path, key: str, limit: int) -> Iterator[Columns]:
    """Yield one table of polars."""
    import polars as pl

    table = pl.scan_parquet(path).filter(pl.col(key) < limit).select(COLUMNS).collect()
    yield {name: _tensor(table[name].to_numpy()) for name in COLUMNS}


def _tensor(array: Any) -> torch.Tensor:
    return from_dlpack(array) if array.flags.writeable else _view(array)


def _view(array: Any) -> torch.Tensor:
    # torch warns of read-only memory such as Arrow's; the benchmark does not write to it.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.from_numpy(array)


def check_answer(batches: Iterator[Columns], expected: Any) -> None:
    """Raise unless the batches hold exactly the expected rows, in order."""
    parts = list(batches)
    for name in COLUMNS:
        got = torch.cat([part[name] for part in parts]).numpy() if parts else np.zeros(0)
        want = expected[name].to_numpy()
        if not np.array_equal(got, want):
            raise SystemExit(f"Expected {len(want)} rows of `{name}`, got others")


def measure(make: Callable[[], Iterator[Columns]], repeats: int) -> tuple[float, int]:
    """Return the seconds of the best pass, and the bytes that the last pass read."""
    best = float("inf")
    read = 0
    for _ in range(repeats):
        before = _read_bytes()
        start = time.perf_counter()
        for _batch in make():
            pass
        best = min(best, time.perf_counter() - start)
        read = _read_bytes() - before
    return best, read


def _read_bytes() -> int:
    counts = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(counts["rchar"])


def string_table(rows: int = 2_000_000) -> pa.Table:
    """Strings: 200 different ones, 1.5 M different ones, and sorted."""
    rng = np.random.default_rng(1)
    return pa.table(
        {
            "few": pa.array(np.char.mod("value %03d", np.arange(200))).take(
                pa.array(rng.integers(0, 200, rows))
            ),
            "many": pa.array(np.char.mod("value %07d", rng.integers(0, 4_000_000, rows))),
            "sorted": pa.array(np.char.mod("value %07d", np.arange(rows))),
        }
    )


def string_filters() -> dict[str, pc.Expression]:
    """Filters of the columns of `string_table`, by name."""
    some = [f"value {number:03}" for number in range(0, 200, 10)]
    thousand = [f"value {number:07}" for number in range(0, 4_000_000, 4_000)]
    return {
        "200 different ones == x": pc.field("few") == "value 017",
        "the same, in a set of 20": pc.field("few").isin(some),
        "200 different ones < x": pc.field("few") < "value 017",
        "1.5 M different ones == x": pc.field("many") == thousand[1],
        "the same, in a set of 1,000": pc.field("many").isin(thousand),
        "1.5 M different ones < x": pc.field("many") < "value 0040000",
        "sorted == x": pc.field("sorted") == thousand[1],
        "sorted < x": pc.field("sorted") < "value 0020000",
    }


def compare_string_filters(directory: Path, threads: int, repeats: int) -> None:
    """Print how long the rows take to find, by fastload and by pyarrow's scanner."""
    path = directory / "strings.parquet"
    pq.write_table(string_table(), path, row_group_size=ROW_GROUP_ROWS, write_page_index=True)
    print(f"{'strings, ms to find the rows':32}{'fastload':>10}{'scanner':>10}{'ratio':>8}")
    for name, filters in string_filters().items():

        def find(filters: pc.Expression = filters) -> int:
            shutil.rmtree(os.environ["FASTLOAD_CACHE_DIR"], ignore_errors=True)
            with FastParquetDataset(path, filters=filters, batch_size=1, threads=threads) as found:
                return len(found)

        def scan(filters: pc.Expression = filters) -> int:
            return int(pads.dataset(path).scanner(columns=[], filter=filters).count_rows())

        if find() != scan():
            raise SystemExit(f"Expected {scan()} rows, got {find()} - of {name}")
        ours_s, theirs_s = (_best_s(way, repeats) for way in (find, scan))
        line = f"{name:32}{ours_s * 1e3:10.1f}{theirs_s * 1e3:10.1f}{theirs_s / ours_s:8.2f}"
        print(line, flush=True)


def _best_s(way: Callable[[], int], repeats: int) -> float:
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        way()
        best = min(best, time.perf_counter() - start)
    return best


def main() -> None:
    """Run the benchmark and print its table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--threads", type=int, default=available_cores())
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        os.environ["FASTLOAD_CACHE_DIR"] = os.path.join(directory, "cache")
        path = Path(directory, "table.parquet")
        pq.write_table(
            table(arguments.rows), path, row_group_size=ROW_GROUP_ROWS, write_page_index=True
        )
        print(f"{arguments.rows} rows, {path.stat().st_size >> 20} MB, seconds and MB of a pass")
        print(f"{'':16}" + "".join(f"{n:>17}" for n in ("first", "later", "pyarrow", "polars")))
        for key in ("scattered", "clustered"):
            for share in _SHARES:
                limit = round(share * KEYS)
                first, later = fastload_passes(path, key, limit, arguments.threads)
                passes: dict[str, Callable[[], Any]] = {
                    "first": first,
                    "later": later.__iter__,
                    "pyarrow": functools.partial(pyarrow_pass, path, key, limit),
                    "polars": functools.partial(polars_pass, path, key, limit),
                }
                expected = pads.dataset(path).to_table(COLUMNS, filter=pc.field(key) < limit)
                line = f"{key} {share:<6g}"
                for name, make in passes.items():
                    check_answer(make(), expected)
                    seconds, read = measure(make, arguments.repeats)
                    if name == "later":
                        seconds = SteadyPasses(later).measure()[0]
                    line += f"  {seconds:8.4f} {read / 1e6:6.1f}"
                print(line, flush=True)
        compare_string_filters(Path(directory), arguments.threads, arguments.repeats)


if __name__ == "__main__":
    main()
