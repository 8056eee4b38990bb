"""What does filling a cache cost a first pass, in time, CPU time and switches of threads?

    python benchmarks/loops/cache_fill.py [--latency-ms X] [--pace N] [--files N] [--rows N]
        [--repeats N]

Reads the files of `bench_cache.py`, in order, from a server of its own with that latency. First
passes without a cache, and first passes that fill ranges, blocks and both, take turns. Printed are
medians, each as a share of the passes without a cache, and the milliseconds to the first batch.
With --pace 2 the consumer takes half of what a pass without a cache delivers.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from support.click_log_store import COLUMNS, serve, write_click_log

from fastload import IO, Cache, FastParquetDataset
from support import turns

_TIERS: dict[str, dict[str, Any] | None] = {
    "no cache": None,
    "ranges": {"decoded": False},
    "blocks": {"raw": False},
    "ranges and blocks": {},
}


def _first_pass(options: dict[str, str], cache: Cache | None, step_s: float) -> tuple[float, int]:
    """Read one pass; return the seconds to its first batch, and its batches."""
    with FastParquetDataset(
        "gs://bucket/train/*.parquet",
        columns=COLUMNS,
        batch_size=65_536,
        storage_options=options,
        io=IO(transport="native"),
        cache=cache,
    ) as dataset:
        start = time.perf_counter()
        first_s, batches = 0.0, 0
        for batch in dataset:
            first_s = first_s or time.perf_counter() - start
            batches += 1
            for name in COLUMNS:
                batch[name].sum()
            time.sleep(step_s)
    return first_s, batches


def _add_first(
    firsts: list[float], options: dict[str, Any], cache: Cache | None, step_s: float
) -> None:
    firsts.append(_first_pass(options, cache, step_s)[0])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--latency-ms", type=float, default=30.0)
    parser.add_argument("--pace", type=float, default=0.0)
    parser.add_argument("--files", type=int, default=8)
    parser.add_argument("--rows", type=int, default=200_000, help="of a file")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    costs = defaultdict(list)
    firsts = defaultdict[str, list[float]](list)
    with tempfile.TemporaryDirectory() as files, tempfile.TemporaryDirectory() as caches:
        write_click_log(Path(files), arguments.files, arguments.rows)
        with serve(files, arguments.latency_ms / 1e3) as store:
            _first_pass(store.options, None, 0.0)  # imports, and footers
            start = time.perf_counter()
            batches = _first_pass(store.options, None, 0.0)[1]
            step_s = arguments.pace * (time.perf_counter() - start) / batches
            for turn in range(arguments.repeats):
                for tier, which in _TIERS.items():
                    # Removed in the end alone: ext4 makes files slowly after others were removed.
                    home = Path(caches, f"{tier}-{turn}")
                    cache = None if which is None else Cache(str(home), **which)
                    run = partial(_add_first, firsts[tier], store.options, cache, step_s)
                    costs[tier].append(turns.cost(run))
    title = f"{arguments.latency_ms:g} ms a request, {step_s * 1e3:.2f} ms a step: a first pass"
    turns.show(title, {tier: turns.median(of) for tier, of in costs.items()}, counts=True)
    for tier, seconds in firsts.items():
        print(f"{tier}: first batch after {statistics.median(seconds) * 1e3:.0f} ms")


if __name__ == "__main__":
    main()
