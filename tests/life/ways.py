"""Ways of using fastload, each with the rows that it has to deliver."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from torch.utils.data import DataLoader

import fastload
from fastload import Cache, FastParquetDataset
from support.same_rows import assert_same_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastload import Batch, MixedDataset

ROWS, GROUP_ROWS, BATCH = 2400, 50, 100
MEMORY = "64MB"
TIMEOUT_S = 60  # of a DataLoader's queue
PERMUTATION = 1327  # prime to ROWS


@functools.cache
def table() -> pa.Table:
    """Return all rows, in the order of the files."""
    ids = np.arange(ROWS)
    return pa.table(
        {
            "id": ids,
            "key": pa.array((ids * PERMUTATION % ROWS).astype(np.int16)),
            "price": ids / 8,
            "name": [f"row {k}" for k in ids.tolist()],
            "items": pa.array([[k] * (k % 4) for k in ids.tolist()], pa.list_(pa.int32())),
        }
    )


def write_files(directory: str, files: int) -> None:
    """Write all rows, in as many files."""
    whole, rows = table(), ROWS // files
    for number in range(files):
        path = f"{directory}/part-{number:03d}.parquet"
        group_rows = min(GROUP_ROWS, rows)
        pq.write_table(whole.slice(number * rows, rows), path, row_group_size=group_rows)


def double(block: dict[str, Any]) -> dict[str, Any]:
    return {"double": block["id"] * 2}


def length(name: str) -> int:
    return len(name)


@fastload.kernel(inputs=["id"], outputs={"third": np.int64})
def third(ids: Any, out: Any) -> None:
    for i in range(len(ids)):
        out[i] = ids[i] // 3


def add_seeds(batch: Batch, seeds: Any) -> dict[str, Any]:
    return {"seeds": np.asarray(seeds).astype(np.int64)}


@dataclass(frozen=True)
class Way:
    """One way of using fastload.

    Attributes:
        name: the name in the table.
        options: options of the dataset, beside those that all ways have.
        start: how DataLoader starts its two workers; None = no DataLoader.
        cached: True if the dataset keeps its rows after `preprocess`.
        mixed: True if a mix of two datasets delivers the rows.
        filtered: True if only rows with an odd `id` are read.
    """

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    start: str | None = None
    cached: bool = False
    mixed: bool = False
    filtered: bool = False

    def dataset(self, directory: str) -> FastParquetDataset | MixedDataset:
        """Return the dataset over the files of a directory."""
        if not self.mixed:
            return self._part(f"{directory}/part-*.parquet", directory)
        halves = {
            "even": f"{directory}/part-*[02468].parquet",
            "odd": f"{directory}/part-*[13579].parquet",
        }
        return fastload.mix({k: self._part(v, directory) for k, v in halves.items()}, stop="all")

    def loader(self, dataset: FastParquetDataset | MixedDataset) -> Any:
        """Return what a program iterates over, for each epoch."""
        if self.start is None:
            return dataset
        return DataLoader(
            dataset,
            batch_size=None,
            num_workers=2,
            multiprocessing_context=self.start,
            persistent_workers=True,
            timeout=TIMEOUT_S,
        )

    def checked(self, loader: Any) -> Iterator[Batch]:
        """Yield the batches of an epoch, each after its values were checked.

        Raises:
            AssertionError: a value, or the set of rows, is not pyarrow's.
        """
        whole = table()
        seen: list[int] = []
        for batch in loader:
            self.check(batch, whole)
            seen += batch["id"].tolist()
            yield batch
        want = range(1, ROWS, 2) if self.filtered else range(ROWS)
        if sorted(seen) != list(want):
            raise AssertionError(f"Expected {len(want)} rows once each, got {len(seen)} others")

    def check(self, batch: Batch, whole: pa.Table) -> None:
        """Check the values of a batch against the table of all rows."""
        ids = batch["id"].tolist()
        stored = {name: batch[name] for name in whole.column_names}
        assert_same_rows([stored], whole.take(pa.array(ids, pa.int64())))
        computed = {
            "double": [2 * k for k in ids],
            "third": [k // 3 for k in ids],
            "length": [len(f"row {k}") for k in ids],
        }
        for name, values in computed.items():
            if name in batch and batch[name].tolist() != values:
                raise AssertionError(f"Expected {values}, got {batch[name]} - at column `{name}`")

    def _part(self, source: str, directory: str) -> FastParquetDataset:
        return FastParquetDataset(
            source,
            batch_size=BATCH,
            rank=0,
            world_size=1,
            memory_budget=MEMORY,
            filters=[("id", "in", list(range(1, ROWS, 2)))] if self.filtered else None,
            cache=Cache(f"{directory}/cache", max_bytes="1GB") if self.cached else None,
            **{"shuffle": True, "shuffle_window": ROWS // 4, "threads": 2, **self.options},
        )


STEPS = {
    "preprocess": [double, third, fastload.per_row(length, "name", "length")],
    "augment": add_seeds,
}
WAYS = {
    way.name: way
    for way in [
        Way("loop", {"shuffle": False}),
        Way("inline", {"threads": 0}),
        Way("shuffle"),
        Way("filters", filtered=True),
        Way("steps", STEPS),
        Way("cache", {"preprocess": double}, cached=True),
        Way("cache in order", {"preprocess": double, "shuffle": False}, cached=True),
        Way("mix", mixed=True),
        Way("fork", start="fork"),
        Way("spawn", {"preprocess": double}, start="spawn"),
        Way("forkserver", {"preprocess": double}, start="forkserver", cached=True),
    ]
}
