"""What one leaf column of a file becomes by default: the table of types."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import torch

from fastload.errors import UnsupportedTypeError

if TYPE_CHECKING:
    from fastload.runtime.native import core

__all__ = ["NUMBERS", "LeafType", "resolve", "resolve_leaf"]

# Milliseconds of a day: date64 is stored as days, and read as milliseconds.
_DAY_MS = 86_400_000

# Arrow types whose values a tensor holds as they are.
NUMBERS: dict[Any, torch.dtype] = {
    pa.bool_(): torch.bool,
    pa.int8(): torch.int8,
    pa.int16(): torch.int16,
    pa.int32(): torch.int32,
    pa.int64(): torch.int64,
    pa.uint8(): torch.uint8,
    pa.uint16(): torch.uint16,
    pa.uint32(): torch.uint32,
    pa.uint64(): torch.uint64,
    pa.float16(): torch.float16,
    pa.float32(): torch.float32,
    pa.float64(): torch.float64,
}


@dataclass(frozen=True, slots=True)
class LeafType:
    """How the values of a leaf column are read when nothing else is asked for.

    arrow: the Arrow type of the values; equal types may be read together.
    kind: "number", "decimal", "null", or how bytes are handed out: "str", "bytes".
    dtype: of the tensor; uint8 for bytes.
    unit: "day", "s", "ms", "us" or "ns" for dates, times and durations.
    multiplier: from the stored integer to the one handed out.
    cast: the stored type is another than `dtype`.
    list_sizes: of the lists around a value, outermost first: their elements; 0 = any number.
    tensor_shape: of the fixed_shape_tensor that the innermost list is, as stored; None = it is
        none.
    tensor_order: dimension i of that tensor is dimension tensor_order[i] as stored.
    """

    arrow: Any
    kind: Literal["number", "decimal", "null", "str", "bytes"]
    dtype: torch.dtype
    unit: str | None = None
    multiplier: int = 1
    cast: bool = False
    list_sizes: tuple[int, ...] = ()
    tensor_shape: tuple[int, ...] | None = None
    tensor_order: tuple[int, ...] = ()

    def __str__(self) -> str:
        text = str(self.arrow)
        for size in reversed(self.list_sizes):
            text = f"fixed_size_list<{text}>[{size}]" if size else f"list<{text}>"
        return text

    @property
    def is_bytes(self) -> bool:
        """Whether a value becomes a `Ragged` of bytes."""
        return self.kind in ("str", "bytes")


def resolve_leaf(arrow: Any, leaf: core.Leaf) -> LeafType:
    """The leaf type of a leaf of a file's schema, with the lists around its values.

    arrow: what pyarrow reads the values as.

    Raises `UnsupportedTypeError` for a type that no column has.
    """
    found = replace(resolve(arrow, leaf.logical_type), list_sizes=leaf.list_sizes)
    shape = leaf.tensor_shape
    if shape is None:
        return found
    order = leaf.tensor_permutation or tuple(range(len(shape)))
    # Extension metadata is the writer's own word, which only counts if it fits the list.
    fits = math.prod(shape) == leaf.list_sizes[-1] > 0
    if not fits or sorted(order) != list(range(len(shape))):
        return found
    return replace(found, tensor_shape=shape, tensor_order=order)


def resolve(arrow: Any, logical_type: str) -> LeafType:
    """The leaf type of an Arrow type.

    arrow: what pyarrow reads the leaf as.
    logical_type: the name that the Parquet schema gives it.

    Raises `UnsupportedTypeError` for a type that no flat column has.
    """
    if isinstance(arrow, pa.Bool8Type):
        return LeafType(pa.bool_(), "number", torch.bool, cast=True)
    if isinstance(arrow, pa.BaseExtensionType):
        return resolve(arrow.storage_type, logical_type)
    if pa.types.is_dictionary(arrow):
        return resolve(arrow.value_type, logical_type)
    if arrow in NUMBERS:
        return LeafType(arrow, "number", NUMBERS[arrow])
    if pa.types.is_null(arrow):
        # The narrowest common float, so that it never widens the columns it is stacked with.
        return LeafType(arrow, "null", torch.float32)
    if pa.types.is_decimal(arrow):
        # Decimals of all widths are the same values.
        values = pa.decimal256(arrow.precision, arrow.scale)
        return LeafType(values, "decimal", torch.float64)
    return _resolve_time(arrow) or _resolve_bytes(arrow, logical_type)


def _resolve_time(arrow: Any) -> LeafType | None:
    if pa.types.is_date32(arrow):
        return LeafType(arrow, "number", torch.int32, unit="day")
    if pa.types.is_date64(arrow):
        return LeafType(arrow, "number", torch.int64, unit="ms", multiplier=_DAY_MS)
    if pa.types.is_time32(arrow):
        return LeafType(arrow, "number", torch.int64, unit=arrow.unit, cast=True)
    if pa.types.is_time64(arrow) or pa.types.is_timestamp(arrow) or pa.types.is_duration(arrow):
        return LeafType(arrow, "number", torch.int64, unit=arrow.unit)
    return None


def _resolve_bytes(arrow: Any, logical_type: str) -> LeafType:
    if (
        pa.types.is_string(arrow)
        or pa.types.is_large_string(arrow)
        or pa.types.is_string_view(arrow)
    ):
        return LeafType(pa.string(), "str", torch.uint8)
    if (
        pa.types.is_binary(arrow)
        or pa.types.is_large_binary(arrow)
        or pa.types.is_binary_view(arrow)
    ):
        # Arrow reads an enum as binary; the format says that it is UTF-8.
        if logical_type == "Enum":
            return LeafType(pa.string(), "str", torch.uint8)
        return LeafType(pa.binary(), "bytes", torch.uint8)
    if pa.types.is_fixed_size_binary(arrow):
        return LeafType(arrow, "bytes", torch.uint8)
    raise UnsupportedTypeError(f"Expected a flat type, got {arrow}")
