"""One question: how near is fastload's Python time a batch to the least that torch needs?

    python benchmarks/loops/batch_assembly.py [--rows N] [--batch-size N] [--repeats N]

A table of three columns of three dtypes is read in order, and stays in memory as kept pages. Each
way takes all batches of a pass from the core, in turns with the other ways:

- core alone: asks the core for a batch, and drops the batch
- frombuffer: makes a dict of one torch.frombuffer for each column, which keeps the memory alive
- numpy: the same with torch.from_numpy of numpy.frombuffer
- views: one torch.frombuffer, and for each column a view of the dtype and as_strided
- set_: one torch.frombuffer, and for each column an empty tensor that is set to the storage
- fastload, batches: `for batch in dataset`, without the time in which the pass begins and the next
  pass is prepared
- fastload: `for batch in dataset`, as it is

The output has the CPU time of the consumer's thread in microseconds a batch, the same beyond "core
alone", and the latter as a multiple of the least way. The sums of the columns have to agree.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from fastload import FastParquetDataset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from fastload.runtime.native import core

_COLUMNS = {"label": torch.int32, "price": torch.float32, "item": torch.int64}


def raws(dataset: FastParquetDataset) -> Iterator[core.LentBatch]:
    """Yield the core's batches of a pass."""
    scan = iter(dataset)._feed._scan  # type: ignore[attr-defined]  # noqa: SLF001
    return iter(scan.next, None)


def nothing(_raw: core.LentBatch) -> dict[str, torch.Tensor]:
    """Make no tensor."""
    return {}


def placed(raw: core.LentBatch) -> Iterator[tuple[str, torch.dtype, int]]:
    """Return the columns with their offsets in bytes."""
    return zip(_COLUMNS, _COLUMNS.values(), raw.areas[::2], strict=True)


def by_frombuffer(raw: core.LentBatch) -> dict[str, torch.Tensor]:
    """Make each column by torch.frombuffer."""
    rows, memory = raw.rows, memoryview(raw)  # type: ignore[arg-type]
    frombuffer = torch.frombuffer
    return {
        name: frombuffer(memory, dtype=dtype, count=rows, offset=offset)
        for name, dtype, offset in placed(raw)
    }


_NUMPY = {torch.int32: np.int32, torch.float32: np.float32, torch.int64: np.int64}


def by_numpy(raw: core.LentBatch) -> dict[str, torch.Tensor]:
    """Make each column by torch.from_numpy."""
    rows, memory = raw.rows, memoryview(raw)  # type: ignore[arg-type]
    return {
        name: torch.from_numpy(np.frombuffer(memory, _NUMPY[dtype], rows, offset))
        for name, dtype, offset in placed(raw)
    }


def by_views(raw: core.LentBatch) -> dict[str, torch.Tensor]:
    """Make each column by a view of the dtype and as_strided."""
    rows, size = raw.rows, (1,)
    buffer = torch.frombuffer(raw, dtype=torch.uint8)
    with torch._C._AutoDispatchBelowADInplaceOrView():  # noqa: SLF001
        return {
            name: buffer.view(dtype).as_strided((rows,), size, offset // dtype.itemsize)
            for name, dtype, offset in placed(raw)
        }


def by_set(raw: core.LentBatch) -> dict[str, torch.Tensor]:
    """Make each column by Tensor.set_."""
    rows, size = raw.rows, (1,)
    storage = torch.frombuffer(raw, dtype=torch.uint8).untyped_storage()
    return {
        name: torch.empty(0, dtype=dtype).set_(storage, offset // dtype.itemsize, (rows,), size)
        for name, dtype, offset in placed(raw)
    }


_WAYS: dict[str, Callable[[core.LentBatch], dict[str, torch.Tensor]]] = {
    "core alone": nothing,
    "frombuffer": by_frombuffer,
    "numpy": by_numpy,
    "views": by_views,
    "set_": by_set,
}


def batches_of(dataset: FastParquetDataset, way: str) -> Iterable[Any]:
    """Return the batches of a pass, made in one of the ways."""
    if way in _WAYS:
        return map(_WAYS[way], raws(dataset))
    if way == "fastload":
        return dataset
    batches = iter(dataset)
    batches._feed.on_opened = None  # type: ignore[attr-defined]  # noqa: SLF001
    return batches


def cost_us(batches: Iterable[Any], count: int) -> float:
    """Return the microseconds of CPU that the consumer's thread takes for each batch."""
    start = time.thread_time()
    for _ in batches:
        pass
    return (time.thread_time() - start) / count * 1e6


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1 << 23)
    parser.add_argument("--batch-size", type=int, default=16_384)
    parser.add_argument("--repeats", type=int, default=21)
    arguments = parser.parse_args()
    rng = np.random.default_rng(1)
    rows = arguments.rows
    columns = {
        "label": rng.integers(0, 2, rows, np.int32),
        "price": rng.integers(0, 1 << 10, rows).astype(np.float32),
        "item": rng.integers(0, 1 << 10, rows),
    }
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "three.parquet")
        pq.write_table(pa.table(columns), path, row_group_size=1 << 18)
        with FastParquetDataset(path, batch_size=arguments.batch_size) as dataset:
            ways = [*_WAYS, "fastload, batches", "fastload"]
            expected = [int(column.sum(dtype=np.float64)) for column in columns.values()]
            for way in ways[1:]:
                sums = [0, 0, 0]
                for batch in batches_of(dataset, way):
                    made = zip(sums, batch.values(), strict=True)
                    sums = [s + int(column.double().sum()) for s, column in made]
                assert sums == expected, f"{way} lost or repeated rows"
            costs: dict[str, list[float]] = {way: [] for way in ways}
            for _ in range(arguments.repeats):
                for way in ways:
                    costs[way].append(cost_us(batches_of(dataset, way), len(dataset)))
    least = {way: sorted(times)[len(times) // 4] for way, times in costs.items()}
    alone = least["core alone"]
    beyond = {way: us - alone for way, us in least.items() if way != "core alone"}
    best = min(us for way, us in beyond.items() if way in _WAYS)
    print(f"{'lower quartiles':18}{'CPU us':>8}{'beyond':>8}{'of least':>10}")
    print(f"{'core alone':18}{alone:8.2f}")
    for way, us in beyond.items():
        print(f"{way:18}{least[way]:8.2f}{us:8.2f}{us / best:10.2f}")


if __name__ == "__main__":
    main()
