"""One question: what does a weighted epoch cost, beside a shuffled epoch of as many rows?

    python benchmarks/bench_weights.py [--rows N] [--repeats N] [--threads N] [--weights KIND]

An epoch of 8 columns of floats and 4 of dictionary codes is read three ways: shuffled; shuffled
with a weight for each row; and by torch, whose WeightedRandomSampler draws rows from tensors that
lie in memory already. The weights are exponential (a few rows come often), lognormal, `half` (half
of the rows have weight 0) or `ones`. First, the copies of each row are compared with the plan's
definition. The ways take turns: an epoch that does not count, then four that are timed as one,
because the first windows of an epoch are prepared while the epoch before ends. The fastest turn of
each way counts. Columns: seconds of an epoch, million rows a second, and the speed as a multiple of
the shuffled epoch's.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch.utils.data import BatchSampler, WeightedRandomSampler

from fastload import FastParquetDataset
from fastload.plan.permutation import stream_key
from fastload.plan.units.weighted import RowWeights, draw_copies

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

BATCH = 4096
FLOATS, CODES = 8, 4
EPOCHS = 4  # that are timed as one


def write(rows: int, path: Path) -> None:
    """Write the rows: floats, categories and the number of each row."""
    rng = np.random.default_rng(0)
    columns: dict[str, Any] = {f"f{i}": rng.random(rows, np.float32) for i in range(FLOATS)}
    for i in range(CODES):
        columns[f"c{i}"] = rng.integers(0, 1000, rows)
    columns["id"] = np.arange(rows)
    categories = [f"c{i}" for i in range(CODES)]
    pq.write_table(pa.table(columns), path, row_group_size=1 << 18, use_dictionary=categories)


def weights_of(kind: str, rows: int) -> NDArray[np.float64]:
    """Return weights of one kind."""
    rng = np.random.default_rng(1)
    if kind == "ones":
        return np.ones(rows)
    if kind == "half":
        return (rng.random(rows) < 0.5).astype(np.float64)
    if kind == "exponential":
        return rng.exponential(size=rows)
    return rng.lognormal(size=rows)


def check(dataset: FastParquetDataset, weights: NDArray[np.float64]) -> None:
    """Check that each row of epoch 0 comes as often as the plan's definition says."""
    found = RowWeights(weights, "")
    edges = np.array([0, len(weights)])
    want, _ = draw_copies(found.values, edges, found.scale, stream_key(0, 0, 4))
    got = np.concatenate([batch["id"].numpy() for batch in dataset])
    if (np.bincount(got, minlength=len(weights)) != want).any():
        raise SystemExit("Expected the copies that the plan defines, got others")


def sampled(path: Path, weights: NDArray[np.float64]) -> Callable[[], Iterator[int]]:
    """Return an epoch of torch's sampler over tensors in memory; it yields rows of batches."""
    table = pq.read_table(path)
    tensors = [torch.from_numpy(table[name].to_numpy().copy()) for name in table.column_names]

    def epoch() -> Iterator[int]:
        # A multinomial of torch draws from at most 2**24 weights.
        # torch's annotation leaves out tensors.
        sampler = WeightedRandomSampler(cast("Any", torch.from_numpy(weights)), len(weights))
        for rows in BatchSampler(sampler, BATCH, drop_last=False):
            index = torch.tensor(rows)
            batch = [tensor[index] for tensor in tensors]
            yield len(batch[0])

    return epoch


def main() -> None:
    """Compare the three ways."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int)
    parser.add_argument(
        "--weights",
        default="exponential",
        choices=["exponential", "lognormal", "half", "ones"],
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "rows.parquet"
        write(arguments.rows, path)
        weights = weights_of(arguments.weights, arguments.rows)
        options: dict[str, Any] = {
            "batch_size": BATCH,
            "shuffle": True,
            "threads": arguments.threads,
        }
        shuffled = FastParquetDataset(path, **options)
        weighted = FastParquetDataset(path, weights=weights, **options)
        check(weighted, weights)
        by_torch = sampled(path, weights)

        def rows_of(dataset: FastParquetDataset) -> Iterator[int]:
            return (batch.rows for batch in dataset)

        ways: dict[str, Callable[[], Iterator[int]]] = {
            "shuffled": lambda: rows_of(shuffled),
            "weighted": lambda: rows_of(weighted),
            "torch's sampler, tensors in memory": by_torch,
        }
        speed = dict.fromkeys(ways, 0.0)
        for _ in range(arguments.repeats):
            for name, epoch in ways.items():
                sum(epoch())
                began = time.perf_counter()
                rows = sum(sum(epoch()) for _ in range(EPOCHS))
                speed[name] = max(speed[name], rows / (time.perf_counter() - began))
    print(f"{arguments.rows} rows, {arguments.weights} weights")
    for name, fastest in speed.items():
        seconds = arguments.rows / fastest
        print(
            f"{name:36} {seconds:8.3f} s {fastest / 1e6:8.1f} M rows/s "
            f"{fastest / speed['shuffled']:6.2f}x"
        )


if __name__ == "__main__":
    main()
