"""One question: does data get to a CUDA device as fast as it can, and in time?

    python benchmarks/bench_device.py [FILE] [--batch-size N] [--workers N] [--step-ms X]

The output has medians: bytes per second of copies from pinned memory, of decoding alone, and of
batches through DevicePrefetcher, the latter also as a share of the lesser of the first two; then
the share of the time that the device idles in a loop whose steps take 5 ms. Without FILE, the
benchmark reads a sample like that of fastload-bench, four times as long. Sums of all values are
checked before any timing. On any machine, the benchmark first measures what the transfer of a batch
costs the thread that consumes, with a device that has no memory (torch's "meta"). Without a CUDA
device, the benchmark ends there.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import DataLoader

from fastload import Batch, DevicePrefetcher, FastParquetDataset
from fastload.batch.packing import ordinary_memory
from fastload.batch.transfer import begin_transfer
from fastload.tools.bench import sample

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def seconds_of(run: Callable[[], None]) -> float:
    """Return the seconds of one run, including the work of the device."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    run()
    torch.cuda.synchronize()
    return time.perf_counter() - start


def transfer_us(batches: Iterable[Batch], repeats: int = 5) -> float:
    """Return the median microseconds of the transfer of a batch to a device without memory."""
    some = list(itertools.islice(batches, 20))
    nowhere = torch.device("meta")
    medians = []
    for _ in range(repeats):
        start = time.perf_counter()
        for batch in some:
            begin_transfer(batch, nowhere, ordinary_memory, lambda _origin: True)
        medians.append((time.perf_counter() - start) / len(some))
    return statistics.median(medians) * 1e6


def copy_rate(size: int) -> float:
    """Return the bytes per second of copies of `size` bytes from pinned memory."""
    source = torch.empty(size, dtype=torch.uint8, pin_memory=True)
    target = torch.empty(size, dtype=torch.uint8, device="cuda")

    def copy() -> None:
        for _ in range(50):
            target.copy_(source, non_blocking=True)

    copy()
    return 50 * size / statistics.median(seconds_of(copy) for _ in range(5))


def rate(batches: Iterable[Batch], repeats: int = 5) -> float:
    """Return the bytes per second of two passes, after one pass that is not timed."""
    rates = []
    for _ in range(repeats):
        for _batch in batches:
            pass
        size = 0

        def run() -> None:
            nonlocal size
            for _ in range(2):
                for batch in batches:
                    size += batch.nbytes

        seconds = seconds_of(run)
        rates.append(size / seconds)
    return statistics.median(rates)


def idle_share(batches: Iterable[Batch], step_ms: float) -> tuple[float, float]:
    """Return what a training loop with steps of `step_ms` on the device waits for.

    The host gives the device a step while the step before runs, as a training loop does that reads
    the loss of an earlier step.

    Returns:
        The share of the pass that the device idles between steps, and the median microseconds in
        which the host gets a batch.
    """
    cycles = cycles_of(step_ms)
    for _batch in batches:
        pass
    steps: list[tuple[torch.cuda.Event, torch.cuda.Event]] = []
    seconds = []
    running = iter(batches)
    while True:
        start = time.perf_counter()
        batch = next(running, None)
        if batch is None:
            break
        seconds.append(time.perf_counter() - start)
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        torch.cuda._sleep(cycles)  # noqa: SLF001
        end.record()
        steps.append((begin, end))
        if len(steps) > 1:
            steps[-2][1].synchronize()
    torch.cuda.synchronize()
    idle_ms = sum(before[1].elapsed_time(after[0]) for before, after in itertools.pairwise(steps))
    return idle_ms / steps[0][0].elapsed_time(steps[-1][1]), statistics.median(seconds) * 1e6


def cycles_of(milliseconds: float) -> int:
    """Return the number of cycles that the device takes to sleep for `milliseconds`."""
    cycles = 100_000_000
    seconds_of(lambda: torch.cuda._sleep(cycles))  # noqa: SLF001
    seconds = seconds_of(lambda: torch.cuda._sleep(cycles))  # noqa: SLF001
    return int(cycles * milliseconds / 1e3 / seconds)


def total_of(batches: Iterable[Any]) -> int:
    """Return the sum of all values, with their bits read as integers."""
    integers = {4: torch.int32, 8: torch.int64}
    total = 0
    for batch in batches:
        for value in batch.values():
            total += int(value.view(integers[value.dtype.itemsize]).sum(dtype=torch.int64))
    return total


def main() -> None:
    """Run the benchmark and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?")
    parser.add_argument("--batch-size", type=int, default=16384)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--step-ms", type=float, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        path = arguments.file
        if path is None:
            path = str(Path(directory, "sample.parquet"))
            sample.make(Path(path), row_groups=4 * sample.ROW_GROUPS)
        for columns in (None, [*FastParquetDataset(path).schema][:2]):
            dataset = FastParquetDataset(path, columns=columns, batch_size=arguments.batch_size)
            number = len(dataset.schema)
            print(f"transfer of a batch of {number} columns: {transfer_us(dataset):.0f} us")
        if not torch.cuda.is_available():
            print("There is no CUDA device here: nothing else was measured")
            return
        print(f"{torch.cuda.get_device_name()}, batches of {arguments.batch_size}")
        for workers in (0, arguments.workers):
            compare(path, workers, arguments)


def compare(path: str, workers: int, arguments: argparse.Namespace) -> None:
    """Measure with one number of worker processes, and print the lines."""

    def loader() -> Any:
        dataset = FastParquetDataset(path, batch_size=arguments.batch_size)
        if not workers:
            return dataset
        return DataLoader(dataset, batch_size=None, num_workers=workers, persistent_workers=True)

    host = loader()
    device = DevicePrefetcher(loader(), "cuda")
    if total_of(host) != total_of(device):
        raise SystemExit("Expected the same values on the device, got others")
    copies = copy_rate(next(iter(host)).nbytes)
    decoded = rate(host)
    there = rate(device)
    idle, host_us = idle_share(device, arguments.step_ms)
    print(
        f"{workers} workers: pinned copies {copies / 1e9:.2f} GB/s, decoding {decoded / 1e9:.2f} "
        f"GB/s, to the device {there / 1e9:.2f} GB/s: {there / min(copies, decoded):.2f} of the "
        f"lesser; with steps of {arguments.step_ms:g} ms the device idles {idle:.2%} of the time, "
        f"and the host gets a batch in {host_us:.0f} us"
    )


if __name__ == "__main__":
    main()
