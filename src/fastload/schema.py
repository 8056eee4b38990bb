"""From the files' schema and the columns asked for to what the core decodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import torch

from fastload.columns import DTYPES, Column, Fill, Stack
from fastload.constants import encode_constants
from fastload.errors import SchemaError
from fastload.file_leaves import FileLeaves, SelectedLeaf
from fastload.fill import encode_bytes, encode_number
from fastload.selection import select
from fastload.survey import survey
from fastload.unify import multipliers

if TYPE_CHECKING:
    import builtins

    from fastload.leaf_types import LeafType
    from fastload.source import Source

__all__ = [
    "ColumnPlan",
    "Columns",
    "Field",
    "OutputPlan",
    "Projection",
    "Schema",
    "plan_columns",
]

Columns = None | Sequence[str] | Mapping[str, str | Column | Stack]
"""The `columns` argument: all, some by name, or output name -> name or spec."""


@dataclass(frozen=True, slots=True)
class Field:
    """One entry of a batch.

    dtype: of the tensor, or of the values of the `Ragged`.
    shape: of one row: () for a scalar, (F,) for a stack.
    ragged: a `Ragged` of values instead of a tensor.
    unit: "day", "s", "ms", "us" or "ns" for dates, times, timestamps and durations.
    kind: "str" or "bytes" for a `Ragged` whose rows are such; else None.
    """

    dtype: torch.dtype
    shape: tuple[int, ...] = ()
    ragged: bool = False
    unit: str | None = None
    kind: Literal["str", "bytes"] | None = None


class Schema(Mapping[str, Field]):
    """The fields of a batch by output name, in output order."""

    __slots__ = ("_fields",)

    def __init__(self, fields: Mapping[str, Field]) -> None:
        self._fields = dict(fields)

    def __getitem__(self, name: str) -> Field:
        return self._fields[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __repr__(self) -> str:
        lines = "".join(f"  {name!r}: {entry},\n" for name, entry in self._fields.items())
        return f"Schema({{\n{lines}}})"


@dataclass(frozen=True, slots=True)
class ColumnPlan:
    """How the core reads one leaf column; `ColumnSpec` of the core, member for member.

    leaves: its leaf index in each file, by file index; -1 = the file lacks it.
    fill: the bytes of one element (of the whole value for bytes); None = a null is an error.
    multipliers: from the integers of each file to those handed out; () = 1 in every file.
    constants: the value of each file that lacks it, as `fill`; () = null in all of them.
    """

    name: str
    leaves: tuple[int, ...]
    dtype: str
    bytes: bool
    fill: builtins.bytes | None
    cast: bool
    unscaled: bool
    exact: bool = False
    multipliers: tuple[int, ...] = ()
    constants: tuple[builtins.bytes | None, ...] = ()

    def constant(self, file: int) -> builtins.bytes | None:
        """What all rows of a file that lacks the column get; None = no fill for their nulls."""
        value = self.constants[file] if self.constants else None
        return self.fill if value is None else value


@dataclass(frozen=True, slots=True)
class OutputPlan:
    """One entry of a batch, and the indices of the column plans that it is made of."""

    name: str
    kind: Literal["column", "stack", "bytes", "valid", "file", "row", "real_row"]
    columns: tuple[int, ...]
    field: Field


@dataclass(frozen=True, slots=True)
class Projection:
    """All that the core decodes and hands out.

    row_bytes: estimated bytes of one decoded row, at least 1; exact for fixed-width columns.
    """

    columns: tuple[ColumnPlan, ...]
    outputs: tuple[OutputPlan, ...]
    row_bytes: int

    @property
    def schema(self) -> Schema:
        """The fields by output name."""
        return Schema({output.name: output.field for output in self.outputs})


def plan_columns(
    source: Source, columns: Columns = None, *, check_nulls: bool = True
) -> Projection:
    """Plans what is decoded for the columns asked for.

    columns: None = every column; a list of names ("a.b" for the field of a struct, "a" for all
        of its fields); or a mapping from output name to name, `Column` or `Stack`.
    check_nulls: refuse columns whose footers show nulls that have no fill. A caller whose
        filter may remove those rows says False.

    Raises `ColumnNotFoundError` with the nearest names; `SchemaError` when files disagree, or a
    column can't have the dtype asked for; `UnsupportedTypeError` for a nested column;
    `NullValueError`; `CorruptFileError` for a column chunk outside its file; `ValueError` or
    `TypeError` for wrong arguments.
    """
    files = FileLeaves(source)
    planner = _Planner(files)
    for output, spec, leaves in select(files, columns):
        if isinstance(spec, Stack):
            planner.add_stack(output, spec, leaves)
        else:
            planner.add_column(output, spec, leaves[0])
    return planner.finish(check_nulls=check_nulls)


@dataclass(slots=True)
class _Planner:
    """Gathers outputs; a leaf that is wanted twice in the same way is decoded once."""

    files: FileLeaves
    plans: dict[ColumnPlan, int] = field(default_factory=dict)
    outputs: dict[str, OutputPlan] = field(default_factory=dict)

    def add_column(self, output: str, spec: Column, leaf: SelectedLeaf) -> None:
        plan = _plan_leaf(leaf, spec.dtype, spec.fill, zero=spec.valid)
        columns = (self._index(plan),)
        if leaf.type.is_bytes:
            kind = leaf.type.kind
            assert kind in ("str", "bytes")
            entry = Field(torch.uint8, ragged=True, kind=kind)
            self._add(OutputPlan(output, "bytes", columns, entry))
        else:
            dtype = spec.dtype or leaf.type.dtype
            entry = Field(dtype, unit=leaf.type.unit)
            self._add(OutputPlan(output, "column", columns, entry))
        if spec.valid:
            entry = Field(torch.bool)
            self._add(OutputPlan(f"{output}__valid", "valid", columns, entry))

    def add_stack(self, output: str, spec: Stack, leaves: Sequence[SelectedLeaf]) -> None:
        for leaf in leaves:
            if leaf.type.is_bytes:
                raise SchemaError(
                    f"Expected numeric columns in Stack `{output}`, got {leaf.type.arrow} - at "
                    f"column `{leaf.name}`"
                )
        dtype = spec.dtype or _promote(output, leaves)
        columns = tuple(self._index(_plan_leaf(leaf, dtype, spec.fill)) for leaf in leaves)
        units = {leaf.type.unit for leaf in leaves}
        unit = units.pop() if len(units) == 1 else None
        entry = Field(dtype, shape=(len(columns),), unit=unit)
        self._add(OutputPlan(output, "stack", columns, entry))

    def finish(self, *, check_nulls: bool) -> Projection:
        plans = tuple(self.plans)
        value_bytes = survey(self.files.source.files, plans, check_nulls=check_nulls)
        row_bytes = 0
        rows = max(1, self.files.source.num_rows)
        for output in self.outputs.values():
            if output.kind == "bytes":
                # Eight bytes for the offset; values are shared out evenly, rounded up.
                row_bytes += 8 - (-value_bytes[output.columns[0]] // rows)
            else:
                row_bytes += len(output.columns) * output.field.dtype.itemsize
        return Projection(plans, tuple(self.outputs.values()), max(1, row_bytes))

    def _index(self, plan: ColumnPlan) -> int:
        return self.plans.setdefault(plan, len(self.plans))

    def _add(self, output: OutputPlan) -> None:
        if output.name in self.outputs:
            raise ValueError(f"Expected each output once, got `{output.name}` twice")
        self.outputs[output.name] = output


def _plan_leaf(
    leaf: SelectedLeaf, dtype: torch.dtype | None, fill: Fill | None, *, zero: bool = False
) -> ColumnPlan:
    """The plan of one leaf; `zero` puts 0 (or nothing) at nulls where no fill is given."""
    stored = leaf.type
    if stored.kind in ("str", "bytes"):
        if dtype is not None:
            raise SchemaError(
                f"Expected no dtype for a column of type {stored.arrow}, got {dtype} - at column "
                f"`{leaf.name}`"
            )
        encoded = b"" if zero else None
        if fill is not None:
            encoded = _encode(leaf.name, fill, stored)
        constants = encode_constants(leaf, torch.uint8)
        return ColumnPlan(
            leaf.name, leaf.indices, "uint8", True, encoded, False, False, constants=constants
        )
    wanted = dtype or stored.dtype
    if stored.kind == "decimal" and wanted == torch.bool:
        raise SchemaError(
            f"Expected a float or integer dtype for a column of type {stored.arrow}, got {wanted} "
            f"- at column `{leaf.name}`"
        )
    encoded = None
    if fill is not None:
        encoded = _encode(leaf.name, fill, stored, wanted)
    elif zero:
        encoded = bytes(wanted.itemsize)
    elif wanted.is_floating_point:
        encoded = encode_number(float("nan"), wanted)
    unscaled = stored.kind == "decimal" and not wanted.is_floating_point
    return ColumnPlan(
        leaf.name,
        leaf.indices,
        DTYPES[wanted],
        False,
        encoded,
        leaf.is_cast(wanted),
        unscaled,
        exact=dtype is None and leaf.widens_integers,
        multipliers=multipliers(leaf, unscaled=unscaled),
        constants=encode_constants(leaf, wanted),
    )


def _encode(name: str, fill: Fill, stored: LeafType, dtype: torch.dtype = torch.uint8) -> bytes:
    try:
        if stored.kind in ("str", "bytes"):
            return encode_bytes(fill, stored.kind)
        return encode_number(fill, dtype)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{error} - at column `{name}`") from None


def _promote(output: str, leaves: Sequence[SelectedLeaf]) -> torch.dtype:
    dtype = leaves[0].type.dtype
    for leaf in leaves[1:]:
        try:
            dtype = torch.promote_types(dtype, leaf.type.dtype)
        except RuntimeError:
            raise SchemaError(
                f"Expected columns of Stack `{output}` that torch promotes to one dtype, got "
                f"{dtype} and {leaf.type.dtype} (write Stack(..., dtype=...)) - at column "
                f"`{leaf.name}`"
            ) from None
    return dtype
