"""What do batches in pinned memory cost the thread that consumes?

    python benchmarks/loops/pinned_batches.py [--threads N] [--row NAME ...]

Passes in order over the files of `bench_core.py`, in batches of 16,384 rows: in ordinary memory of
the core; with a tensor of torch's in ordinary memory for each batch, as pinned batches have one;
and, where a CUDA device is, in pinned memory. Printed are medians over datasets that take turns:
milliseconds of a later pass, and microseconds of the consumer's CPU for each batch.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from support.core_rows import BY_NAME
from support.core_sections import Setting

import fastload.dataset.process_engine
from fastload.batch.packing import ordinary_memory
from fastload.batch.pinned_memory import PinnedMemory
from fastload.runtime.cores import available_cores

if TYPE_CHECKING:
    from fastload import FastParquetDataset

_FILES = Path(__file__).resolve().parents[2] / "build" / "core-files"
_PASSES = 3
_TURNS = 7


def times(dataset: FastParquetDataset) -> tuple[float, float]:
    """Return the seconds of a pass, and of the consumer's CPU for each batch."""
    for _ in range(2):
        for _batch in dataset:
            pass
    start, cpu = time.perf_counter(), time.thread_time()
    for _ in range(_PASSES):
        for _batch in dataset:
            pass
    cpu = time.thread_time() - cpu
    return (time.perf_counter() - start) / _PASSES, cpu / _PASSES / len(dataset)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=available_cores())
    parser.add_argument("--row", nargs="+", choices=BY_NAME, default=["three-columns"])
    arguments = parser.parse_args()
    setting = Setting(_FILES, arguments.threads, _TURNS, 16384, ())
    memories: dict[str, Any] = {"ordinary": None, "tensors": ordinary_memory}
    if torch.cuda.is_available():
        memories["pinned"] = PinnedMemory()
    _FILES.mkdir(parents=True, exist_ok=True)
    for name in arguments.row:
        took: dict[str, list[tuple[float, float]]] = {memory: [] for memory in memories}
        for _ in range(_TURNS):
            for memory, allocate in memories.items():
                # The argument pin_memory has no value for tensors in ordinary memory.
                chosen = patch.object(
                    fastload.dataset.process_engine,
                    "memory_of_batches",
                    lambda _pin_memory, allocate=allocate: allocate,
                )
                with chosen, setting.open(BY_NAME[name]) as dataset:
                    took[memory].append(times(dataset))
        for memory, turns in took.items():
            pass_s, cpu_s = (statistics.median(column) for column in zip(*turns, strict=True))
            print(f"{name:18}{memory:10}{pass_s * 1e3:7.1f} ms a pass{cpu_s * 1e6:7.1f} us a batch")


if __name__ == "__main__":
    main()
