"""The table of types: the form that each type of leaf column takes, and what two types share."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import torch

from fastload.errors import UnsupportedTypeError

if TYPE_CHECKING:
    from fastload.runtime.native import core

__all__ = ["NUMBERS", "LeafType", "common_type", "multiplier", "resolve"]

# Milliseconds of a day: Parquet stores a date64 in days, and a date64 is read in milliseconds.
_DAY_MS = 86_400_000
_DAY_S = 86_400
# A float64 holds every decimal of so many digits.
_FLOAT_DIGITS = 15
_TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}

# Arrow types whose values a tensor holds unchanged.
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
    """The form in which the values of a leaf column are read by default.

    Attributes:
        arrow: Arrow type of the values; leaves of equal types may be read together.
        kind: "number", "decimal" or "null"; for bytes, the form of the rows: "str" or "bytes".
        dtype: dtype of the tensor; uint8 for str and bytes.
        unit: "day", "s", "ms", "us" or "ns" for dates, times and durations.
        multiplier: factor from the stored to the delivered integer.
        cast: the stored type differs from `dtype`.
        list_sizes: number of elements of each level of lists around a value, outermost first;
            0 = lists of varying lengths.
        tensor_shape: stored shape of the fixed_shape_tensor in the innermost list; None = the
            innermost list holds no tensor.
        tensor_order: dimension i of the tensor is the stored dimension tensor_order[i].
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
        # `resolve` reads all decimals as decimal256, whatever the files store.
        text = re.sub(r"^decimal\d+", "decimal", str(self.arrow))
        for size in reversed(self.list_sizes):
            text = f"fixed_size_list<{text}>[{size}]" if size else f"list<{text}>"
        return text

    @property
    def is_bytes(self) -> bool:
        """True if values are str or bytes, delivered as a `Ragged`."""
        return self.kind in ("str", "bytes")

    @property
    def is_whole_decimal(self) -> bool:
        """True if values are decimals without digits behind the point."""
        return self.kind == "decimal" and self.arrow.scale == 0


def resolve_leaf(arrow: Any, leaf: core.Leaf) -> LeafType:
    """Return the leaf type of a leaf of a file's schema, with the lists around its values.

    Args:
        arrow: Arrow type as which pyarrow reads the values.
        leaf: the leaf.

    Raises:
        UnsupportedTypeError: fastload reads no columns of this type.
    """
    found = replace(resolve(arrow, leaf.logical_type), list_sizes=leaf.list_sizes)
    if leaf.physical_type == "INT96":
        found = replace(found, unit="ns")  # as the core counts, whatever the unit of `arrow`
    shape = leaf.tensor_shape
    if shape is None:
        return found
    order = leaf.tensor_permutation or tuple(range(len(shape)))
    # The writer's extension metadata is used only if it fits the size of the list.
    fits = math.prod(shape) == leaf.list_sizes[-1] > 0
    if not fits or sorted(order) != list(range(len(shape))):
        return found
    return replace(found, tensor_shape=shape, tensor_order=order)


def resolve(arrow: Any, logical_type: str) -> LeafType:
    """Return the leaf type of an Arrow type.

    Args:
        arrow: Arrow type as which pyarrow reads the leaf.
        logical_type: name of the leaf's logical type in the Parquet schema.

    Raises:
        UnsupportedTypeError: fastload reads no flat columns of this type.
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
        # Decimals stored in different widths have the same values, so they share one type.
        values = pa.decimal256(arrow.precision, arrow.scale)
        ids = arrow.scale == 0 and arrow.precision > _FLOAT_DIGITS
        return LeafType(values, "decimal", torch.int64 if ids else torch.float64)
    return _resolve_time(arrow) or _resolve_bytes(arrow, logical_type)


def common_type(first: LeafType, second: LeafType) -> LeafType | None:
    """Return the type as which values of both types are read; None if pyarrow cannot unify them.

    The rules are those of pyarrow's permissive unification. Timestamps of two time zones are read
    in the first, as pyarrow's datasets read them: the stored integers are UTC in both.
    """
    first, second = _as_deep(first, second), _as_deep(second, first)
    tensors = {
        (stored.tensor_shape, stored.tensor_order)
        for stored in (first, second)
        if stored.tensor_shape is not None
    }
    if len(first.list_sizes) != len(second.list_sizes) or len(tensors) > 1:
        return None
    sizes = zip(first.list_sizes, second.list_sizes, strict=True)
    list_sizes = tuple(one if one == other else 0 for one, other in sizes)
    values = _common_values(first, second)
    if values is None:
        return None
    same = tensors and list_sizes == first.list_sizes
    shape, order = tensors.pop() if same else (None, ())
    return replace(values, list_sizes=list_sizes, tensor_shape=shape, tensor_order=order)


def multiplier(stored: LeafType, common: LeafType, *, unscaled: bool) -> int:
    """Return the factor from the integers of a type to the integers that batches hold.

    A factor -n divides by n.

    Args:
        stored: the type of the integers that a file stores.
        common: the type as which the integers of all files are read.
        unscaled: deliver decimals as their unscaled integers.
    """
    if stored.kind == "null":
        return 1
    if unscaled:
        scale = stored.arrow.scale if stored.kind == "decimal" else 0
        return int(10 ** (common.arrow.scale - scale))
    if stored.unit is None or common.unit is None or stored.unit == common.unit:
        return stored.multiplier
    ticks = _TICKS[common.unit]
    if stored.unit == "day":
        return _DAY_S * ticks
    factor = Fraction(stored.multiplier * ticks, _TICKS[stored.unit])
    return factor.numerator if factor >= 1 else -factor.denominator


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
        # Arrow reads an enum as binary, but the Parquet format defines an enum as UTF-8.
        if logical_type == "Enum":
            return LeafType(pa.string(), "str", torch.uint8)
        return LeafType(pa.binary(), "bytes", torch.uint8)
    if pa.types.is_fixed_size_binary(arrow):
        return LeafType(arrow, "bytes", torch.uint8)
    raise UnsupportedTypeError(f"Expected a flat type, got {arrow}")


def _as_deep(stored: LeafType, other: LeafType) -> LeafType:
    """Wrap a null type in as many levels of lists as the other type has."""
    missing = len(other.list_sizes) - len(stored.list_sizes)
    if stored.kind != "null" or missing <= 0:
        return stored
    inner = other.list_sizes[len(stored.list_sizes) :]
    return replace(stored, list_sizes=stored.list_sizes + inner)


def _in_zone_of(first: LeafType, second: LeafType) -> Any:
    """Return the second's Arrow type, in the first's time zone if both have one."""
    arrows = (first.arrow, second.arrow)
    if all(pa.types.is_timestamp(arrow) and arrow.tz is not None for arrow in arrows):
        return pa.timestamp(second.arrow.unit, first.arrow.tz)
    return second.arrow


def _common_values(first: LeafType, second: LeafType) -> LeafType | None:
    if first.arrow == second.arrow or second.kind == "null":
        return first
    if first.kind == "null":
        return second
    schemas = [
        pa.schema([("column", arrow)]) for arrow in (first.arrow, _in_zone_of(first, second))
    ]
    try:
        unified = pa.unify_schemas(schemas, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return None
    return resolve(unified.field(0).type, "None")
