"""One question: what does it cost to keep what is read of a store, and what does it save?

    python benchmarks/bench_cache.py [--files N] [--rows N] [--latency-ms X] [--repeats N]
        [--pace X] [--host ADDRESS --within COMMAND]

Three of forty columns of a click-log table are read in order, as in benchmarks/bench_store.py,
from a server in a process of its own that answers each request after the latency. For each repeat,
new datasets are made and read twice: without a cache, with an empty cache of each tier and of both
tiers, with a cache that another dataset has filled, and from local files; then the same shuffled.
A line for each dataset has the seconds of its first and second pass (medians), and the ratio of
its first pass to the first pass without a cache in the same repeat (median, least and most). A fill
ends when all bytes are on disk. Every pass must yield the same sums. The cache lies in the
directory of temporary files (TMPDIR), in the page cache: the speed of disks is not measured. The
network is that of the machine, or another network, as in benchmarks/bench_store.py.

    python benchmarks/bench_cache.py --decoded PARQUET [--repeats N] [--pace X]

All columns of a local file are read, in order and shuffled: without a cache, with an empty cache,
and from the blocks of a full cache; with the columns unchanged, and after a typical step
(logarithms of floats, remainders of integers, by numpy). Other lines have the time to copy as many
bytes with as many threads, and the ratio of a pass that fills the cache to the first pass without a
cache in the same repeat. "until written" includes the time that closing waits for row groups which
are still in memory, and "plain write" is the time to write as many bytes to files of 16 MiB in the
directory of the cache. Every pass must yield the same sums of one column.

With --pace X, the consumer sleeps after each batch, for X times the time of a batch in a pass
without a cache and without sleep: a training step that leaves the cores to the loader. With 2, the
consumer takes half of what the loader can deliver.

After a cache was measured, its files are emptied, and removed only at the end: for minutes after
files were removed, ext4 takes up to 0.6 ms to make a file. So wait before another run, or use
another TMPDIR. If the host of a virtual machine provides memory on demand, the first access to a
page is slow: so before each first pass, as much memory as a pass needs is touched and freed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.dataset as pads
import torch
from support.click_log_store import COLUMNS, serve, write_click_log

from fastload import IO, Cache, FastParquetDataset
from fastload.runtime.cores import available_cores
from fastload.runtime.disk.cache import RAW
from fastload.runtime.disk.entries import entries_of, used_bytes

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

_TOUCHED_BYTES = 1_600_000_000


def _have_memory() -> None:
    """Touch as much memory as a first pass needs, so that the host provides the memory before."""
    touched = np.ones(_TOUCHED_BYTES, np.uint8)
    del touched


@contextmanager
def _cache_directory(within: str) -> Generator[str, None, None]:
    """Make an empty directory, and delete its contents at the end of the with block."""
    directory = tempfile.mkdtemp(dir=within)
    yield directory
    for folder, _, names in os.walk(directory):
        for name in names:
            os.truncate(os.path.join(folder, name), 0)


def _dataset(source: str, url: str, cache: Cache | None = None, **order: Any) -> FastParquetDataset:
    remote = source.startswith("gs://")
    return FastParquetDataset(
        source,
        columns=COLUMNS,
        batch_size=65_536,
        storage_options={"endpoint_url": url, "token": "anon"} if remote else None,
        io=IO(transport="native") if remote else None,
        cache=cache,
        **order,
    )


def _train(step_s: float) -> None:
    if step_s:
        time.sleep(step_s)


def _passes(
    dataset: FastParquetDataset, expected: dict[str, int], step_s: float = 0.0
) -> tuple[float, float]:
    """Return the seconds of the first and the second pass."""
    seconds = []
    _have_memory()
    with dataset:
        for _ in range(2):
            sums = dict.fromkeys(COLUMNS, 0)
            start = time.perf_counter()
            for batch in dataset:
                for name in COLUMNS:
                    sums[name] += int(batch[name].sum())
                _train(step_s)
            dataset._source.storage.flush()  # noqa: SLF001 - that is part of the pass
            seconds.append(time.perf_counter() - start)
            assert sums == expected, sums
    return seconds[0], seconds[1]


_TIERS: dict[str, dict[str, Any]] = {
    "ranges": {"decoded": False},
    "ranges, max_bytes=": {"decoded": False, "max_bytes": "10GB"},
    "blocks": {"raw": False},
    "ranges and blocks": {},
}


def _measure(
    directory: str,
    caches: str,
    url: str,
    expected: dict[str, int],
    repeats: int,
    pace: float,
    **order: Any,
) -> None:
    found = defaultdict[str, list[tuple[float, float]]](list)
    stored = "gs://bucket/train/*.parquet"
    _passes(_dataset(stored, url, **order), expected)  # imports, and footers
    with _dataset(stored, url, **order) as dataset:
        batches = len(dataset)
    step_s = pace * _passes(_dataset(stored, url, **order), expected)[0] / batches if pace else 0.0
    for _ in range(repeats):
        found["no cache"].append(_passes(_dataset(stored, url, **order), expected, step_s))
        for tier, options in _TIERS.items():
            with _cache_directory(caches) as empty:
                cache = Cache(empty, **options)
                for state in ("empty", "full"):
                    passes = _passes(_dataset(stored, url, cache, **order), expected, step_s)
                    found[f"{state}, of {tier}"].append(passes)
                if tier == "ranges":
                    entries = len(list(entries_of(cache.path / RAW)))
                    used = used_bytes(cache.path / RAW)
        found["local files"].append(_passes(_dataset(directory, url, **order), expected, step_s))
    print("shuffled" if order else "in order", end=": ")
    print(f"{entries} entries of ranges, {used / 1e6:.1f} MB on disk, {step_s * 1e3:.2f} ms a step")
    print(f"{'':28}{'first pass':>12}{'second pass':>12}{'first, of no cache':>24}")
    for name, pairs in found.items():
        first, second = zip(*pairs, strict=True)
        share = _share([one[0] for one in found["no cache"]], first)
        medians = f"{statistics.median(first):12.3f}{statistics.median(second):12.3f}"
        print(f"{name:28}{medians}{share:>24}", flush=True)


def _share(plain: Sequence[float], others: Sequence[float]) -> str:
    """Format the ratios of other times to plain times, by pairs."""
    shares = [other / one for one, other in zip(plain, others, strict=True)]
    return f"{statistics.median(shares):.2f} ({min(shares):.2f}-{max(shares):.2f})"


def _seconds(dataset: FastParquetDataset, column: str, expected: int, step_s: float = 0.0) -> float:
    start = time.perf_counter()
    total = 0
    for batch in dataset:
        total += int(batch[column].sum())
        _train(step_s)
    seconds = time.perf_counter() - start
    assert total == expected, total
    return seconds


def _copying(total_bytes: int, threads: int) -> float:
    """Return the least seconds of several copies of `total_bytes` bytes."""
    parts = [torch.ones(total_bytes // threads, dtype=torch.uint8) for _ in range(threads)]
    copies = [torch.zeros_like(part) for part in parts]
    least = float("inf")
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(5):
            start = time.perf_counter()
            list(pool.map(lambda pair: pair[0].copy_(pair[1]), zip(copies, parts, strict=True)))
            least = min(least, time.perf_counter() - start)
    return least


def _writing(directory: str, total_bytes: int) -> float:
    """Return the seconds to write `total_bytes` bytes to new files of 16 MiB."""
    piece = b"\x55" * (16 << 20)
    start = time.perf_counter()
    for at in range(0, total_bytes, len(piece)):
        Path(directory, str(at)).write_bytes(piece[: total_bytes - at])
    return time.perf_counter() - start


def _normalised(block: dict[str, Any]) -> dict[str, Any]:
    return {name: _normalised_column(values) for name, values in block.items()}


def _normalised_column(values: Any) -> Any:
    if values.dtype.kind == "f":
        return np.log1p(np.maximum(values, 0))
    return values % 100_003 if values.dtype == np.int64 else values


def _measure_decoded(path: str, caches: str, repeats: int, pace: float) -> None:
    first = pads.dataset(path).schema
    column = next(field.name for field in first if str(field.type).startswith("int"))
    values = pads.dataset(path).to_table([column])[column].to_numpy()
    threads = available_cores()
    for steps, order in product((None, _normalised), ({}, {"shuffle": True})):
        expected = int(np.sum(values if steps is None else _normalised_column(values)))
        found = defaultdict(list)
        uncached = 0
        options = {"batch_size": 8192, "threads": threads, "preprocess": steps, **order}
        with FastParquetDataset(path, **options) as first_of_all:
            batches = len(first_of_all)
            _seconds(first_of_all, column, expected)
        step_s = 0.0
        if pace:
            _have_memory()
            with FastParquetDataset(path, **options) as first_pass:
                step_s = pace * _seconds(first_pass, column, expected) / batches
        for _ in range(repeats):
            _have_memory()
            with FastParquetDataset(path, **options) as plain:
                seconds = [_seconds(plain, column, expected, step_s) for _ in range(3)]
                found["files, first pass"].append(seconds[0])
                found["files, later passes"].append(min(seconds[1:]))
            with _cache_directory(caches) as cache:
                _have_memory()
                start = time.perf_counter()
                with FastParquetDataset(path, cache=cache, **options) as filling:
                    found["an empty cache"].append(_seconds(filling, column, expected, step_s))
                    uncached += filling.stats().uncached_row_groups
                found["  until written"].append(time.perf_counter() - start)
                _have_memory()
                with FastParquetDataset(path, cache=cache, **options) as full:
                    seconds = [_seconds(full, column, expected, step_s) for _ in range(4)]
                    total_bytes = sum(batch.nbytes for batch in full)
                found["blocks, first pass"].append(seconds[0])
                found["blocks, later passes"].append(min(seconds[1:]))
            found["memcpy"].append(_copying(total_bytes, threads))
            with _cache_directory(caches) as directory:
                found["plain write"].append(_writing(directory, total_bytes))
        print("shuffled" if order else "in order", end=", ")
        print("as it is" if steps is None else "after a step", end=", ")
        print(f"{total_bytes / 1e6:.0f} MB, {step_s * 1e3:.2f} ms a step of the consumer's")
        for name, times in found.items():
            print(f"  {name:22}{statistics.median(times):8.3f} s, least {min(times):.3f}")
        share = _share(found["files, first pass"], found["an empty cache"])
        print(f"  a first pass that fills takes {share} of one without a cache;", end=" ")
        print(f"{uncached} row groups were not kept, in {repeats} passes")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--files", type=int, default=16)
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--latency-ms", type=float, default=30.0)
    parser.add_argument("--host", default="127.0.0.1", help="the server's address")
    parser.add_argument("--within", default="", help="command that runs the server, if any")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--pace", type=float, default=0.0, help="steps, in the loader's times")
    parser.add_argument("--decoded", metavar="PARQUET", help="measure the decoded tier on it")
    arguments = parser.parse_args()
    # OpenMP's threads would spin after each sum, on the cores that load.
    torch.set_num_threads(1)
    if arguments.decoded:
        with tempfile.TemporaryDirectory() as caches:
            _measure_decoded(arguments.decoded, caches, arguments.repeats, arguments.pace)
        return
    with tempfile.TemporaryDirectory() as directory, tempfile.TemporaryDirectory() as caches:
        write_click_log(Path(directory), arguments.files, arguments.rows)
        local = pads.dataset(directory).to_table(columns=COLUMNS)
        expected = {c: int(np.sum(local[c].to_numpy(), dtype=np.int64)) for c in COLUMNS}
        host, within = arguments.host, arguments.within.split()
        with serve(directory, arguments.latency_ms / 1000, host, within) as store:
            for order in ({}, {"shuffle": True}):
                _measure(
                    directory,
                    caches,
                    store.url,
                    expected,
                    arguments.repeats,
                    arguments.pace,
                    **order,
                )


if __name__ == "__main__":
    main()
