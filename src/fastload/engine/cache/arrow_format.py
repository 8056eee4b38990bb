"""Arrow form of a block's outputs, and the projection by which the core reads blocks.

A tensor (B,) becomes a column of its dtype, a tensor (B, ...) a column of lists of a fixed size,
and a `Ragged` a column of large lists, strings or binary. A dtype without an Arrow type of the same
bytes becomes an extension type if one exists (bool: arrow.bool8), or else integers of the same size
(bfloat16: uint16). The metadata of each Arrow field contains the field of the output.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import torch

from fastload.batch.ragged import Ragged, own_rows
from fastload.errors import FastloadError
from fastload.schema.column_plan import ColumnPlan
from fastload.schema.columns import DTYPES
from fastload.schema.fields import Field
from fastload.schema.leaf_types import NUMBERS
from fastload.schema.projection import OutputPlan, Projection
from fastload.steps.outputs import field_of

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "FileOverhead",
    "UncacheableError",
    "arrow_schema",
    "fields_of",
    "projection_of",
    "record_batch",
]

_FIELD = b"fastload.field"
_STORED = {
    **{dtype: (arrow, dtype) for arrow, dtype in NUMBERS.items()},
    torch.bool: (pa.int8(), torch.int8),
    torch.bfloat16: (pa.uint16(), torch.uint16),
}

# Bytes of a file in addition to the schema and the values: heads of messages, and padding.
_MORE_BYTES = 4096
# Bytes of heads and padding in a record batch, for each array that the batch's columns consist of.
_ARRAY_BYTES = 128


class FileOverhead(NamedTuple):
    """The most bytes that a block takes in addition to its values.

    Attributes:
        file_bytes: bytes of the file.
        batch_bytes: bytes of each record batch.
    """

    file_bytes: int
    batch_bytes: int

    @classmethod
    def of(cls, schema: pa.Schema) -> FileOverhead:
        """Compute the overhead of blocks of a schema."""
        arrays = sum(_arrays(field.type) for field in schema)
        # The schema is written twice, at the start and in the footer.
        return cls(2 * schema.serialize().size + _MORE_BYTES, arrays * _ARRAY_BYTES)


class UncacheableError(FastloadError):
    """Raised for rows that can't be kept in the cache; a pass then reads them from the files."""


def arrow_schema(fields: Mapping[str, Field]) -> pa.Schema:
    """Return the Arrow schema of blocks.

    Args:
        fields: the outputs of the blocks.

    Raises:
        UncacheableError: Arrow or the core has no column for an output.
    """
    return pa.schema([_arrow_field(name, field) for name, field in fields.items()])


def fields_of(schema: pa.Schema) -> dict[str, Field]:
    """Return the outputs of blocks.

    Args:
        schema: the schema of the blocks, made by `arrow_schema`.
    """
    fields = {}
    for entry in schema:
        said = json.loads(entry.metadata[_FIELD])
        dtype = getattr(torch, said.pop("dtype"))
        fields[entry.name] = Field(dtype, tuple(said.pop("shape")), **said)
    return fields


def record_batch(
    schema: pa.Schema, fields: Mapping[str, Field], block: Mapping[str, Any]
) -> pa.RecordBatch:
    """Return the rows of a batch as a record batch, which shares the batch's memory.

    Args:
        schema: the Arrow schema of the block.
        fields: the outputs of the block.
        block: the values of the outputs.

    Raises:
        UncacheableError: an output does not fit the schema.
    """
    if set(block) != set(fields):
        raise UncacheableError(
            f"Expected the outputs {', '.join(map(repr, fields))}, as in the first rows, got "
            f"{', '.join(map(repr, block))}"
        )
    arrays = [
        _array(entry.type, _checked(name, fields[name], block[name]))
        for name, entry in zip(fields, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def projection_of(fields: Mapping[str, Field], files: int, ragged_bytes: int) -> Projection:
    """Return the projection by which the core reads blocks.

    Args:
        fields: the outputs of the blocks.
        files: the number of files in the dataset.
        ragged_bytes: the estimated bytes of all ragged outputs in one row.
    """
    columns, outputs = [], []
    for number, (name, field) in enumerate(fields.items()):
        columns.append(
            ColumnPlan(
                name,
                (number,) * files,
                DTYPES[field.dtype],
                bytes=field.kind is not None,
                fill=None,
                depth=field.depth,
                list_size=math.prod(field.shape) if field.shape else 0,
            )
        )
        kind: Any = "ragged" if field.ragged else "list" if field.shape else "column"
        outputs.append(OutputPlan(name, kind, (number,), field))
    fixed = sum(field.item_bytes for field in fields.values() if not field.ragged)
    staged = ragged_bytes if any(field.ragged for field in fields.values()) else 0
    return Projection(tuple(columns), tuple(outputs), max(1, fixed + staged), staged)


def _arrow_field(name: str, field: Field) -> pa.Field:
    stored = _STORED.get(field.dtype)
    # The shape of a torch.nested tensor has a number that is no int.
    if stored is None or not all(type(n) is int and n for n in field.shape):
        raise UncacheableError(
            f"Expected outputs of a dtype that Arrow has, without a dimension of length 0, got "
            f"{field.dtype} (B{''.join(f', {n}' for n in field.shape)}) in output `{name}`"
        )
    metadata = {_FIELD: _said(field)}
    kind: pa.DataType = stored[0]
    if field.kind is not None:
        kind = pa.large_string() if field.kind == "str" else pa.large_binary()
    elif field.shape:
        kind = pa.list_(pa.field("item", kind, nullable=False), math.prod(field.shape))
        if len(field.shape) > 1 and not field.depth:
            metadata[b"ARROW:extension:name"] = b"arrow.fixed_shape_tensor"
            shape = json.dumps({"shape": list(field.shape)})
            metadata[b"ARROW:extension:metadata"] = shape.encode()
    elif field.dtype == torch.bool and not field.depth:
        metadata[b"ARROW:extension:name"] = b"arrow.bool8"
        metadata[b"ARROW:extension:metadata"] = b""
    for _ in range(field.depth):
        kind = pa.large_list(pa.field("item", kind, nullable=False))
    return pa.field(name, kind, nullable=False, metadata=metadata)


def _said(field: Field) -> bytes:
    said = {"dtype": str(field.dtype).removeprefix("torch."), "shape": list(field.shape)}
    more = {"ragged": field.ragged, "unit": field.unit, "kind": field.kind, "depth": field.depth}
    return json.dumps({**said, **more}).encode()


def _shown(field: Field) -> str:
    return " ".join(filter(None, field.described))


def _checked(name: str, field: Field, value: torch.Tensor | Ragged) -> torch.Tensor | Ragged:
    """Return a value after checking that it fits its field.

    Raises:
        UncacheableError: the value does not fit the field.
    """
    found = field_of(value)
    if field.depth == 1 and isinstance(value, torch.Tensor) and _is_chance(field, found):
        # Lists of any length that have the same length in all of these rows.
        offsets = torch.arange(len(value) + 1, device="cpu") * value.shape[1]
        value = Ragged(value.flatten(0, 1), offsets)
        found = field_of(value)
    if found != field and replace(found, unit=field.unit) != field:
        raise UncacheableError(
            f"Expected output `{name}` as {_shown(field)}, as in the first rows, got "
            f"{_shown(found)}: a step has to return one dtype and shape for all rows, or a Ragged"
        )
    inner = value
    while isinstance(inner, Ragged):
        inner = inner.values
    if inner.device.type != "cpu":
        raise UncacheableError(
            f"Expected output `{name}` in CPU memory, got a tensor on {inner.device}"
        )
    if inner.layout != torch.strided:
        raise UncacheableError(
            f"Expected output `{name}` as a dense tensor, got one of layout {inner.layout}"
        )
    return value


def _is_chance(field: Field, found: Field) -> bool:
    dense = replace(field, ragged=False, depth=0, unit=None)
    return found.shape[1:] == field.shape and replace(found, shape=field.shape) == dense


def _array(kind: pa.DataType, value: torch.Tensor | Ragged) -> pa.Array:
    if isinstance(value, Ragged):
        own = own_rows(value, copies=False)
        offsets = pa.py_buffer(own.offsets.contiguous().numpy())
        if pa.types.is_large_list(kind):
            items = [_array(kind.value_type, own.values)]
            return pa.Array.from_buffers(kind, len(own), [None, offsets], 0, children=items)
        assert isinstance(own.values, torch.Tensor)
        text = pa.py_buffer(own.values.contiguous().numpy())
        return pa.Array.from_buffers(kind, len(own), [None, offsets, text], 0)
    flat = value.detach().contiguous()
    if pa.types.is_fixed_size_list(kind):
        items = [_array(kind.value_type, flat.reshape(-1))]
        return pa.Array.from_buffers(kind, len(flat), [None], 0, children=items)
    numbers = flat.view(_STORED[flat.dtype][1]).numpy()
    return pa.Array.from_buffers(kind, len(flat), [None, pa.py_buffer(numbers)], 0)


def _arrays(kind: pa.DataType) -> int:
    """Return the number of arrays in a column of a type, including nested arrays."""
    kind = getattr(kind, "storage_type", kind)
    return 1 + sum(_arrays(kind.field(child).type) for child in range(kind.num_fields))
