"""The plan by which the core reads one leaf column, and the items that it decodes."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import torch

from fastload.errors import SchemaError
from fastload.schema.columns import DTYPES, Codes, Column, Fill, Hash, LeafSpec, torch_dtype
from fastload.schema.encoded_values import (
    encode_bytes,
    encode_constant,
    encode_constants,
    encode_hash,
    encode_number,
    encode_text,
)

if TYPE_CHECKING:
    import builtins

    from fastload.schema.leaf_types import LeafType
    from fastload.schema.leaves import SelectedLeaf

__all__ = ["ColumnPlan", "Item", "key_kind", "plan_leaf", "row_major"]


@dataclass(frozen=True, slots=True)
class ColumnPlan:
    """The plan by which the core reads one leaf column.

    Its members are those of the core's `ColumnSpec`, under the same names, and the engine passes
    on all of them.

    Attributes:
        name: dotted name of the column in the files.
        leaves: index of the column's leaf in each file; -1 = the file lacks the column.
        dtype: the core's name for the dtype of the elements.
        bytes: values are str or bytes.
        fill: the bytes written in place of a null element (of the whole value for str and
            bytes); None = a null is an error.
        cast: the stored type of some file differs from `dtype`.
        unscaled: decimals become their unscaled integers.
        exact: rounding an integer to a float is an error.
        multipliers: factor from the stored to the delivered integers of each file; -n = they are
            divided by n; () = 1 in every file.
        constants: value for each file that lacks the column, encoded as `fill` is; () = null in
            all these files.
        shared_levels: how many levels of lists the column shares with the leaf of each file, if
            another leaf stands in for one that the file lacks: all elements are null; 0 = the leaf
            is the column's own; () = 0 in every file.
        levels: levels of lists around an element, those of fixed sizes included.
        depth: levels of lists of varying lengths around an item.
        list_size: elements of an item that is a list of a fixed size; 0 = an item is one element.
        list_items: items of every list at a depth of 1; -1 = lists have any length.
        null_lists: a null list is empty (or all fill) instead of an error.
        hash_buckets: number of buckets; 0 = values are not hashed.
        hash_seed: seed of the hash.
        vocabulary: values whose index is their code; None = values are not coded.
        unknown: code of every value outside the vocabulary.
        lengths_only: only the lengths of lists are wanted, and values are not decoded.
    """

    name: str
    leaves: tuple[int, ...]
    dtype: str
    bytes: bool
    fill: builtins.bytes | None
    cast: bool = False
    unscaled: bool = False
    exact: bool = False
    multipliers: tuple[int, ...] = ()
    constants: tuple[builtins.bytes | None, ...] = ()
    shared_levels: tuple[int, ...] = ()
    levels: int = 0
    depth: int = 0
    list_size: int = 0
    list_items: int = -1
    null_lists: bool = False
    hash_buckets: int = 0
    hash_seed: int = 0
    vocabulary: tuple[builtins.bytes, ...] | tuple[int, ...] | None = None
    unknown: int = -1
    lengths_only: bool = False

    @property
    def takes_nulls(self) -> bool:
        """True if a null row is not an error."""
        return self.null_lists if self.depth or self.list_size else self.fill is not None

    def constant(self, file: int) -> builtins.bytes | None:
        """Return the value for a file that lacks the column; None = null."""
        return self.constants[file] if self.constants else None

    def reads(self, file: int) -> tuple[int, int, builtins.bytes | None, int]:
        """Return what tells the values of a file from those of another file with equal bytes."""
        shared = self.shared_levels[file] if self.shared_levels else 0
        factor = self.multipliers[file] if self.multipliers else 1
        return self.leaves[file], shared, self.constant(file), factor


@dataclass(frozen=True, slots=True)
class Item:
    """One item in the lists of a column, or one row of a column without lists.

    Attributes:
        dtype: dtype of the elements.
        shape: () for one element; else the shape of the lists of fixed sizes, or of the tensor.
        strides: elements from one entry to the next in each dimension of `shape`.
        unit: as in `Field`.
        kind: as in `Field`.
    """

    dtype: torch.dtype
    shape: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    unit: str | None = None
    kind: Literal["str", "bytes"] | None = None


def plan_leaf(
    leaf: SelectedLeaf,
    spec: LeafSpec,
    *,
    zero: bool,
    varying: bool,
    nan: bool = False,
) -> tuple[ColumnPlan, Item]:
    """Plan the reading of one leaf column.

    Args:
        leaf: the leaf column of all files.
        spec: the column spec that the user asked for.
        zero: write 0 (or nothing) in place of nulls if `spec` has no fill.
        varying: treat the outermost lists as lists of varying lengths, even if their size is
            fixed.
        nan: write NaN in place of a null float if `spec` has no fill.

    Returns:
        The plan, and the item that the core decodes by it.

    Raises:
        SchemaError, ValueError, TypeError: the leaf cannot become what `spec` asks for.
    """
    stored = leaf.type
    if isinstance(spec, Hash):
        plan, item = _hashed(leaf, spec, zero=zero)
    elif isinstance(spec, Codes):
        plan, item = _coded(leaf, spec)
    elif stored.kind == "str" or stored.kind == "bytes":
        plan, item = _text(leaf, spec, stored.kind, zero=zero)
    else:
        plan, item = _number(leaf, spec, zero=zero, nan=nan)
    if not stored.list_sizes:
        return plan, item
    depth = _varying_levels(stored.list_sizes, plan)
    if varying:
        depth = max(depth, 1)
    shape, strides = _item_shape(stored, depth)
    null_lists = zero or isinstance(spec, Codes) or spec.fill is not None
    fixed = stored.list_sizes[depth:]
    size = math.prod(fixed) if fixed else 0
    plan = replace(
        plan,
        shared_levels=leaf.shared_levels,
        levels=len(stored.list_sizes),
        depth=depth,
        list_size=size,
        null_lists=null_lists,
    )
    return plan, replace(item, shape=shape, strides=strides)


def _varying_levels(sizes: tuple[int, ...], plan: ColumnPlan) -> int:
    """Count the levels that stay lists; inner lists of fixed sizes become an item's dimensions."""
    depth = len(sizes)
    if plan.bytes:
        return depth
    while depth and sizes[depth - 1]:
        depth -= 1
    return depth


def _item_shape(stored: LeafType, depth: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the shape and strides of the items below `depth` levels of lists."""
    shape = stored.list_sizes[depth:]
    if not shape or stored.tensor_shape is None:
        return shape, row_major(shape)
    # The innermost list holds the tensor's elements, in the row-major order of the stored shape.
    stored_shape = (*shape[:-1], *stored.tensor_shape)
    strides = row_major(stored_shape)
    outer = len(shape) - 1
    order = [*range(outer), *(outer + dimension for dimension in stored.tensor_order)]
    return tuple(stored_shape[k] for k in order), tuple(strides[k] for k in order)


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the row-major strides of `shape`, in elements."""
    return tuple(math.prod(shape[k + 1 :]) for k in range(len(shape)))


def _text(
    leaf: SelectedLeaf, spec: Column, kind: Literal["str", "bytes"], *, zero: bool
) -> tuple[ColumnPlan, Item]:
    if spec.unit is not None:
        leaf.in_unit(spec.unit)  # raises an error
    if spec.dtype is not None:
        raise SchemaError(
            f"Expected no dtype for a column of type {leaf.type}, got {spec.dtype} (Hash and Codes "
            f"turn the values into integers) - at column `{leaf.name}`"
        )
    fill = b"" if zero else None
    if spec.fill is not None:
        fill = _encode(leaf.name, encode_bytes, spec.fill, kind)
    constants = encode_constants(leaf, lambda value: encode_bytes(value, kind))
    plan = ColumnPlan(leaf.name, leaf.indices, "uint8", bytes=True, fill=fill, constants=constants)
    return plan, Item(torch.uint8, kind=kind)


def _number(leaf: SelectedLeaf, spec: Column, *, zero: bool, nan: bool) -> tuple[ColumnPlan, Item]:
    if spec.unit is not None:
        leaf = leaf.in_unit(spec.unit)
    stored = leaf.type
    dtype = torch_dtype(spec.dtype) or stored.dtype
    if stored.kind == "decimal" and dtype == torch.bool:
        raise SchemaError(
            f"Expected a float or integer dtype for a column of type {stored}, got {dtype} - at "
            f"column `{leaf.name}`"
        )
    fill = None
    if spec.fill is not None:
        fill = _encode(leaf.name, encode_number, spec.fill, dtype)
    elif zero:
        fill = bytes(dtype.itemsize)
    elif nan and dtype.is_floating_point:
        fill = _nan(dtype)
    unscaled = stored.kind == "decimal" and not dtype.is_floating_point
    plan = ColumnPlan(
        leaf.name,
        leaf.indices,
        DTYPES[dtype],
        bytes=False,
        fill=fill,
        cast=leaf.is_cast(dtype),
        unscaled=unscaled,
        exact=spec.dtype is None and leaf.widens_integers,
        multipliers=leaf.multipliers(unscaled=unscaled),
        constants=encode_constants(leaf, lambda value: encode_constant(value, leaf, dtype)),
    )
    return plan, Item(dtype, unit=stored.unit)


@cache
def _nan(dtype: torch.dtype) -> bytes:
    """Return NaN as an element of a floating-point type: thousands of columns ask for one."""
    return encode_number(float("nan"), dtype)


def _hashed(leaf: SelectedLeaf, spec: Hash, *, zero: bool) -> tuple[ColumnPlan, Item]:
    kind = key_kind(leaf, "hash")
    fill = encode_number(0, torch.int64) if zero else None
    if spec.fill is not None:
        fill = _encode(leaf.name, encode_hash, spec.fill, kind, spec.buckets, spec.seed)
    constants = encode_constants(
        leaf, lambda value: encode_hash(value, kind, spec.buckets, spec.seed)
    )
    plan = _key_plan(leaf, fill, constants)
    return replace(plan, hash_buckets=spec.buckets, hash_seed=spec.seed), Item(torch.int64)


def _coded(leaf: SelectedLeaf, spec: Codes) -> tuple[ColumnPlan, Item]:
    kind = key_kind(leaf, "look up in a vocabulary")
    words: tuple[Any, ...] = tuple(spec.vocabulary)
    given = type(words[-1]).__name__
    if kind not in (None, given):
        raise SchemaError(
            f"Expected a vocabulary of {kind} for a column of type {leaf.type}, got one of {given} "
            f"- at column `{leaf.name}`"
        )
    codes = {word: code for code, word in enumerate(words)}
    constants = encode_constants(
        leaf, lambda value: encode_number(codes.get(value, spec.unknown), torch.int64)
    )
    if words[0] is None:
        words = (_unlisted(words[1:]), *words[1:])
    if given == "str":
        words = tuple(_encode(leaf.name, encode_text, word) for word in words)
    plan = _key_plan(leaf, encode_number(spec.unknown, torch.int64), constants)
    return replace(plan, vocabulary=words, unknown=spec.unknown), Item(torch.int64)


def _unlisted(words: tuple[Any, ...]) -> Any:
    """Return a value that is none of the words, for the core: its code 0 is that of the unknown."""
    listed = set(words)
    steps: dict[type, Any] = {str: "?", bytes: b"?", int: 1}
    kind = type(words[0])
    word, step = kind(), steps[kind]
    while word in listed:
        word += step
    return word


def key_kind(leaf: SelectedLeaf, what: str) -> Literal["str", "bytes", "int"] | None:
    """Return the kind of a leaf's values as keys; None if the column is all null."""
    stored = leaf.type
    if stored.kind == "str" or stored.kind == "bytes":
        return stored.kind
    if pa.types.is_integer(stored.arrow) or stored.is_whole_decimal:
        return "int"
    if stored.kind == "null":
        return None
    floats = pa.types.is_floating(stored.arrow)
    hint = " (pandas stores integers with nulls as floats: write them as Int64)" if floats else ""
    raise SchemaError(
        f"Expected strings, binary, integers or decimals of scale 0 to {what}, got {stored}{hint} "
        f"- at column `{leaf.name}`"
    )


def _key_plan(
    leaf: SelectedLeaf, fill: bytes | None, constants: tuple[bytes | None, ...]
) -> ColumnPlan:
    return ColumnPlan(leaf.name, leaf.indices, "int64", bytes=False, fill=fill, constants=constants)


def _encode(name: str, encode: Any, fill: Fill, *arguments: object) -> bytes:
    """Return `encode(fill, *arguments)`; append the column to the message of an error."""
    try:
        encoded: bytes = encode(fill, *arguments)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{error} - at column `{name}`") from None
    return encoded
