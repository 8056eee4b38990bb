"""The first rows of a dataset, and rows by number, read beside its passes.

`RowsByIndex` is the map-style view. Note: docs/notes/dataset-lookup.md.
"""

from __future__ import annotations

import contextlib
import operator
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, overload

import numpy as np
from torch.utils.data import Dataset, get_worker_info
from torch.utils.data._utils.collate import default_collate, default_collate_fn_map

from fastload.engine.first_rows import batch_after, first_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch
    from numpy.typing import NDArray

    from fastload.batch.batch import Batch
    from fastload.dataset.process_engine import ProcessEngine
    from fastload.engine.engine import Engine
    from fastload.plan.intervals import Int64s
    from fastload.schema.projection import OutputPlan, Projection
    from fastload.steps.steps import Steps

__all__ = ["Indices", "RowTaker", "RowsByIndex", "head"]

Indices: TypeAlias = "Sequence[int] | NDArray[np.integer[Any]] | torch.Tensor | range"

# Rows for which the memory budget is divided, if they take no more than a share of it; a take may
# have more rows.
_BUDGET_ROWS = 1024
_BUDGET_SHARE = 8


def head(
    engines: ProcessEngine,
    projection: Projection,
    extra: Sequence[OutputPlan],
    steps: Steps,
    rows: int,
) -> Batch:
    """Return the first rows in stored order, after the steps.

    Args:
        engines: the arguments for making engines; the engine of the passes is not touched.
        projection: the columns to decode.
        extra: the outputs that are not columns of the files.
        steps: the steps of the dataset.
        rows: number of rows; fewer if the dataset has fewer.

    Raises:
        TypeError, ValueError: `rows` is not a positive int, or the dataset has no rows, or the
            memory budget is too small for the rows.
    """
    if type(rows) is not int:
        raise TypeError(f"Expected n as int, got {rows!r}")
    if rows < 1:
        raise ValueError(f"Expected n to be at least 1, got {rows}")
    kept, options = engines.rows.row_groups, engines.options
    if options.limit is not None:
        rows = min(rows, options.limit)
    rows = min(rows, kept.total_rows)
    if not rows:
        raise ValueError("Expected a dataset with rows, got one without")
    own = replace(engines.beside(projection, extra, steps), batch_rows=rows)
    with contextlib.closing(own.another(inline=True)) as engine:
        batch = first_rows(engine, kept, skip=own.fixed_stripes, rows=rows)
    return batch_after(steps, batch, options.seed, own.source.files)


class RowTaker:
    """The taker of a dataset's rows by number; each process makes an engine of its own.

    Thread-safe.

    Args:
        engines: the arguments for making engines; the engine of the passes is not touched.
        projection: the columns to decode.
        extra: the outputs that are not columns of the files.
        steps: the steps that the rows pass through; none of them is random.
    """

    def __init__(
        self,
        engines: ProcessEngine,
        projection: Projection,
        extra: Sequence[OutputPlan],
        steps: Steps,
    ) -> None:
        self._engines = engines.beside(projection, extra, steps)
        self._steps = steps
        self._made: dict[int, Engine] = {}  # by process

    def take(self, indices: Indices) -> Batch:
        """Return the rows with the given numbers, in the order given; see `checked_indices`."""
        row_groups = self._engines.rows.row_groups
        rows = checked_indices(indices, row_groups.total_rows)
        if not len(rows):
            # The first row tells the outputs.
            if not row_groups.total_rows:
                raise ValueError("Expected a dataset with rows, got one without")
            return self.take([0]).slice(0, 0).clone()
        batch = self._engine().take(row_groups, rows)
        if not self._steps:
            return batch
        files, seed = self._engines.source.files, self._engines.options.seed
        return batch_after(self._steps, batch, seed, files, "in the rows of a take")

    def close(self) -> None:
        """End the threads of this process. Idempotent."""
        engine = self._made.get(os.getpid())
        if engine is not None:
            engine.close()

    def _engine(self) -> Engine:
        engine = self._made.get(os.getpid())
        if engine is not None:
            return engine
        # No lock: a fork may copy a lock that another thread holds.
        info = get_worker_info()
        workers = 1 if info is None else info.num_workers
        projection, total_rows = self._engines.projection, self._engines.rows.row_groups.total_rows
        held = projection.row_bytes + projection.staged_row_bytes
        fits = self._engines.memory_budget // workers // _BUDGET_SHARE // held
        engines = replace(self._engines, batch_rows=max(1, min(_BUDGET_ROWS, total_rows, fits)))
        made = engines.another(workers, *engines.batch_memory(), by_number=True)
        engine = self._made.setdefault(os.getpid(), made)
        if engine is not made:
            made.close()
        return engine

    def __getstate__(self) -> dict[str, Any]:
        # Threads and memory belong to this process.
        return {**self.__dict__, "_made": {}}


def checked_indices(indices: Indices, rows: int) -> Int64s:
    """Return indices of rows as numbers in [0, rows), int64 (n,).

    Args:
        indices: a list, range, array or tensor of integers; -1 is the last row.
        rows: number of rows of the dataset.

    Raises:
        TypeError: `indices` are not integers in one dimension.
        IndexError: a row does not exist.
    """
    array = _array_of(indices, rows) if isinstance(indices, range) else np.asarray(indices)
    if not array.size and array.ndim == 1:
        return np.zeros(0, np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        what = f"an array {array.shape} of {array.dtype}" if array.ndim else repr(indices)
        raise TypeError(
            "Expected the numbers of rows as a list, 1-D array or tensor of integers, got "
            f"{what}{_way_out(indices, array)}"
        )
    missing = (array < -rows) | (array >= rows)
    if missing.any():
        raise _missing(array[missing][0], rows)
    array = np.ascontiguousarray(array, np.int64)
    return np.where(array < 0, array + rows, array) if array.min() < 0 else array


def _array_of(indices: range, rows: int) -> Int64s:
    """Convert a range to an array, int64 (n,), without a Python object for each number.

    Raises:
        IndexError: a row does not exist. A range that is too long for memory has such rows.
    """
    if not indices:
        return np.zeros(0, np.int64)
    for end in (indices[0], indices[-1]):
        if not -rows <= end < rows:
            raise _missing(end, rows)
    step = indices[1] - indices[0] if len(indices) > 1 else 1
    return np.arange(indices[0], indices[-1] + (1 if step > 0 else -1), step, dtype=np.int64)


def _missing(index: int, rows: int) -> IndexError:
    return IndexError(
        f"Expected rows in [-{rows}, {rows}), got {index}: the dataset has {rows} rows (num_rows)"
    )


def _way_out(indices: object, array: NDArray[Any]) -> str:
    """Return what to write instead of indices that are no numbers of rows; "" if unknown."""
    if isinstance(indices, int):
        return f": write take([{indices}]) for that row, head({indices}) for the first rows"
    if isinstance(indices, slice):
        return ": write range(start, stop, step)"
    if array.ndim == 1 and array.dtype == bool:
        return ": write mask.nonzero()[0] for an array, mask.nonzero()[:, 0] for a tensor"
    return ""


class TakesRows(Protocol):
    """A dataset whose rows have numbers."""

    @property
    def num_rows(self) -> int:
        """Number of rows."""

    def take(self, indices: Indices) -> Batch:
        """Return rows by number, in the order of `indices`."""


class RowsByIndex(Dataset[dict[str, Any]]):
    """A map-style dataset: the rows of a FastParquetDataset by number.

    `FastParquetDataset.by_index` makes it. Item i is row i in canonical order as a dict of scalars
    and tensors; a list, array or tensor of numbers gives a Batch. In a DataLoader, torch's samplers
    choose the rows, and batches are Batches without a collate_fn.

    Example:
        rows = FastParquetDataset("train", columns=["f1", "label"]).by_index()
        rows[3]["label"]  # a tensor without dimensions
        loader = DataLoader(rows, batch_size=32, shuffle=True)
        next(iter(loader))["f1"].shape  # (32,)

    Args:
        dataset: The dataset.
        text: What the repr says of the dataset. Grain refuses a checkpoint if the repr of its
            source has changed, so the text must not depend on what was read.
    """

    def __init__(self, dataset: TakesRows, text: str) -> None:
        self._dataset = dataset
        self._text = text
        self._rows = dataset.num_rows

    def __len__(self) -> int:
        """Return the number of rows."""
        return self._rows

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: Indices) -> Batch: ...
    def __getitem__(self, index: Any) -> Any:
        """Return one row as a dict, or several rows as a Batch.

        Args:
            index: Number of a row, or several numbers; -1 is the last row.

        Raises:
            IndexError: A row does not exist.
        """
        try:
            number = operator.index(index)
        except TypeError:
            return self._dataset.take(index)
        return dict(_row(self._dataset.take([number]), 0))

    def __getitems__(self, indices: list[int]) -> FetchedRows:
        """Return several rows for DataLoader, whose default collate_fn gives their Batch.

        A collate_fn of your own gets a sequence of dicts; the attribute `batch` of the sequence is
        the Batch.

        Args:
            indices: Numbers of the rows.
        """
        return FetchedRows(self._dataset.take(indices))

    def __repr__(self) -> str:
        return f"RowsByIndex({self._rows} rows of {self._text})"


class FetchedRow(dict[str, Any]):
    """One row of FetchedRows: a dict that torch's default collate_fn knows by its class."""


class FetchedRows(Sequence[FetchedRow]):
    """The rows that DataLoader has fetched for a batch, as a sequence of dicts.

    Args:
        batch: the rows.
    """

    def __init__(self, batch: Batch) -> None:
        self.batch = batch

    def __len__(self) -> int:
        return self.batch.rows

    @overload
    def __getitem__(self, index: int) -> FetchedRow: ...
    @overload
    def __getitem__(self, index: slice) -> list[FetchedRow]: ...
    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(f"Expected a row in [0, {len(self)}), got {index}")
        return _row(self.batch, index)

    def __iter__(self) -> Iterator[FetchedRow]:
        return map(FetchedRow, self.batch.iter_rows())


def _row(batch: Batch, index: int) -> FetchedRow:
    return FetchedRow((name, value[index]) for name, value in batch.items())


def _collate(rows: Any, **_collation: object) -> Any:
    """Return the Batch of fetched rows, which is there already."""
    if isinstance(rows, FetchedRows):
        return rows.batch
    return default_collate([dict(row) for row in rows])  # type: ignore[no-untyped-call]


default_collate_fn_map[FetchedRow] = _collate
