"""The outputs of a batch with all rows of a pyarrow Table, computed in the plainest way."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import torch

from fastload.batch.ragged import Ragged
from fastload.batch.tensor_views import assign
from fastload.runtime.native import core
from fastload.schema.columns import (
    Codes,
    Column,
    Fixed,
    Hash,
    LeafSpec,
    Pad,
    Spec,
    Stack,
    column_name,
    torch_dtype,
)
from support.expected_numbers import (
    ArrowLeaf,
    cast,
    in_unit,
    is_binary,
    is_text,
    leaves_of,
    numbers_of,
)

if TYPE_CHECKING:
    from fastload.schema.projection import Columns, Nulls

__all__ = ["ArrowOutput", "NullRule", "outputs_of"]


@dataclass(frozen=True, slots=True)
class ArrowOutput:
    """One output for all rows.

    Attributes:
        rows: a Tensor (B, ...) or a Ragged of B rows.
        any_nan: True if all NaNs are equal, because a cast may change the bits of a NaN.
    """

    rows: torch.Tensor | Ragged
    any_nan: bool = False


@dataclass(frozen=True, slots=True)
class NullRule:
    """A rule for nulls in columns that have no `fill` and no `valid` of their own.

    Attributes:
        nulls: the `nulls` argument of a dataset.
        names: names of the dataset's outputs. With nulls="mask", an output without nulls may have
            a `__valid` output: footers may not say that the column has no null, and count empty
            lists as nulls.
    """

    nulls: Nulls = "raise"
    names: Container[str] = ()

    @property
    def zero(self) -> bool:
        """True if a null becomes 0, False or an empty value."""
        return self.nulls in ("zero", "mask")

    def masks(self, output: str, *, has_nulls: bool) -> bool:
        """Return True if an output without a `fill` gets a `__valid` output beside it."""
        return self.nulls == "mask" and (has_nulls or f"{output}__valid" in self.names)


def outputs_of(
    table: Any, columns: Columns = None, rule: NullRule | None = None
) -> dict[str, ArrowOutput]:
    """Return the outputs of a table by name.

    Args:
        table: a pyarrow.Table.
        columns: the `columns` argument of a dataset.
        rule: what becomes of nulls; None = they raise, as with nulls="raise".

    Raises:
        KeyError: the table lacks a column.
        TypeError: the fill of a column, or of one that a struct or map holds, is of another kind
            than the column's values; or a column of `Pad` or `Fixed` holds no lists of numbers.
        ValueError: a column has nulls, and neither `columns` nor `rule` says what they become; or
            a list of `Fixed` has another length.
    """
    rule = rule or NullRule()
    leaves = leaves_of(table)
    outputs: dict[str, ArrowOutput] = {}
    for output, spec in _specs(leaves, columns):
        outputs.update(_outputs(output, spec, leaves, rule))
    return outputs


def _specs(leaves: Mapping[str, ArrowLeaf], columns: Columns) -> Iterator[tuple[str, Spec]]:
    if columns is None:
        columns = {"*": ...}
    if not isinstance(columns, Mapping):
        for entry in columns:
            one = Column(entry) if isinstance(entry, str) else entry
            assert not isinstance(one, Stack), "Expected a name for the output of a Stack"
            yield column_name(one), one
        return
    specs = {output: _spec(output, value) for output, value in columns.items()}
    for output, spec in specs.items():
        if spec is not None:
            yield output, spec
        else:
            named = _named(leaves, specs.values())
            yield from ((name, Column(name)) for name in leaves if name not in named)


def _named(leaves: Mapping[str, ArrowLeaf], specs: Iterable[Spec | None]) -> set[str]:
    named: set[str] = set()
    for spec in specs:
        if spec is not None:
            names = spec.names if isinstance(spec, Stack) else [column_name(spec)]
            named.update(leaf.name for name in names for leaf in _find(leaves, name))
    return named


def _spec(output: str, value: Any) -> Spec | None:
    if value is ...:
        return None
    if isinstance(value, Spec):
        return value
    if isinstance(value, (list, tuple)):
        return Stack(value)
    return Column(value) if isinstance(value, str) else Column(output, value)


def _outputs(
    output: str, spec: Spec, leaves: Mapping[str, ArrowLeaf], rule: NullRule
) -> Iterator[tuple[str, ArrowOutput]]:
    if isinstance(spec, Stack):
        found = [leaf for name in spec.names for leaf in _find(leaves, name)]
        fills = [spec.fill_of(leaf.name) for leaf in found]
        items = [
            _items(leaf, Column("*", spec.dtype, fill), rule)
            for leaf, fill in zip(found, fills, strict=True)
        ]
        yield output, ArrowOutput(torch.stack(items, 1), any_nan=True)
        valid = torch.stack([_valid(leaf) for leaf in found], 1)
        if None in fills and rule.masks(output, has_nulls=not bool(valid.all())):
            yield f"{output}__valid", ArrowOutput(valid)
        return
    name = column_name(spec)
    for leaf in _find(leaves, name):
        yield from _column(output + leaf.name[len(name) :], spec, leaf, rule)


def _find(leaves: Mapping[str, ArrowLeaf], name: str) -> list[ArrowLeaf]:
    if name in leaves:
        return [leaves[name]]
    found = [leaf for key, leaf in leaves.items() if key.startswith(f"{name}.")]
    if not found:
        raise KeyError(f"Expected a column of the table, got `{name}`")
    return found


def _column(
    output: str, spec: LeafSpec | Pad | Fixed, leaf: ArrowLeaf, rule: NullRule
) -> Iterator[tuple[str, ArrowOutput]]:
    lists = isinstance(spec, (Pad, Fixed))
    elements = spec.elements if isinstance(spec, (Pad, Fixed)) else spec
    any_nan = isinstance(elements, Column) and elements.dtype is not None
    rows = _rows(leaf, elements, rule, varying=lists)
    of_numbers = (
        isinstance(rows, Ragged) and not rows.kind and isinstance(rows.values, torch.Tensor)
    )
    if lists and not of_numbers:
        levels = "list of " * len(leaf.levels)
        raise TypeError(
            f"Expected one level of lists of numbers for {type(spec).__name__}, got "
            f"{levels}{leaf.values.type} - at column `{leaf.name}`"
        )
    if isinstance(spec, Pad) and isinstance(rows, Ragged):
        yield output, ArrowOutput(_padded(rows, spec), any_nan)
        lengths = rows.offsets.diff().clamp(max=spec.length)
        yield f"{output}__length", ArrowOutput(lengths)
        if spec.mask:
            ones = Ragged(torch.ones(len(rows.values), dtype=torch.bool), rows.offsets)
            mask = Pad("*", spec.length, value=False, side=spec.side, keep=spec.keep)
            yield f"{output}__mask", ArrowOutput(_padded(ones, mask))
    elif isinstance(spec, Fixed) and isinstance(rows, Ragged):
        lengths = rows.offsets.diff()[torch.from_numpy(leaf.valid)]
        for length in lengths[lengths != spec.size].tolist():
            raise ValueError(
                f"Expected lists of {spec.size} elements, got one of {length} - at column "
                f"`{leaf.name}`"
            )
        fill = _fill(leaf, elements, rows.dtype, rule)
        yield output, ArrowOutput(_padded(rows, Pad("*", spec.size, value=fill or 0)), any_nan)
    else:
        yield output, ArrowOutput(rows, any_nan)
    valid = _valid(leaf)
    # A null element of a list makes no row null, and yet gives the lists a mask.
    has_nulls = not bool(valid.all()) or leaf.values.null_count > 0
    asked = isinstance(elements, Column) and elements.valid
    filled = isinstance(elements, Codes) or elements.fill is not None
    if asked or (not filled and rule.masks(output, has_nulls=has_nulls)):
        yield f"{output}__valid", ArrowOutput(valid)


def _valid(leaf: ArrowLeaf) -> torch.Tensor:
    return torch.from_numpy(np.array(leaf.valid))


def _padded(rows: Ragged, spec: Pad) -> torch.Tensor:
    assert isinstance(rows.values, torch.Tensor)
    shape = (len(rows), spec.length, *rows.values.shape[1:])
    padded = rows.values.new_full(shape, spec.value)
    for to, items in zip(padded, rows, strict=True):
        kept = items[-spec.length :] if spec.keep == "last" else items[: spec.length]
        start = spec.length - len(kept) if spec.side == "left" else 0
        assign(to, torch.arange(start, start + len(kept), device="cpu"), kept)
    return padded


def _rows(
    leaf: ArrowLeaf, spec: LeafSpec, rule: NullRule, *, varying: bool
) -> torch.Tensor | Ragged:
    kind = leaf.values.type
    levels = list(leaf.levels)
    rows: torch.Tensor | Ragged
    if isinstance(spec, Column) and (is_text(kind) or is_binary(kind)):
        rows = _text(leaf, spec, rule)
    else:
        rows = _items(leaf, spec, rule)
        fill = _fill(leaf, spec, rows.dtype, rule)
        tensor = leaf.tensor
        while len(levels) > varying and levels[-1].size:
            lists = levels.pop()
            dense = rows.new_full((len(lists.lengths), lists.size, *rows.shape[1:]), fill or 0)
            filled = torch.from_numpy(lists.lengths > 0)
            assign(dense, filled, rows.reshape(-1, *dense.shape[1:]))
            rows = dense if tensor is None else _as_tensors(dense, tensor)
            tensor = None
    for lists in reversed(levels):
        rows = Ragged(rows, torch.from_numpy(np.concatenate([[0], np.cumsum(lists.lengths)])))
    return rows


def _as_tensors(lists: torch.Tensor, kind: Any) -> torch.Tensor:
    order = kind.permutation or range(len(kind.shape))
    tensors = lists.reshape(len(lists), *kind.shape)
    return tensors.permute(0, *(1 + dimension for dimension in order))


def _fill(leaf: ArrowLeaf, spec: LeafSpec, dtype: torch.dtype, rule: NullRule) -> float | None:
    """Return the number that replaces a null; None = no null may occur."""
    if isinstance(spec, Codes):
        return spec.unknown
    if spec.fill is not None:
        if isinstance(spec, Hash):
            return _bucket(spec, spec.fill)
        if isinstance(spec.fill, (str, bytes)):
            raise _wrong_fill("a number", spec.fill, leaf)
        return spec.fill
    if isinstance(spec, Column) and spec.valid:
        return 0
    if dtype.is_floating_point and rule.nulls == "nan":
        return float("nan")
    return 0 if rule.zero else None


def _wrong_fill(expected: str, fill: object, leaf: ArrowLeaf) -> TypeError:
    return TypeError(f"Expected {expected} as fill, got {fill!r} - at column `{leaf.name}`")


def _items(leaf: ArrowLeaf, spec: LeafSpec, rule: NullRule) -> torch.Tensor:
    """Return the elements of a leaf as numbers (N,)."""
    if isinstance(spec, Column):
        dtype = torch_dtype(spec.dtype)
        unscaled = dtype is not None and not dtype.is_floating_point
        values = leaf.values if spec.unit is None else in_unit(leaf.values, spec.unit)
        items = cast(numbers_of(values, unscaled=unscaled), dtype)
    else:
        items = _keys(leaf.values, spec)
    nulls = leaf.values.is_null().to_numpy(zero_copy_only=False)
    fill = _fill(leaf, spec, items.dtype, rule)
    if nulls.any():
        _check_fill(leaf, fill)
        assign(items, torch.from_numpy(nulls), torch.tensor(fill, dtype=items.dtype, device="cpu"))
    return items


def _check_fill(leaf: ArrowLeaf, fill: object) -> None:
    if fill is None:
        raise ValueError(
            "Expected no nulls, got some: pass columns= with fill= or valid=True for them, as the "
            'dataset has; with nulls="nan", "zero" or "mask", pass the dataset or its loader, not '
            f"batches kept from either - at column `{leaf.name}`"
        )


def _keys(values: Any, spec: Hash | Codes) -> torch.Tensor:
    """Return the bucket or code of each value; 0 for null."""
    if is_text(values.type) or is_binary(values.type):
        values = values.cast(pa.large_binary())
    encoded = values.dictionary_encode()
    words = encoded.dictionary.to_pylist()
    if isinstance(spec, Hash):
        codes = [_bucket(spec, word) for word in words]
    else:
        vocabulary = (w.encode() if isinstance(w, str) else w for w in spec.vocabulary)
        code_of = {word: index for index, word in enumerate(vocabulary)}
        codes = [code_of.get(word, spec.unknown) for word in words]
    indices = encoded.indices.fill_null(0).to_numpy(zero_copy_only=False)
    return torch.tensor([*codes, 0], dtype=torch.int64, device="cpu")[
        torch.from_numpy(indices.astype(np.int64))
    ]


def _bucket(spec: Hash, word: Any) -> int:
    if isinstance(word, int):
        data = (word % 2**64).to_bytes(8, "little")
    else:
        data = word.encode() if isinstance(word, str) else word
    return core.xxhash64(data, spec.seed) % spec.buckets


def _text(leaf: ArrowLeaf, spec: Column, rule: NullRule) -> Ragged:
    values = leaf.values
    kind = values.type
    fill = b"" if spec.valid or rule.zero else None
    if spec.fill is not None:
        if not isinstance(spec.fill, (str, bytes)):
            raise _wrong_fill("str or bytes", spec.fill, leaf)
        fill = spec.fill.encode() if isinstance(spec.fill, str) else spec.fill
    values = values.cast(pa.large_binary())
    if values.null_count:
        _check_fill(leaf, fill)
        values = values.fill_null(fill)
    _, offsets, data = values.buffers()
    offsets = np.frombuffer(offsets or bytes(8), np.int64)
    offsets = offsets[values.offset : values.offset + len(values) + 1]
    data = np.frombuffer(data or b"", np.uint8)
    return Ragged(
        torch.from_numpy(np.array(data)),
        torch.from_numpy(np.array(offsets)),
        "str" if is_text(kind) else "bytes",
    )
