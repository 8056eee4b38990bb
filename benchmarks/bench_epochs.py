"""One question: how long does a training loop wait for data, from its second epoch on?

    python benchmarks/bench_epochs.py [--rows N] [--batch-size N] [--epochs N] [--workers N]
        [--tiers NAME ...]

A table of 10 int64 columns, zstd, is read in order, and shuffled in 1, 2 and 20 windows. The
consumer takes half of what the loader can give: its step, a sleep, lasts twice the mean time of a
batch in passes that do nothing else. Tiers:

- kept: pages stay in memory from the first epoch on
- files: the memory has no room for kept pages, so every epoch reads and decompresses the files
- decoded: the decoded tier of the cache, on disk
- raw: the files lie in a store (a server of this machine), and the raw tier keeps their bytes

With --workers, a DataLoader with persistent_workers=True reads. The lines "DataLoader alone" have
the waits for a dataset of numbers in a DataLoader with as many workers, at the same steps: what no
loader can take away.

For each case the output has the step, the longest wait of the second epoch and of all later
epochs, and the median over all later epochs of their longest waits, in milliseconds; then the
latter as a share of the step. The goal is a share of at most 1: no wait longer than one step.
Before, all columns of an epoch are compared with what pyarrow reads, and each timed epoch has to
deliver every row once.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from support.click_log_store import serve
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from fastload import Cache, FastParquetDataset
from fastload.runtime.cores import available_cores

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_WINDOWS = (0, 1, 2, 20)  # 0: in order
_TIERS = ("kept", "files", "decoded", "raw")
_PASSES = 3


def write_table(path: Path, rows: int) -> None:
    """Write numbers beside the number of each row."""
    rng = np.random.default_rng(1)
    columns: dict[str, Any] = {f"i{i}": rng.integers(0, 2**20, rows) for i in range(9)}
    columns["row"] = np.arange(rows)
    pq.write_table(pa.table(columns), path, compression="zstd", row_group_size=rows // 40)


class Numbers(IterableDataset[dict[str, torch.Tensor]]):
    """A dataset of as many numbers as a pass has batches, each with a sum of row numbers.

    Args:
        rows: rows of an epoch.
        batches: batches of an epoch.
    """

    def __init__(self, rows: int, batches: int) -> None:
        self._rows = rows
        self._batches = batches

    def __iter__(self) -> Iterator[dict[str, torch.Tensor]]:
        """Yield this worker's numbers."""
        info = get_worker_info()
        first, step = (info.id, info.num_workers) if info else (0, 1)
        mean, rest = divmod(self._rows * (self._rows - 1) // 2, self._batches)
        for number in range(first, self._batches, step):
            yield {"row": torch.tensor([mean + (rest if number == 0 else 0)])}

    def __len__(self) -> int:
        return self._batches


def waits_of(batches: Iterable[Any], rows: int, step_s: float) -> list[float]:
    """Consume one epoch and return the seconds of each wait, the wait for the end included.

    Raises:
        AssertionError: the epoch did not deliver each row once.
    """
    waits = []
    total = 0
    start = time.perf_counter()
    iterator = iter(batches)
    while (batch := next(iterator, None)) is not None:
        waits.append(time.perf_counter() - start)
        total += int(batch["row"].sum())
        if step_s:
            time.sleep(step_s)
        start = time.perf_counter()
    waits.append(time.perf_counter() - start)
    assert total == rows * (rows - 1) // 2, "an epoch lost or repeated rows"
    return waits


def check(batches: Iterable[Any], table: pa.Table, *, in_order: bool) -> None:
    """Compare all columns of an epoch with the table that pyarrow reads.

    Raises:
        AssertionError: an epoch differs from the table.
    """
    parts = [{name: value.numpy().copy() for name, value in b.items()} for b in batches]
    row = np.concatenate([part["row"] for part in parts])
    assert np.array_equal(np.sort(row), np.arange(len(table))), "an epoch lost or repeated rows"
    if in_order:
        assert np.array_equal(row, np.arange(len(table))), "an epoch has another order"
    for name in table.column_names:
        got = np.concatenate([part[name] for part in parts])
        assert np.array_equal(got, table[name].to_numpy()[row]), f"values differ - at `{name}`"


def loader_of(dataset: Any, workers: int) -> Iterable[Any]:
    """Return the dataset, or a DataLoader whose workers live on."""
    return through_loader(dataset, workers) if workers else dataset


def through_loader(dataset: Any, workers: int) -> Iterable[Any]:
    """Return a DataLoader whose workers live on."""
    lives_on = bool(workers)
    return DataLoader(dataset, batch_size=None, num_workers=workers, persistent_workers=lives_on)


def line(name: str, step_s: float, longest: list[float]) -> str:
    """Return the line of a case, given the longest wait of each epoch."""
    later = statistics.median(longest[2:])
    cells = (step_s, longest[1], max(longest[2:]), later)
    share = f"{later / step_s:9.2f}{'' if later <= step_s else '  missed'}"
    return f"{name:34}{''.join(f'{cell * 1e3:9.2f}' for cell in cells)}{share}"


def measure(
    source: str, table: pa.Table, options: dict[str, Any], epochs: int, workers: int
) -> tuple[float, list[float], int]:
    """Return the step, the longest wait of each epoch, and the number of batches."""
    rows = len(table)
    with FastParquetDataset(source, **options) as dataset:
        loader = loader_of(dataset, workers)
        check(loader, table, in_order=not options["shuffle"] and not workers)
        for _ in range(_PASSES):
            waits_of(loader, rows, 0)
        start = time.perf_counter()
        for _ in range(_PASSES):
            waits_of(loader, rows, 0)
        step_s = 2 * (time.perf_counter() - start) / _PASSES / len(dataset)
        batches = len(dataset)
    with FastParquetDataset(source, **options) as dataset:
        loader = loader_of(dataset, workers)
        longest = [max(waits_of(loader, rows, step_s)) for _ in range(epochs)]
    return step_s, longest, batches


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=800_000)
    parser.add_argument("--batch-size", type=int, default=4096)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--workers", type=int, default=0, help="of a DataLoader")
    parser.add_argument("--tiers", nargs="+", choices=_TIERS, default=list(_TIERS))
    arguments = parser.parse_args()
    rows, workers = arguments.rows, arguments.workers
    print(f"{'':34}{'step':>9}{'2nd':>9}{'later':>9}{'median':>9}{'share':>9}")
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        path = directory / "files" / "table.parquet"
        path.parent.mkdir()
        write_table(path, rows)
        table = pq.read_table(path)
        for tier in arguments.tiers:
            source, options = str(path), {"batch_size": arguments.batch_size}
            if tier == "files":
                # Room for two windows of all rows and the scratch of all threads, and little more.
                # The scratch of a thread is three columns of the table.
                room = 2.15 + 0.3 * available_cores() / max(1, workers)
                options["memory_budget"] = int(room * table.nbytes) * max(1, workers)
            if tier == "raw":
                store = stack.enter_context(serve(str(path.parent), 0.001))
                source = "gs://bucket/train/table.parquet"
                options["storage_options"] = store.options
            for windows in _WINDOWS:
                options["shuffle"] = bool(windows)
                options["shuffle_window"] = rows // windows if windows else None
                if tier in ("decoded", "raw"):
                    place = directory / f"{tier}-{windows}"
                    options["cache"] = Cache(place, raw=tier == "raw", decoded=tier == "decoded")
                step_s, longest, batches = measure(
                    source, table, options, arguments.epochs, workers
                )
                order = f"{windows} window(s)" if windows else "in order"
                print(line(f"{tier}, {order}", step_s, longest), flush=True)
                alone = through_loader(Numbers(rows, batches), workers)
                waits = [max(waits_of(alone, rows, step_s)) for _ in range(arguments.epochs)]
                print(line("  DataLoader alone", step_s, waits), flush=True)


if __name__ == "__main__":
    main()
