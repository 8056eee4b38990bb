"""One question: how many scattered rows a second does `take` read, beside other readers of Parquet?

    python benchmarks/bench_take.py [--rows N] [--seconds S] [--threads N] [--dictionaries]
                                     [--columns N] [--compression CODEC] [--calls N ...]

Each line is of one size of call: random rows of 4 columns (two of integers, one of floats, one of
strings), or of a multiple of 4, become tensors. fastload reads them by `take` from a file with
pages of 1,024 rows, with a page index and without; pyarrow reads the row groups that the rows lie
in and takes the rows from them, once with row groups of 2**18 rows and once with row groups of the
size of these pages; polars scans the file and gathers the rows. Lance takes the rows from a dataset
of its own format, which it writes with its own defaults; `make peers` installs Lance. Strings of
the peers stay Arrow arrays. All must give the same rows, which is checked before any timing.
Columns: median milliseconds of a call, thousand rows a second, and for fastload the pages that were
decoded, as a multiple of the least number.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from fastload import FastParquetDataset
from fastload.runtime.cores import available_cores

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

ROW_GROUP_ROWS = 1 << 18
PAGE_ROWS = 1024
CALLS = (1, 32, 300, 1000, 4000)
# A call of a peer that takes longer than this is not repeated.
_SLOW_S = 5.0

Rows = dict[str, Any]


def table(rows: int, columns: int = 4) -> pa.Table:
    """Make the rows: for every 4 columns numbers that compress little, a category, strings."""
    rng = np.random.default_rng(0)
    made: dict[str, Any] = {}
    for k in range(columns // 4):
        made[f"id{k}"] = rng.integers(0, 1 << 40, rows)
        made[f"price{k}"] = rng.random(rows, np.float32)
        made[f"category{k}"] = rng.integers(0, 1000, rows).astype(np.int32)
        made[f"name{k}"] = pa.array([f"item {k}" for k in rng.integers(0, 1 << 30, rows)])
    return pa.table(made)


def write(whole: pa.Table, path: Path, **layout: Any) -> Path:
    """Write a file with pages of PAGE_ROWS rows."""
    options = {
        "row_group_size": ROW_GROUP_ROWS,
        "max_rows_per_page": PAGE_ROWS,
        "use_dictionary": [name for name in whole.column_names if name.startswith("category")],
        "write_page_index": True,
        **layout,
    }
    pq.write_table(whole, path, **options)
    return path


def by_pyarrow(path: Path) -> Callable[[NDArray[np.int64]], pa.Table]:
    """Return a reader that reads whole row groups and takes rows from these."""
    file = pq.ParquetFile(path)
    counts = [file.metadata.row_group(g).num_rows for g in range(file.num_row_groups)]
    edges = np.concatenate([[0], np.cumsum(counts)])

    def read(rows: NDArray[np.int64]) -> pa.Table:
        group = np.searchsorted(edges, rows, "right") - 1
        groups, place = np.unique(group, return_inverse=True)
        before = np.concatenate([[0], np.cumsum(np.diff(edges)[groups])])
        read = file.read_row_groups(groups.tolist(), use_threads=True)
        return read.take(pa.array(before[place] + rows - edges[group]))

    return read


def by_polars(path: Path) -> Callable[[NDArray[np.int64]], pa.Table]:
    """Return a reader that lets polars gather rows of a scan."""
    scan = pl.scan_parquet(path)

    def read(rows: NDArray[np.int64]) -> pa.Table:
        return scan.select(pl.all().gather(rows.tolist())).collect().to_arrow()

    return read


def by_lance(whole: pa.Table, directory: Path) -> Callable[[NDArray[np.int64]], pa.Table] | None:
    """Write the rows to a Lance dataset; return a reader, or None if Lance is not installed."""
    try:
        import lance
    except ImportError:
        return None
    stored = lance.write_dataset(whole, str(directory / "rows.lance"))
    return lambda rows: stored.take(rows.tolist())


def megabytes(path: Path) -> float:
    """Return the size of a file, or of all files of a directory."""
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file()) / 1e6


def with_tensors(read: Callable[[NDArray[np.int64]], pa.Table]) -> Callable[..., Rows]:
    """Return the reader with numbers as tensors; strings stay as they are."""
    import torch

    def tensors(rows: NDArray[np.int64]) -> Rows:
        found = read(rows)
        return {
            name: column
            if name.startswith("name")
            else torch.from_numpy(column.to_numpy(zero_copy_only=False).copy())
            for name, column in zip(found.column_names, found.columns, strict=True)
        }

    return tensors


def check(read: Callable[..., Rows], whole: pa.Table, rows: NDArray[np.int64]) -> None:
    """Raise AssertionError unless the reader gives the rows of the table, in their order."""
    want, got = whole.take(pa.array(rows)), read(rows)
    for name, column in zip(want.column_names, want.columns, strict=True):
        found = got[name].to_pylist() if isinstance(got[name], pa.ChunkedArray) else got[name]
        values = found if isinstance(found, list) else found.tolist()
        assert values == column.to_pylist(), f"{name} differs"


def measure(read: Callable[..., Rows], total: int, rows: int, seconds: float) -> float:
    """Return the median seconds of a call for `rows` random rows."""
    rng = np.random.default_rng(1)
    times: list[float] = []
    began = time.perf_counter()
    while not times or time.perf_counter() - began < seconds:
        asked = rng.integers(0, total, rows)
        start = time.perf_counter()
        read(asked)
        times.append(time.perf_counter() - start)
        if times[-1] > _SLOW_S:
            break
    return float(np.median(times))


def pages_per_least(dataset: FastParquetDataset, total: int, rows: int) -> float:
    """Return the pages decoded by a call, as a multiple of the pages that hold its rows."""
    asked = np.random.default_rng(2).integers(0, total, rows)
    places = {(r // ROW_GROUP_ROWS, r % ROW_GROUP_ROWS // PAGE_ROWS) for r in asked.tolist()}
    taker = dataset._taker  # noqa: SLF001
    assert taker is not None
    engine = taker._made[os.getpid()]  # noqa: SLF001
    before = engine.counts()["decoded_pages"]
    dataset.take(asked)
    least = len(dataset.schema) * len(places)
    return (engine.counts()["decoded_pages"] - before) / least


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=4, help="a multiple of 4")
    parser.add_argument("--seconds", type=float, default=2.0, help="for each line")
    parser.add_argument("--threads", type=int, default=available_cores())
    parser.add_argument(
        "--dictionaries", action="store_true", help="all columns have dictionaries, as by default"
    )
    parser.add_argument("--compression", default="snappy", help="of the Parquet files")
    parser.add_argument("--calls", type=int, nargs="+", default=CALLS, help="rows of a call")
    arguments = parser.parse_args()
    whole = table(arguments.rows, arguments.columns)
    with tempfile.TemporaryDirectory() as home:
        directory = Path(home)
        layout: dict[str, Any] = {"compression": arguments.compression}
        if arguments.dictionaries:
            layout["use_dictionary"] = True
        indexed = write(whole, directory / "indexed.parquet", **layout)
        bare = write(whole, directory / "bare.parquet", write_page_index=False, **layout)
        small = write(whole, directory / "small.parquet", row_group_size=PAGE_ROWS, **layout)
        datasets = {
            name: FastParquetDataset(path, threads=arguments.threads)
            for name, path in (("page index", indexed), ("no index", bare))
        }
        readers: dict[str, Callable[..., Rows]] = {
            f"fastload, {name}": dataset.take for name, dataset in datasets.items()
        }
        readers["pyarrow, row groups of 2**18"] = with_tensors(by_pyarrow(indexed))
        readers["pyarrow, row groups of 1,024"] = with_tensors(by_pyarrow(small))
        readers["polars"] = with_tensors(by_polars(indexed))
        lance = by_lance(whole, directory)
        if lance is None:
            print("pylance is not installed: make peers")
        else:
            readers["lance"] = with_tensors(lance)
        asked = np.random.default_rng(3).integers(0, arguments.rows, 2_000)
        for read in readers.values():
            check(read, whole, asked)
        sizes = {path.name: megabytes(path) for path in sorted(directory.iterdir())}
        print(", ".join(f"{name} {size:.1f} MB" for name, size in sizes.items()))
        print(f"{'reader':30} {'rows':>6} {'ms':>9} {'krows/s':>9} {'pages':>6}")
        for rows in arguments.calls:
            for name, read in readers.items():
                s = measure(read, arguments.rows, rows, arguments.seconds)
                line = f"{name:30} {rows:6} {s * 1e3:9.2f} {rows / s / 1e3:9.1f}"
                dataset = datasets.get(name.removeprefix("fastload, "))
                if dataset is not None:
                    line += f" {pages_per_least(dataset, arguments.rows, rows):6.3f}"
                print(line, flush=True)


if __name__ == "__main__":
    main()
