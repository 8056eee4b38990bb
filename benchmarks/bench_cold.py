"""One question: how near does a pass over uncached files come to the speed of their disk?

    python benchmarks/bench_cold.py PATH [--columns a,b] [--repeats N] [--batch-size N]

PATH is a Parquet file, or a directory of Parquet files, on the disk to measure. Before each timed
pass, the files are removed from the page cache. The programs are: fastload in order, shuffled, and
from the blocks of a full cache beside PATH (if that directory can be written to); pyarrow and
polars (if polars is installed), which read the same columns of all files with all threads; and
plain reads of the files' bytes, with two and with eight threads, 1 MiB at a time. A line for each
program has the median and the least seconds of a pass, and its seconds when the files are in the
page cache. Every program that yields rows must yield all rows.

On Linux, benchmarks/support/slow_mount.c simulates a disk whose every read takes a while.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from fastload import Cache, FastParquetDataset

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from support.page_cache import leave_page_cache

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

try:
    import polars as pl
except ImportError:
    pl = None  # type: ignore[assignment]

_READ_BYTES = 1 << 20


def _make_cold(paths: Sequence[Path]) -> None:
    for path in paths:
        if not leave_page_cache(path):
            raise SystemExit(f"Expected a file that leaves the page cache, got {path}")


def _fastload(
    paths: Sequence[Path],
    columns: list[str] | None,
    batch_size: int,
    cache: Cache | None = None,
    *,
    shuffle: bool,
) -> int:
    names = [str(path) for path in paths]
    with FastParquetDataset(
        names, columns=columns, batch_size=batch_size, shuffle=shuffle, cache=cache
    ) as dataset:
        return sum(batch.rows for batch in dataset)


def _pyarrow(paths: Sequence[Path], columns: list[str] | None) -> int:
    return sum(pq.read_table(path, columns=columns).num_rows for path in paths)


def _polars(paths: Sequence[Path], columns: list[str] | None) -> int:
    return sum(pl.read_parquet(path, columns=columns).height for path in paths)


def _bytes(paths: Sequence[Path], threads: int) -> None:
    def read(path: Path, offset: int) -> None:
        with path.open("rb", buffering=0) as file:
            os.preadv(file.fileno(), [bytearray(_READ_BYTES)], offset)

    with ThreadPoolExecutor(threads) as pool:
        pieces = [(path, at) for path in paths for at in range(0, _size(path), _READ_BYTES)]
        list(pool.map(read, *zip(*pieces, strict=True)))


def _size(path: Path) -> int:
    return path.stat().st_size


def _programs(
    paths: Sequence[Path], columns: list[str] | None, batch_size: int, cache: Cache | None
) -> dict[str, Callable[[], int | None]]:
    fastload = partial(_fastload, paths, columns, batch_size)
    found: dict[str, Callable[[], int | None]] = {
        "fastload, in order": partial(fastload, shuffle=False),
        "fastload, shuffled": partial(fastload, shuffle=True),
    }
    if cache is not None:
        found["fastload, blocks in order"] = partial(fastload, cache, shuffle=False)
        found["fastload, blocks shuffled"] = partial(fastload, cache, shuffle=True)
    found["pyarrow"] = partial(_pyarrow, paths, columns)
    if pl is not None:
        found["polars"] = partial(_polars, paths, columns)
    for threads in (2, 8):
        found[f"bytes, {threads} threads"] = partial(_bytes, paths, threads)
    return found


def _timed(program: Callable[[], int | None], rows: int) -> float:
    start = time.perf_counter()
    found = program()
    seconds = time.perf_counter() - start
    if found not in (None, rows):
        raise SystemExit(f"Expected {rows} rows, got {found}")
    return seconds


def main() -> None:
    """Run the benchmark and print its table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", type=Path)
    parser.add_argument("--columns", type=lambda names: names.split(","))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=16_384)
    arguments = parser.parse_args()
    path = arguments.path
    paths = sorted(path.rglob("*.parquet")) if path.is_dir() else [path]
    rows = sum(pq.read_metadata(path).num_rows for path in paths)
    beside = path if path.is_dir() else path.parent
    try:
        blocks = tempfile.TemporaryDirectory(dir=beside)
    except OSError:
        _measure(paths, rows, None, arguments)
        return
    with blocks:
        _measure(paths, rows, Path(blocks.name), arguments)


def _measure(
    paths: Sequence[Path],
    rows: int,
    blocks: Path | None,
    arguments: argparse.Namespace,
) -> None:
    cache = None if blocks is None else Cache(str(blocks), raw=False)
    programs = _programs(paths, arguments.columns, arguments.batch_size, cache)
    for program in programs.values():  # imports; the cache is filled
        _timed(program, rows)
    cold: dict[str, list[float]] = {name: [] for name in programs}
    cached: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(arguments.repeats):
        for name, program in programs.items():
            cached[name].append(_timed(program, rows))
            _make_cold([*paths, *([] if blocks is None else blocks.rglob("*.arrow"))])
            cold[name].append(_timed(program, rows))
    total = sum(map(_size, paths))
    print(f"{rows:,} rows, {total / 1e6:.0f} MB of files; seconds of a pass")
    print(f"{'':28}{'cold':>8}{'least':>8}{'in the page cache':>20}")
    for name in programs:
        median, least = statistics.median(cold[name]), min(cold[name])
        print(f"{name:28}{median:8.3f}{least:8.3f}{statistics.median(cached[name]):20.3f}")


if __name__ == "__main__":
    main()
