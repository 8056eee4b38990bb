"""What one leaf column of a file becomes by default: the table of types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa
import torch

from fastload.errors import UnsupportedTypeError

__all__ = ["LeafType", "resolve"]

# Milliseconds of a day: date64 is stored as days, and read as milliseconds.
_DAY_MS = 86_400_000

_NUMBERS: dict[Any, torch.dtype] = {
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
    """

    arrow: Any
    kind: Literal["number", "decimal", "null", "str", "bytes"]
    dtype: torch.dtype
    unit: str | None = None
    multiplier: int = 1
    cast: bool = False

    @property
    def is_bytes(self) -> bool:
        """Whether it becomes a `Ragged` of bytes."""
        return self.kind in ("str", "bytes")


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
    if arrow in _NUMBERS:
        return LeafType(arrow, "number", _NUMBERS[arrow])
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
