"""The columns that filters and a split name, read by the core."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import torch

from fastload.batch.ragged import Ragged
from fastload.engine.budget import divide_budget
from fastload.engine.engine import Engine
from fastload.engine.work_units import work_units
from fastload.errors import FastloadError
from fastload.plan import read_plan as plan
from fastload.runtime.cores import available_cores
from fastload.schema.columns import Column
from fastload.schema.leaf_types import NUMBERS
from fastload.schema.projection import plan_columns
from fastload.source.stores.io import IO

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from typing_extensions import Self

    from fastload.batch.batch import Batch
    from fastload.plan.kept_rows import FileRows
    from fastload.rows.filter_schema import FilterSchema
    from fastload.rows.predicate import Predicate
    from fastload.schema.fields import Field
    from fastload.schema.projection import Projection
    from fastload.source.source import Source

__all__ = ["FilterReader", "plan_filter_columns"]

# Filters are evaluated on so many rows, or on fewer of so many bytes.
_BATCH_ROWS = 1 << 18
_BATCH_BYTES = 16 << 20
_MEMORY_BYTES = 512 << 20


class FilterReader:
    """Decodes the columns of a predicate where their tensors hold what Arrow's arrays do.

    Args:
        source: the files.
        types: of the columns, by name.
        projection: of the columns: outputs `i` and `i__valid` are the i-th of them.
    """

    def __init__(self, source: Source, types: dict[str, Any], projection: Projection) -> None:
        self._source = source
        self._types = types
        self._projection = projection
        row_bytes = projection.row_bytes + projection.staged_row_bytes
        self._batch_rows = max(1, min(_BATCH_ROWS, _BATCH_BYTES // row_bytes))

    @property
    def names(self) -> tuple[str, ...]:
        """Of the columns."""
        return tuple(self._types)

    @classmethod
    def of(cls, source: Source, schema: FilterSchema, predicate: Predicate) -> Self | None:
        """A reader of the columns that the predicate names; None if some have to be pyarrow's."""
        names = schema.names_in(predicate)
        if not names:
            return None
        projection = plan_filter_columns(source, schema, names)
        if projection is None:
            return None
        return cls(source, {name: schema.arrow.field(name).type for name in names}, projection)

    def batches(self, row_groups: plan.RowGroups, rows: Sequence[FileRows] = ()) -> Iterator[Any]:
        """The rows of those row groups, one after the other, as Arrow tables.

        rows: by file, those to read of its row groups; () = all.
        """
        with contextlib.closing(self._engine(rows)) as engine:
            read_plan = plan.read_plan(
                row_groups,
                plan.Options(batch_size=self._batch_rows),
                epoch=0,
                progress=(),
                world=1,
                rank=0,
                stripe_rows=engine.budget.stripe_rows,
            )
            scan = engine.start(read_plan, self._batch_rows)
            while (lent := scan.next()) is not None:
                batch, _ = engine.batch_of(lent, None)
                yield self._table(batch)

    def _engine(self, rows: Sequence[FileRows]) -> Engine:
        projection = self._projection
        threads = available_cores()
        budget = divide_budget(
            _MEMORY_BYTES,
            batch_size=self._batch_rows,
            row_bytes=projection.row_bytes,
            staged_row_bytes=projection.staged_row_bytes,
            total_rows=self._source.num_rows,
            shuffle_window=None,
            columns=len(projection.columns),
            work=work_units(projection.outputs),
            threads=threads,
            prefetch=threads,
        )
        return Engine(self._source, projection, projection.outputs, budget, IO(), rows, data=False)

    def _table(self, batch: Batch) -> Any:
        arrays = [
            _arrow_array(arrow, batch[str(index)], batch[f"{index}__valid"])
            for index, arrow in enumerate(self._types.values())
        ]
        return pa.Table.from_arrays(arrays, names=list(self._types))


def plan_filter_columns(
    source: Source, schema: FilterSchema, names: Sequence[str]
) -> Projection | None:
    """The columns of those names: output `i` is the i-th of them, 0 or nothing where it is null.

    None if the tensors of some hold something else than Arrow's arrays.
    """
    types = [schema.arrow.field(name).type for name in names]
    columns = {
        str(index): Column(name, fill=_nothing(arrow), valid=True)
        for index, (name, arrow) in enumerate(zip(names, types, strict=True))
    }
    try:
        projection = plan_columns(source, columns)
    except (FastloadError, TypeError, ValueError):
        return None
    fields = projection.schema
    same = all(_has_bytes_of(arrow, fields[str(i)]) for i, arrow in enumerate(types))
    return projection if same else None


def _nothing(arrow: Any) -> Any:
    """What stands at nulls."""
    if _is_bytes(arrow):
        return b"" if pa.types.is_binary(arrow) or pa.types.is_large_binary(arrow) else ""
    return False if pa.types.is_boolean(arrow) else 0


def _is_bytes(arrow: Any) -> bool:
    return arrow in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())


def _has_bytes_of(arrow: Any, field: Field) -> bool:
    if field.depth or field.shape:
        return False
    if _is_bytes(arrow):
        return field.ragged and field.kind is not None
    if pa.types.is_timestamp(arrow):
        return field.dtype == torch.int64 and field.unit == arrow.unit
    dtype = torch.int32 if arrow == pa.date32() else NUMBERS.get(arrow)
    return not field.ragged and dtype == field.dtype


def _arrow_array(arrow: Any, values: torch.Tensor | Ragged, valid: torch.Tensor) -> Any:
    rows = len(valid)
    present = valid.numpy()
    nulls = rows - int(np.count_nonzero(present))
    bits = pa.py_buffer(np.packbits(present, bitorder="little")) if nulls else None
    if not isinstance(values, Ragged):
        numbers = values.numpy()
        if pa.types.is_boolean(arrow):
            numbers = np.packbits(numbers, bitorder="little")
        return pa.Array.from_buffers(arrow, rows, [bits, pa.py_buffer(numbers)], nulls)
    assert isinstance(values.values, torch.Tensor)
    large = pa.large_string() if values.kind == "str" else pa.large_binary()
    data = [pa.py_buffer(part.numpy()) for part in (values.offsets, values.values)]
    return pa.Array.from_buffers(large, rows, [bits, *data], nulls).cast(arrow)
