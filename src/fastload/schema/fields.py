"""The schema of a batch: a field for each output."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import torch

from fastload.runtime.hints import missing_attribute, nearest
from fastload.runtime.tables import table_html, table_text
from fastload.runtime.units import counted

__all__ = ["Field", "Schema"]

# Dtypes that torch stores, but has few operations for.
_STORED = (torch.uint16, torch.uint32, torch.uint64)
# Number of names of classes that a printed schema shows.
_SHOWN_NAMES = 4


@dataclass(frozen=True, slots=True)
class Field:
    """One entry of a batch of B rows.

    A tensor has the shape (B, *shape); the values of a `Ragged` have the shape (N, *shape).

    torch cannot add, compare for order, negate or shift uint16, uint32 and uint64 tensors, nor
    take their minimum, gather from them, or use them as indices and in an Embedding (torch
    2.13, CPU). torch can cast, copy, concatenate and sum such tensors. To compute with such a
    column, ask for a dtype that fits its values: `Column(name, dtype=torch.int64)`.

    Attributes:
        dtype: dtype of the tensor, or of the values of the `Ragged`.
        shape: shape of one row, or of one value of a `Ragged`: () for a scalar, (F,) for a stack,
            (length,) for a pad, (n,) or (n, m) for lists of fixed sizes, and the tensor's own
            shape for a fixed_shape_tensor.
        ragged: the entry is a `Ragged` of values instead of a tensor.
        unit: "day", "s", "ms", "us" or "ns" for dates, times, timestamps and durations.
        kind: "str" or "bytes" for a `Ragged` whose rows, or the elements of whose lists, are str
            or bytes; else None.
        depth: levels of lists of varying lengths around a value; 0 for plain columns, and for
            strings themselves.
        per: what has an entry: "row"; "document" for the edges of the documents of packed rows, a
            tensor (documents + 1,); or "batch" for a tensor of no dimension.
        names: names of the classes whose numbers are the values, of a `ClassLabel` of a Hugging
            Face dataset; () = the values are no labels. Two fields that differ in names alone
            are equal.
        nulls: number of nulls that the footers of the files show, before filters; 0 if there are
            none, or if the footers don't say. Two fields that differ in this number alone are
            equal.
    """

    dtype: torch.dtype
    shape: tuple[int, ...] = ()
    ragged: bool = False
    unit: str | None = None
    kind: Literal["str", "bytes"] | None = None
    depth: int = 0
    per: Literal["row", "document", "batch"] = "row"
    names: tuple[str, ...] = field(default=(), compare=False)
    nulls: int = field(default=0, compare=False)

    @property
    def item_bytes(self) -> int:
        """Number of bytes of one row of a tensor, or of one value of a `Ragged`."""
        return self.dtype.itemsize * math.prod(self.shape)

    @property
    def described(self) -> tuple[str, str, str]:
        """The type, the shape, and remarks, as a user reads them."""
        dtype = self.kind or str(self.dtype).removeprefix("torch.")
        sizes = "".join(f", {size}" for size in self.shape)
        if self.per != "row":
            shape = "(documents + 1,)" if self.per == "document" else "()"
        elif not self.ragged:
            shape = f"(B{sizes})" if sizes else "(B,)"
        elif not self.depth:
            shape = "Ragged"
        else:
            shape = "Ragged, lists" + " of lists" * (self.depth - 1)
            shape += f" of ({sizes[2:]})" if sizes else ""
        unit = f"in {self.unit}" if self.unit else ""
        nulls = counted(self.nulls, "null") if self.nulls else ""
        return dtype, shape, "; ".join(filter(None, (unit, self._classes, nulls, self.note)))

    @property
    def _classes(self) -> str:
        if not self.names:
            return ""
        first = ", ".join(self.names[:_SHOWN_NAMES])
        more = ", ..." if len(self.names) > _SHOWN_NAMES else ""
        return f"{counted(len(self.names), 'label')}: {first}{more}"

    @property
    def note(self) -> str:
        """Advice for a dtype with few torch operations: the dtype to ask for instead; else ""."""
        if self.dtype not in _STORED:
            return ""
        return "torch does not add, compare or index with this dtype: Column(dtype=torch.int64)"


class Schema(Mapping[str, Field]):
    """The fields of a batch by output name, in output order.

    Example:
        schema = FastParquetDataset("train", columns=["f1", "tokens"]).schema
        schema["f1"].dtype  # torch.float32
        schema["tokens"].ragged  # True

    Args:
        fields: the fields, by output name.
    """

    __slots__ = ("_fields",)

    def __init__(self, fields: Mapping[str, Field]) -> None:
        self._fields = dict(fields)

    def __getitem__(self, name: str) -> Field:
        if name not in self._fields:
            close = ", ".join(map(repr, nearest(name, self._fields) or list(self._fields)[:8]))
            raise KeyError(f"no output {name!r}; similar outputs: {close}")
        return self._fields[name]

    if not TYPE_CHECKING:  # type checkers refuse unknown attributes themselves

        def __getattr__(self, name: str) -> Any:
            return missing_attribute(
                self, name, default="write list(schema) for the names, schema[name] for a field"
            )

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    @property
    def lines(self) -> list[str]:
        """One aligned line for each output: its name, type and shape."""
        return table_text(self._rows)

    def __repr__(self) -> str:
        return "\n".join(
            [f"Schema of {counted(len(self), 'output')}", *("  " + line for line in self.lines)]
        )

    def _repr_html_(self) -> str:
        return table_html([["output"], ["type"], ["shape"], [""]], self._rows)

    @property
    def _rows(self) -> list[tuple[str, ...]]:
        return [(name, *entry.described) for name, entry in self._fields.items()]
