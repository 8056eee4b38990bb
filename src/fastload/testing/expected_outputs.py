"""The outputs of a batch with all rows of a pyarrow Table, computed in the plainest way."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import torch

from fastload.batch.ragged import Ragged
from fastload.batch.tensor_views import assign
from fastload.runtime.native import core
from fastload.schema.columns import Codes, Column, Hash, Pad, Spec, Stack, column_name
from fastload.testing.expected_leaves import ArrowLeaf, leaves_of
from fastload.testing.expected_numbers import cast, is_binary, is_text, numbers_of

if TYPE_CHECKING:
    from fastload.schema.projection import Columns

__all__ = ["ArrowOutput", "outputs_of"]


@dataclass(frozen=True, slots=True)
class ArrowOutput:
    """One output for all rows.

    Attributes:
        rows: a Tensor (B, ...) or a Ragged of B rows.
        any_nan: True if all NaNs are equal, because a cast may change the bits of a NaN.
    """

    rows: torch.Tensor | Ragged
    any_nan: bool = False


def outputs_of(table: Any, columns: Columns = None) -> dict[str, ArrowOutput]:
    """Return the outputs of a table by name.

    Args:
        table: a pyarrow.Table.
        columns: the `columns` argument of a dataset.

    Raises:
        KeyError: the table lacks a column.
        ValueError: a column has nulls, and `columns` has no fill for the nulls.
    """
    leaves = leaves_of(table)
    specs: Mapping[str, str | Spec]
    if columns is None:
        specs = {name: Column(name) for name in leaves}
    elif isinstance(columns, Mapping):
        specs = columns
    else:
        specs = {name: name for name in columns}
    outputs: dict[str, ArrowOutput] = {}
    for output, spec in specs.items():
        outputs.update(_outputs(output, Column(spec) if isinstance(spec, str) else spec, leaves))
    return outputs


def _outputs(
    output: str, spec: Spec, leaves: Mapping[str, ArrowLeaf]
) -> Iterator[tuple[str, ArrowOutput]]:
    if isinstance(spec, Stack):
        found = [leaf for name in spec.names for leaf in _find(leaves, name)]
        stored = [cast(numbers_of(leaf.values[:0]), None).dtype for leaf in found]
        dtype = spec.dtype or functools.reduce(torch.promote_types, stored)
        items = [_items(leaf, Column("*", dtype, spec.fill)) for leaf in found]
        yield output, ArrowOutput(torch.stack(items, 1), any_nan=True)
        return
    name = column_name(spec)
    for leaf in _find(leaves, name):
        yield from _column(output + leaf.name[len(name) :], spec, leaf)


def _find(leaves: Mapping[str, ArrowLeaf], name: str) -> list[ArrowLeaf]:
    if name in leaves:
        return [leaves[name]]
    found = [leaf for key, leaf in leaves.items() if key.startswith(f"{name}.")]
    if not found:
        raise KeyError(f"Expected a column of the table, got `{name}`")
    return found


def _column(
    output: str, spec: Column | Pad | Hash | Codes, leaf: ArrowLeaf
) -> Iterator[tuple[str, ArrowOutput]]:
    elements = spec.elements if isinstance(spec, Pad) else spec
    any_nan = isinstance(elements, Column) and elements.dtype is not None
    rows = _rows(leaf, elements, varying=isinstance(spec, Pad))
    if isinstance(spec, Pad):
        assert isinstance(rows, Ragged), f"Expected lists for Pad, got none - at `{leaf.name}`"
        yield output, ArrowOutput(rows.to_padded(spec.value, spec.length), any_nan)
        lengths = rows.offsets.diff().clamp(max=spec.length)
        yield f"{output}__length", ArrowOutput(lengths)
    else:
        yield output, ArrowOutput(rows, any_nan)
    if isinstance(elements, Column) and elements.valid:
        yield f"{output}__valid", ArrowOutput(torch.from_numpy(np.array(leaf.valid)))


def _rows(leaf: ArrowLeaf, spec: Column | Hash | Codes, *, varying: bool) -> torch.Tensor | Ragged:
    kind = leaf.values.type
    levels = list(leaf.levels)
    rows: torch.Tensor | Ragged
    if isinstance(spec, Column) and (is_text(kind) or is_binary(kind)):
        rows = _text(leaf, spec)
    else:
        rows = _items(leaf, spec)
        fill = _fill(leaf, spec, rows.dtype)
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


def _fill(leaf: ArrowLeaf, spec: Column | Hash | Codes, dtype: torch.dtype) -> float | None:
    """Return the number that replaces a null; None = no null may occur."""
    if isinstance(spec, Codes):
        return spec.unknown
    if spec.fill is not None:
        if isinstance(spec, Hash):
            return _bucket(spec, spec.fill)
        assert not isinstance(spec.fill, (str, bytes)), f"Expected a number for `{leaf.name}`"
        return spec.fill
    if isinstance(spec, Column) and spec.valid:
        return 0
    return float("nan") if dtype.is_floating_point else None


def _items(leaf: ArrowLeaf, spec: Column | Hash | Codes) -> torch.Tensor:
    """Return the elements of a leaf as numbers (N,)."""
    if isinstance(spec, Column):
        unscaled = spec.dtype is not None and not spec.dtype.is_floating_point
        items = cast(numbers_of(leaf.values, unscaled=unscaled), spec.dtype)
    else:
        items = _keys(leaf.values, spec)
    nulls = leaf.values.is_null().to_numpy(zero_copy_only=False)
    fill = _fill(leaf, spec, items.dtype)
    if nulls.any():
        _check_fill(leaf, fill)
        assign(items, torch.from_numpy(nulls), torch.tensor(fill, dtype=items.dtype, device="cpu"))
    return items


def _check_fill(leaf: ArrowLeaf, fill: object) -> None:
    if fill is None:
        raise ValueError(
            f"Expected no nulls, or fill= or valid=True for them - at column `{leaf.name}`"
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


def _text(leaf: ArrowLeaf, spec: Column) -> Ragged:
    values = leaf.values
    kind = values.type
    fill = b"" if spec.valid else None
    if spec.fill is not None:
        assert isinstance(spec.fill, (str, bytes)), f"Expected str or bytes for `{leaf.name}`"
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
