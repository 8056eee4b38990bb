"""One question: is resuming in the middle of an epoch as quick as starting the epoch?

    python benchmarks/bench_resume.py [--row-groups N] [--group-rows N] [--repeats N]

A file of 1,000 row groups is read in order, shuffled and with a filter; each time, a new dataset is
made. The output has medians of the milliseconds to the first batch at the start (iter, next) and in
the middle (load_state_dict, iter, next), which take turns, and their ratio; without and with making
the dataset, which reads the footer. Before any timing, the first batch after resuming is compared
with the batch of a run that never stopped.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fastload import FastParquetDataset
from fastload.runtime.cores import available_cores
from fastload.testing import assert_same_batches

if TYPE_CHECKING:
    from collections.abc import Mapping

_BATCH_ROWS = 1024
_KEYS = 1_000
_SHUFFLE = {"shuffle": True, "shuffle_window": 1 << 16}
_SOME = {"filters": pc.field("key") < _KEYS // 10}
_CASES: Mapping[str, Mapping[str, Any]] = {
    "in order": {},
    "shuffled": _SHUFFLE,
    "in order, a tenth of the rows": _SOME,
    "shuffled, a tenth of the rows": {**_SHUFFLE, **_SOME},
}


def write_table(path: Path, row_groups: int, group_rows: int) -> None:
    """Write numbers beside a key that is uniform in [0, _KEYS)."""
    rng = np.random.default_rng(1)
    rows = row_groups * group_rows
    columns: dict[str, Any] = {f"x{k}": rng.standard_normal(rows, np.float32) for k in range(8)}
    columns["key"] = rng.integers(0, _KEYS, rows)
    pq.write_table(pa.table(columns), path, row_group_size=group_rows)


def open_dataset(path: Path, options: Mapping[str, Any]) -> FastParquetDataset:
    """Open a new dataset."""
    return FastParquetDataset(path, batch_size=_BATCH_ROWS, **options)


def middle(path: Path, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state in the middle of an epoch; raise unless a run resumes from it exactly."""
    with open_dataset(path, options) as dataset:
        half = len(dataset) // 2
        iterator = iter(dataset)
        for _batch in islice(iterator, half):
            pass
        state = dataset.state_dict()
        following = [batch.clone() for batch in islice(iterator, 3)]
    with open_dataset(path, options) as dataset:
        dataset.load_state_dict(state)
        assert_same_batches(islice(dataset, 3), following)
    return state


def first_batch_ms(
    path: Path, options: Mapping[str, Any], state: Mapping[str, Any] | None
) -> tuple[float, float]:
    """Return the milliseconds to the first batch, without and with making the dataset."""
    start = time.perf_counter()
    with open_dataset(path, options) as dataset:
        made = time.perf_counter()
        if state is not None:
            dataset.load_state_dict(state)
        next(iter(dataset))
        stop = time.perf_counter()
    return (stop - made) * 1e3, (stop - start) * 1e3


def main() -> None:
    """Run the benchmark and print its table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--row-groups", type=int, default=1_000)
    parser.add_argument("--group-rows", type=int, default=4_096)
    parser.add_argument("--repeats", type=int, default=31)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        os.environ["FASTLOAD_CACHE_DIR"] = os.path.join(directory, "cache")
        path = Path(directory, "table.parquet")
        write_table(path, arguments.row_groups, arguments.group_rows)
        print(
            f"{arguments.row_groups} row groups of {arguments.group_rows} rows, "
            f"{available_cores()} threads, ms to the first batch; ratio = middle / start"
        )
        print(f"{'':32}{'dataset made':^26}{'made anew':^26}")
        print(f"{'':32}" + 2 * f"{'start':>8}{'middle':>9}{'ratio':>7}  ")
        for name, options in _CASES.items():
            state = middle(path, options)
            pairs = [
                (first_batch_ms(path, options, None), first_batch_ms(path, options, state))
                for _ in range(arguments.repeats)
            ]
            starts, middles = np.array(pairs).transpose(1, 2, 0)
            line = f"{name:32}"
            for start, mid in zip(starts, middles, strict=True):
                at_start, at_middle = statistics.median(start), statistics.median(mid)
                line += f"{at_start:8.2f}{at_middle:9.2f}{at_middle / at_start:7.2f}  "
            print(line, flush=True)


if __name__ == "__main__":
    main()
