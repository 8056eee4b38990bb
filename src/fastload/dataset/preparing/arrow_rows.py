"""Batches as Arrow tables, whose columns fastload reads back as the same outputs.

A tensor (B,) becomes a column of its dtype, a tensor (B, n) a column of lists of a fixed size, a
tensor (B, n, m) a column of tensors of a fixed shape, and a `Ragged` a column of large lists,
strings or binary. Values of a dtype that Parquet lacks become values of a wider dtype.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import torch

from fastload.batch.ragged import Ragged, own_rows
from fastload.dataset.preparing.errors import UnpreparableError
from fastload.schema.leaf_types import NUMBERS
from fastload.schema.stored_fields import STORED_AS, metadata_for
from fastload.steps.outputs import field_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastload.schema.fields import Field

__all__ = ["ArrowRows"]


_ARROW = {dtype: arrow for arrow, dtype in NUMBERS.items()}


class ArrowRows:
    """The Arrow form of some outputs.

    Args:
        fields: the outputs.

    Attributes:
        schema: the schema of the tables.

    Raises:
        UnpreparableError: Parquet has no column for an output.
    """

    def __init__(self, fields: Mapping[str, Field]) -> None:
        self._fields = dict(fields)
        columns = [pa.field(name, _kind(name, each)) for name, each in self._fields.items()]
        self.schema = pa.schema(columns, metadata_for(self._fields))

    def table(self, batch: Mapping[str, Any]) -> pa.Table:
        """Return the rows of a batch as a table, which shares the memory of most values.

        Raises:
            UnpreparableError: the batch has other outputs, dtypes or shapes than `fields`.
        """
        if set(batch) != set(self._fields):
            raise UnpreparableError(
                f"Expected the outputs {_quoted(self._fields)}, as in the first rows, got "
                f"{_quoted(batch)} (a function that changes the number of rows has to return all "
                "outputs that it keeps, also for rows whose number stays)"
            )
        arrays = [
            _array(column.type, _checked(name, self._fields[name], batch[name]))
            for name, column in zip(self._fields, self.schema, strict=True)
        ]
        return pa.Table.from_arrays(arrays, schema=self.schema)


def _kind(name: str, field: Field) -> pa.DataType:
    kind = _ARROW.get(STORED_AS.get(field.dtype, field.dtype))
    # The shape of a torch.nested tensor has a number that is no int.
    if kind is None or not all(type(size) is int and size for size in field.shape):
        raise UnpreparableError(
            f"Expected output `{name}` of a dtype and shape that Parquet has a column for, got "
            f"{field.dtype} of shape (B{''.join(f', {size}' for size in field.shape)})"
        )
    if field.kind is not None:
        kind = pa.large_string() if field.kind == "str" else pa.large_binary()
    elif len(field.shape) > 1:
        kind = pa.fixed_shape_tensor(kind, field.shape)
    elif field.shape:
        kind = pa.list_(kind, field.shape[0])
    for _ in range(field.depth):
        kind = pa.large_list(kind)
    return kind


def _checked(name: str, field: Field, value: torch.Tensor | Ragged) -> torch.Tensor | Ragged:
    """Return a value after checking that it fits its field."""
    found = field_of(value)
    if field.depth == 1 and isinstance(value, torch.Tensor) and value.dim() > 1:
        dense = replace(field, ragged=False, depth=0, unit=None)
        if found.shape[1:] == field.shape and replace(found, shape=field.shape) == dense:
            # Lists of any length that happen to have one length in these rows.
            offsets = torch.arange(len(value) + 1, device="cpu") * value.shape[1]
            value = Ragged(value.flatten(0, 1), offsets)
            found = field_of(value)
    if replace(found, unit=field.unit) != field:
        raise UnpreparableError(
            f"Expected output `{name}` as {_shown(field)}, as in the first rows, got "
            f"{_shown(found)}: a step has to return one dtype and shape for all rows, or a Ragged"
        )
    inner = value
    while isinstance(inner, Ragged):
        inner = inner.values
    if inner.layout != torch.strided:
        raise UnpreparableError(
            f"Expected output `{name}` as a dense tensor, got one of layout {inner.layout}"
        )
    return value


def _array(kind: pa.DataType, value: torch.Tensor | Ragged) -> pa.Array:
    if isinstance(value, Ragged):
        own = own_rows(value, copies=False)
        offsets = pa.py_buffer(own.offsets.cpu().contiguous().numpy())
        if pa.types.is_large_list(kind):
            items = [_array(kind.value_type, own.values)]
            return pa.Array.from_buffers(kind, len(own), [None, offsets], 0, children=items)
        assert isinstance(own.values, torch.Tensor)
        text = pa.py_buffer(own.values.cpu().contiguous().numpy())
        return pa.Array.from_buffers(kind, len(own), [None, offsets, text], 0)
    if isinstance(kind, pa.FixedShapeTensorType):
        lists = pa.list_(kind.value_type, math.prod(kind.shape))
        return pa.ExtensionArray.from_storage(kind, _array(lists, value.flatten(1)))
    if pa.types.is_fixed_size_list(kind):
        items = [_array(kind.value_type, value.reshape(-1))]
        return pa.Array.from_buffers(kind, len(value), [None], 0, children=items)
    numbers = value.detach().cpu()
    numbers = numbers.to(STORED_AS.get(numbers.dtype, numbers.dtype)).contiguous()
    return pa.array(np.asarray(numbers), kind)


def _shown(field: Field) -> str:
    return " ".join(filter(None, field.described))


def _quoted(names: Mapping[str, Any]) -> str:
    return ", ".join(f"`{name}`" for name in names)
