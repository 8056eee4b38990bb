"""One type for a column whose files store it in several: pyarrow's permissive unification."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from fastload.schema import leaf_types

if TYPE_CHECKING:
    from fastload.schema.leaf_types import LeafType

__all__ = ["common_type"]

_TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_DAY_S = 86_400
_MOST = 2**63 - 1  # the core's integers


def common_type(first: LeafType, second: LeafType) -> LeafType | None:
    """The type that values of both are read as; None where pyarrow knows none."""
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


def _as_deep(stored: LeafType, other: LeafType) -> LeafType:
    """A type whose null elements may be lists, if the elements of the other are."""
    missing = len(other.list_sizes) - len(stored.list_sizes)
    if stored.kind != "null" or missing <= 0:
        return stored
    # The core knows the lists of such a file from their levels alone, hence of any size.
    inner = other.list_sizes[len(stored.list_sizes) :]
    return replace(stored, list_sizes=(0,) * len(stored.list_sizes) + inner)


def _common_values(first: LeafType, second: LeafType) -> LeafType | None:
    if first.arrow == second.arrow:
        return first
    schemas = [pa.schema([("column", stored.arrow)]) for stored in (first, second)]
    try:
        unified = pa.unify_schemas(schemas, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return None
    return leaf_types.resolve(unified.field(0).type, "None")
