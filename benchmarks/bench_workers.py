"""One question: what does a batch cost on its way from a worker process?

    python benchmarks/bench_workers.py [FILE] [--workers N] [--batch-size N ...] [--repeats N]

For each batch size, passes over the file take turns in one process: fastload without workers, with
N workers, and with N workers and torch's own transport; and the best that pyarrow can do in the
same DataLoader, packed into one tensor for each dtype. The output has medians: seconds of a pass,
rows per second, CPU that the training process spends on a batch, the largest message of a batch,
and the ratio to fastload without workers. Then this CPU, minus the CPU that DataLoader spends on a
message of just a number, is compared with the least cost of such a batch: one unbind for each dtype
and DataLoader's default_convert, done once per message. Without FILE, the benchmark reads a sample
like that of fastload-bench, four times as long. Sums of all values are checked before any timing.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import tempfile
import time
from dataclasses import dataclass, field
from multiprocessing import connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import torch
from torch.utils.data import DataLoader, IterableDataset, default_convert, get_worker_info
from torch.utils.dlpack import from_dlpack

from fastload import Batch, FastParquetDataset
from fastload.tools.bench import sample

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


class PyarrowBatches(IterableDataset[dict[str, torch.Tensor]]):
    """Packed batches of row groups that pyarrow decodes; workers take row groups in turn."""

    def __init__(self, path: str, batch_size: int) -> None:
        super().__init__()
        self._path = path
        self._batch_size = batch_size

    def __iter__(self) -> Iterator[dict[str, torch.Tensor]]:
        info = get_worker_info()
        first, step = (info.id, info.num_workers) if info else (0, 1)
        file = pq.ParquetFile(self._path)
        for group in range(first, file.num_row_groups, step):
            table = file.read_row_group(group, use_threads=info is None)
            columns: dict[torch.dtype, list[torch.Tensor]] = {}
            for column in table.columns:
                tensor = from_dlpack(column.combine_chunks())
                columns.setdefault(tensor.dtype, []).append(tensor)
            for start in range(0, table.num_rows, self._batch_size):
                stop = min(start + self._batch_size, table.num_rows)
                yield {
                    str(dtype): torch.stack([tensor[start:stop] for tensor in tensors])
                    for dtype, tensors in columns.items()
                }


def as_dict(batch: Batch) -> dict[str, Any]:
    """Convert a batch to what torch sends: cloned columns, because torch shares whole storages."""
    return {name: value.clone() for name, value in batch.items()}


class Sizes:
    """A counter of the largest message that worker processes send; made before they start."""

    def __init__(self) -> None:
        self.largest = torch.zeros(1, dtype=torch.int64).share_memory_()

    def __call__(self, _worker: int) -> None:
        """Begin to count, in a worker process."""
        send = connection.Connection._send_bytes  # type: ignore[attr-defined]  # noqa: SLF001

        def counted(sender: Any, data: Any) -> None:
            self.largest[0] = max(int(self.largest[0]), len(data))
            send(sender, data)

        connection.Connection._send_bytes = counted  # type: ignore[attr-defined]  # noqa: SLF001


@dataclass
class Way:
    """A way to get batches, and its measured costs.

    Attributes:
        name: name of the way.
        batches: the batches of a pass.
        sizes: counter of the messages of worker processes, or None.
        then: function called after each batch, or None.
        pass_s: seconds of each pass.
        cpu_ms: CPU milliseconds of each batch in this process.
    """

    name: str
    batches: Iterable[Any]
    sizes: Sizes | None = None
    then: Callable[[], object] | None = None
    pass_s: list[float] = field(default_factory=list)
    cpu_ms: list[float] = field(default_factory=list)

    def measure(self) -> None:
        """Time two passes, after one uncounted pass, because passes begin while others end."""
        start = cpu = count = 0.0
        for number in range(3):
            if number == 1:
                start, cpu = time.perf_counter(), time.thread_time()
            for _ in self.batches:
                count += number > 0
                if self.then is not None:
                    self.then()
        self.pass_s.append((time.perf_counter() - start) / 2)
        self.cpu_ms.append((time.thread_time() - cpu) / count * 1e3)


def sums(batches: Iterable[Any]) -> list[int]:
    """Return the sums of the bits of all values, by dtype."""
    totals: dict[torch.dtype, int] = {}
    integers = {4: torch.int32, 8: torch.int64}
    for batch in batches:
        for value in batch.values():
            bits = value.view(integers[value.dtype.itemsize])
            totals[value.dtype] = totals.get(value.dtype, 0) + int(bits.sum(dtype=torch.int64))
    return sorted(total % 2**63 for total in totals.values())


def number_only(_batch: Batch) -> int:
    """Return a number, as the whole message of a worker process."""
    return 0


def unbinding(batch: Batch) -> Callable[[], object]:
    """Return a function with the least work of a batch: unbind each dtype, convert the batch."""
    stacks: dict[torch.dtype, list[torch.Tensor]] = {}
    for value in batch.values():
        stacks.setdefault(value.dtype, []).append(value)
    packed = [torch.stack(values) for values in stacks.values()]
    names = list(batch)

    def once() -> object:
        tensors = list(itertools.chain.from_iterable(stack.unbind(0) for stack in packed))
        return default_convert(dict(zip(names, tensors, strict=True)))

    return once


def main() -> None:
    """Run the benchmark and print its table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batch-size", type=int, nargs="+", default=[16384, 65536])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--shuffle", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        path = arguments.file
        if path is None:
            path = str(Path(directory, "sample.parquet"))
            sample.make(Path(path), row_groups=4 * sample.ROW_GROUPS)
        for batch_size in arguments.batch_size:
            compare(path, batch_size, arguments)


def compare(path: str, batch_size: int, arguments: argparse.Namespace) -> None:
    """Measure every way and print the costs."""
    rows = pq.read_metadata(path).num_rows

    def dataset() -> FastParquetDataset:
        return FastParquetDataset(path, batch_size=batch_size, shuffle=arguments.shuffle)

    def loader(batches: IterableDataset[Any], sizes: Sizes, **options: Any) -> DataLoader[Any]:
        return DataLoader(
            batches,
            batch_size=None,
            num_workers=arguments.workers,
            persistent_workers=True,
            worker_init_fn=sizes,
            **options,
        )

    sizes = [Sizes() for _ in range(3)]
    pyarrow = PyarrowBatches(path, batch_size)
    alone = dataset()
    least = unbinding(next(iter(alone)))
    numbers = loader(dataset(), Sizes(), collate_fn=number_only)
    ways = [
        Way("threads alone", alone),
        Way("workers", loader(dataset(), sizes[0]), sizes[0]),
        Way("workers, torch's", loader(dataset(), sizes[1], collate_fn=as_dict), sizes[1]),
        Way("pyarrow, workers", loader(pyarrow, sizes[2]), sizes[2]),
    ]
    bare = [Way("workers, a number", numbers), Way("and unbind", numbers, then=least)]
    expected = sums(ways[0].batches)
    for way in ways[1:]:
        if sums(way.batches) != expected:
            raise SystemExit(f"Expected the same values from {way.name}, got others")
    for _ in range(arguments.repeats):
        for way in ways + bare:
            way.measure()
    base = statistics.median(ways[0].pass_s)
    print(f"{rows} rows, {arguments.workers} workers, batches of {batch_size}")
    print(f"{'':18}{'pass s':>8}{'M rows/s':>10}{'CPU ms':>8}{'message':>9}{'ratio':>7}")
    for way in [*ways, bare[0]]:
        pass_s = statistics.median(way.pass_s)
        message = f"{int(way.sizes.largest[0])} B" if way.sizes else ""
        print(
            f"{way.name:18}{pass_s:8.3f}{rows / pass_s / 1e6:10.1f}"
            f"{statistics.median(way.cpu_ms):8.3f}{message:>9}{base / pass_s:7.2f}"
        )
    fastload, pyarrow_s = (statistics.median(ways[k].pass_s) for k in (1, 3))
    print(f"workers are {pyarrow_s / fastload:.1f} times as fast as pyarrow in them")
    cpu, number, unbound = (statistics.median(way.cpu_ms) for way in (ways[1], *bare))
    print(
        f"CPU of the training process beside what a number costs: {cpu - number:.3f} ms; "
        f"unbind and default_convert: {unbound - number:.3f} ms; "
        f"{(cpu - number) / (unbound - number):.2f} times that"
    )


if __name__ == "__main__":
    main()
