"""Unification of the types that files store for one column, by pyarrow's permissive rules."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from fastload.schema import leaf_types

if TYPE_CHECKING:
    from fastload.schema.leaf_types import LeafType

__all__ = ["common_type"]


def common_type(first: LeafType, second: LeafType) -> LeafType | None:
    """Return the type as which values of both types are read; None if pyarrow cannot unify them."""
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
    """Wrap a null type in as many levels of lists as the other type has."""
    missing = len(other.list_sizes) - len(stored.list_sizes)
    if stored.kind != "null" or missing <= 0:
        return stored
    # The core knows the lists of such a file from their levels alone, so their sizes may vary.
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
