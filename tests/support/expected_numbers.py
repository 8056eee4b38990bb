"""The leaves of a pyarrow Table: their lists, and their numbers by the docs' table of types."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import torch

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["ArrowLeaf", "cast", "in_unit", "is_binary", "is_text", "leaves_of", "numbers_of"]

# Decimals with at most this many digits are exact as floats, and so are the powers of ten of their
# scales.
_EXACT_DIGITS = 15


def is_text(kind: Any) -> bool:
    """Return True if an Arrow type is a type of strings."""
    return kind in (pa.string(), pa.large_string(), pa.string_view())


def is_binary(kind: Any) -> bool:
    """Return True if an Arrow type is a type of bytes."""
    plain = kind in (pa.binary(), pa.large_binary(), pa.binary_view())
    return plain or bool(pa.types.is_fixed_size_binary(kind))


def numbers_of(array: Any, *, unscaled: bool = False) -> npt.NDArray[Any]:
    """Return the numbers of an array (N,); the number in place of a null is undefined.

    Args:
        array: a pyarrow array of numbers.
        unscaled: True for decimals as int64 without the decimal point, False for decimals as the
            nearest float64.
    """
    kind = array.type
    if isinstance(kind, pa.Bool8Type):
        array = array.storage
        return numbers_of(array).astype(np.bool_)
    if pa.types.is_null(kind):
        return np.full(len(array), np.nan, np.float32)
    if pa.types.is_decimal(kind):
        return _unscaled(array) if unscaled else _floats(array)
    if pa.types.is_date32(kind):
        array = array.view(pa.int32())
    elif pa.types.is_time32(kind):
        array = array.view(pa.int32()).cast(pa.int64())
    elif pa.types.is_temporal(kind):
        array = array.view(pa.int64())
    zero = False if pa.types.is_boolean(kind) else 0
    numbers: npt.NDArray[Any] = array.fill_null(zero).to_numpy(zero_copy_only=False)
    return numbers


def in_unit(array: Any, unit: str) -> Any:
    """Return an Arrow array of dates, times, timestamps or durations in a unit."""
    kind = array.type
    if pa.types.is_time(kind):
        return array.cast(pa.time32(unit) if unit in ("s", "ms") else pa.time64(unit))
    if pa.types.is_duration(kind):
        return array.cast(pa.duration(unit))
    return array.cast(pa.timestamp(unit, getattr(kind, "tz", None)))


def cast(numbers: npt.NDArray[Any], dtype: torch.dtype | None) -> torch.Tensor:
    """Return a tensor of the nearest numbers of a dtype; None = the numbers' own dtype."""
    if dtype == torch.float16:
        # numpy rounds once, torch's cast would round twice. numpy calls a signalling NaN invalid.
        with np.errstate(over="ignore", invalid="ignore"):
            return _tensor(numbers.astype(np.float16))
    if dtype == torch.bfloat16 and numbers.dtype.itemsize > 2:
        return _tensor(_odd_floats(numbers)).to(torch.bfloat16)
    tensor = _tensor(numbers)
    return tensor if dtype is None else tensor.to(dtype)


def _tensor(numbers: npt.NDArray[Any]) -> torch.Tensor:
    # The copy avoids torch's warning about Arrow's read-only memory.
    return torch.from_numpy(np.array(numbers))


def _odd_floats(numbers: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Return float32 numbers rounded to odd: a second rounding gives the same as a single one.

    Boldo and Melquiond, "When double rounding is odd" (2004).
    """
    with np.errstate(over="ignore", invalid="ignore"):
        wide = numbers.astype(np.longdouble)
        near = wide.astype(np.float32)
    inexact = np.isfinite(near) & (near != wide)
    bits = near.view(np.uint32)
    bits -= inexact & (np.abs(near) > np.abs(wide))
    bits |= inexact
    return near


def _floats(decimals: Any) -> npt.NDArray[np.float64]:
    """Return each decimal as the nearest float64; NaN for null."""
    kind = decimals.type
    if kind.precision <= _EXACT_DIGITS:
        words = kind.bit_width // 64
        # An empty array may have a buffer of any size.
        data = decimals.buffers()[1] if len(decimals) else b""
        low = np.frombuffer(data, np.int64 if words else np.int32)
        low = low[:: max(1, words)][decimals.offset : decimals.offset + len(decimals)]
        floats: npt.NDArray[np.float64] = low / 10.0**kind.scale
        return floats
    listed = [float("nan") if v is None else float(v) for v in decimals.to_pylist()]
    return np.array(listed, np.float64)


def _unscaled(decimals: Any) -> npt.NDArray[np.int64]:
    scale = decimals.type.scale
    listed = [0 if v is None else int(v.scaleb(scale)) for v in decimals.to_pylist()]
    return np.array(listed, np.int64)


@dataclass(frozen=True, slots=True)
class Lists:
    """One level of lists.

    Attributes:
        lengths: int64 (N,), the length of each list; 0 for a null list.
        size: length of every list if the type fixes the length; 0 = any length.
        nulls: number of null lists.
    """

    lengths: npt.NDArray[np.int64]
    size: int
    nulls: int


@dataclass(frozen=True, slots=True)
class ArrowLeaf:
    """One leaf of a column, for all rows.

    Attributes:
        name: name of the leaf in `columns=`, such as "a.b" or "m.key".
        values: the values outside of null lists; a value in a null struct is null.
        levels: the levels of lists around the values, outermost first.
        valid: bool (B,), True if the outermost list of a row (without lists, the value of the row)
            and the structs around the list are not null.
        tensor: the extension type, if the innermost lists are those of a fixed_shape_tensor.
    """

    name: str
    values: Any
    levels: tuple[Lists, ...] = ()
    valid: npt.NDArray[np.bool_] | None = None
    tensor: Any = None


def leaves_of(table: Any) -> dict[str, ArrowLeaf]:
    """Return the leaves of a pyarrow Table by name, in the order of the columns."""
    leaves: dict[str, ArrowLeaf] = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        if isinstance(array, pa.ChunkedArray):
            array = pa.concat_arrays(array.chunks or [pa.array([], column.type)])
        for leaf in _walk(ArrowLeaf(name, array)):
            valid = _is_valid(leaf.values) if leaf.valid is None else leaf.valid
            leaves[leaf.name] = replace(leaf, valid=valid)
    return leaves


def _walk(node: ArrowLeaf) -> Iterator[ArrowLeaf]:
    """Yield the leaves below a node, whose `values` are the node's whole array."""
    array = node.values
    tensor = None
    while isinstance(array, pa.ExtensionArray) and not isinstance(array.type, pa.Bool8Type):
        tensor = array.type if isinstance(array.type, pa.FixedShapeTensorType) else None
        array = array.storage
    node = replace(node, values=array)
    kind = array.type
    if pa.types.is_struct(kind):
        # `flatten` makes a field null where its struct is null.
        for field, values in zip(kind, array.flatten(), strict=True):
            yield from _walk(
                replace(node, name=f"{node.name}.{field.name}", values=values, tensor=None)
            )
    elif pa.types.is_map(kind):
        yield from _walk(replace(node, values=_entries(array), tensor=None))
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield from _walk(_inside(node, 0, None))
    elif pa.types.is_fixed_size_list(kind):
        yield from _walk(_inside(node, kind.list_size, tensor))
    elif pa.types.is_dictionary(kind):
        yield from _walk(replace(node, values=array.dictionary_decode()))
    else:
        yield node


def _entries(maps: Any) -> Any:
    """Return maps as lists of structs.

    pyarrow's own cast loses elements of lists of type null.
    """
    names = ["key", "value"]
    entries = pa.StructArray.from_arrays([maps.keys, maps.items], names)
    buffers = maps.buffers()[:2]  # the maps that are null, and the offsets
    kind = pa.list_(entries.type)
    return pa.Array.from_buffers(kind, len(maps), buffers, -1, maps.offset, [entries])


def _inside(node: ArrowLeaf, size: int, tensor: Any) -> ArrowLeaf:
    lengths = pc.list_value_length(node.values).fill_null(0)
    lengths = lengths.to_numpy(zero_copy_only=False).astype(np.int64)
    lists = Lists(lengths, size, node.values.null_count)
    return replace(
        node,
        values=_flattened(node.values),
        levels=(*node.levels, lists),
        valid=node.valid if node.levels else _is_valid(node.values),
        tensor=tensor,
    )


def _flattened(array: Any) -> Any:
    """Return the values of lists, without the values in null lists."""
    if array.null_count == len(array):
        # `flatten` would make an empty array, which pyarrow cannot of structs of tensors.
        return array.values[:0]
    return array.flatten()


def _is_valid(array: Any) -> npt.NDArray[np.bool_]:
    valid: npt.NDArray[np.bool_] = array.is_valid().to_numpy(zero_copy_only=False)
    return valid
