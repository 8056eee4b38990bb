"""The leaves of a pyarrow Table: values, and the lists around the values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["ArrowLeaf", "Lists", "leaves_of"]


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
        entries = pa.struct([("key", kind.key_type), ("value", kind.item_type)])
        yield from _walk(replace(node, values=array.cast(pa.list_(entries)), tensor=None))
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield from _walk(_inside(node, 0, None))
    elif pa.types.is_fixed_size_list(kind):
        yield from _walk(_inside(node, kind.list_size, tensor))
    elif pa.types.is_dictionary(kind):
        yield from _walk(replace(node, values=array.dictionary_decode()))
    else:
        yield node


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
