"""The projection: what the core decodes for the columns that the user asks for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

import torch

from fastload.errors import NullValueError, SchemaError
from fastload.schema.column_plan import ColumnPlan, Item, plan_leaf, row_major
from fastload.schema.columns import (
    Codes,
    Column,
    DType,
    Fixed,
    LeafSpec,
    Pad,
    Spec,
    Stack,
    torch_dtype,
)
from fastload.schema.encoded_values import encode_number
from fastload.schema.fields import Field, Schema
from fastload.schema.image import Image
from fastload.schema.leaves import FileLeaves, SelectedLeaf
from fastload.schema.resolve_names import select
from fastload.schema.sizes import PlanSizes, survey

if TYPE_CHECKING:
    from fastload.source.source import Source

__all__ = ["PACKED_KINDS", "Columns", "Nulls", "OutputPlan", "Projection", "plan_columns"]

Columns = (
    None
    | Sequence[str | Spec]
    | Mapping[str, str | Spec]
    | Mapping[str, str | Spec | DType | Sequence[str] | Any]
)
"""The `columns` argument: None for all, a list of names and specs, or a mapping."""

Nulls = Literal["raise", "nan", "zero", "mask"]
"""The `nulls` argument: what becomes of nulls in columns without `fill` and `valid`."""

OutputKind = Literal[
    "column",
    "stack",
    "list",
    "pad",
    "mask",
    "ragged",
    "valid",
    "stack_valid",
    "length",
    "file",
    "row",
    "real_row",
    "computed",
    "first",
    "document",
    "position",
    "edges",
    "longest",
    "first_file",
    "first_row",
    "first_item",
    "first_real",
]

PACKED_KINDS: frozenset[str] = frozenset(get_args(OutputKind)[-8:])
"""The kinds of outputs that are made of the segments of packed rows."""


@dataclass(frozen=True, slots=True)
class OutputPlan:
    """The plan of one entry of a batch.

    Attributes:
        name: name of the output.
        kind: kind of the core's `OutputSpec`.
        columns: indices of the column plans from which the output is made.
        field: field of the output.
        length: length of a "pad" or "mask", or the largest number that a "length" output counts
            to; elements of a packed row of a "ragged" output, 0 = rows are not packed.
        pad: the bytes of the element written where a list is shorter than `length`, or at the
            padding of packed rows.
        keep_last: a list longer than `length` keeps its last elements.
        pad_left: a list shorter than `length` is padded on the left.
        strides: elements from one entry to the next in each dimension of `field.shape`; () =
            row-major.
        hidden: the output is not put into the batch.
    """

    name: str
    kind: OutputKind
    columns: tuple[int, ...]
    field: Field
    length: int = 0
    pad: bytes = b""
    keep_last: bool = False
    pad_left: bool = False
    strides: tuple[int, ...] = ()
    hidden: bool = False

    @property
    def row_major(self) -> bool:
        """True if the elements of a row, or of a value, lie in row-major order."""
        return self.strides in ((), row_major(self.field.shape))


@dataclass(frozen=True, slots=True)
class Projection:
    """All that the core decodes and hands out.

    row_bytes: estimated bytes of one decoded row, at least 1; exact for fixed-width columns.
    staged_row_bytes: estimated bytes of a row that wait beside it until the size of their
        batch is known: lists and strings.
    refusal: why a pass over all rows would raise NullValueError; "" if footers show no null that
        is an error.
    """

    columns: tuple[ColumnPlan, ...]
    outputs: tuple[OutputPlan, ...]
    row_bytes: int
    staged_row_bytes: int
    refusal: str = ""

    @property
    def schema(self) -> Schema:
        """Fields of the batch, by output name."""
        return Schema({output.name: output.field for output in self.outputs})


def plan_columns(
    source: Source,
    columns: Columns = None,
    *,
    exclude: Iterable[str] = (),
    nulls: Nulls = "raise",
    check_nulls: bool = True,
) -> Projection:
    """Plan what the core decodes for the columns that the user asks for.

    Args:
        source: the files.
        columns: None for every column; a list of names ("a.b" for a field of a struct, "a" for
            all fields of the struct) and specs; or a mapping from output name to name, spec,
            dtype or list of names, in which "*" with `...` stands for every other column.
        exclude: names of columns and structs to leave out.
        nulls: what becomes of nulls in columns without `fill` and `valid` of their own. "raise":
            an error. "nan": NaN in floats, otherwise an error. "zero": 0, False or empty. "mask":
            as "zero", and `<output>__valid` beside each output whose footers show a null
            or don't say: a bool tensor (B,), or (B, F) for a Stack.
        check_nulls: refuse columns whose footers show nulls for which no fill is given.

    Raises:
        ColumnNotFoundError: a column does not exist; the message lists the nearest names.
        SchemaError: files disagree on a type, or a column cannot become what its spec asks for.
        UnsupportedTypeError: the type of a column is not supported.
        NullValueError: a column has nulls and no fill.
        CorruptFileError: a column chunk lies outside its file.
        ValueError, TypeError: an argument is wrong.
    """
    files = FileLeaves(source)
    planner = _Planner(files, nulls)
    for output, spec, leaves in select(files, columns, exclude):
        if isinstance(spec, Stack):
            planner.add_stack(output, spec, leaves)
        elif isinstance(spec, Image):
            planner.add_image(output, spec, leaves[0])
        elif isinstance(spec, (Pad, Fixed)):
            planner.add_pad(output, spec, leaves[0])
        else:
            planner.add_column(output, spec, leaves[0])
    return planner.finish(check_nulls=check_nulls)


@dataclass(slots=True)
class _Planner:
    """The outputs planned so far; two outputs of the same leaf and spec share one column plan.

    Attributes:
        files: the leaf columns of all files.
        nulls: as for `plan_columns`.
        plans: the planned columns, and their indices.
        outputs: the planned outputs; their names are compared at the end.
        masks: indices of the `__valid` outputs that stay only if a null is possible.
        images: indices of the plans of encoded images.
    """

    files: FileLeaves
    nulls: Nulls
    plans: dict[ColumnPlan, int] = field(default_factory=dict)
    outputs: list[OutputPlan] = field(default_factory=list)
    masks: set[int] = field(default_factory=set)
    images: set[int] = field(default_factory=set)

    def add_column(self, output: str, spec: LeafSpec, leaf: SelectedLeaf) -> None:
        plan, item = self._plan(leaf, spec)
        columns = (self._index(plan),)
        ragged = plan.bytes or plan.depth > 0
        kind: OutputKind = "ragged" if ragged else "list" if plan.list_size else "column"
        names = _names_of(leaf, spec, item)
        entry = Field(item.dtype, item.shape, ragged, item.unit, item.kind, plan.depth, names=names)
        self.outputs.append(OutputPlan(output, kind, columns, entry, strides=item.strides))
        self._add_valid(output, spec, columns)

    def add_image(self, output: str, spec: Image, leaf: SelectedLeaf) -> None:
        """Add the encoded images, which a step replaces by pixels under the same name."""
        masked = spec.broken == "mask"
        plan, item = plan_leaf(leaf, Column(_UNNAMED), zero=masked, varying=False)
        if item.kind != "bytes" or plan.depth:
            raise SchemaError(
                f"Expected a binary column, or a struct with a binary field `bytes`, for Image "
                f"`{output}`, got {leaf.type} - at column `{leaf.name}`"
            )
        columns = (self._index(plan),)
        self.images.update(columns)
        entry = Field(item.dtype, ragged=True, kind=item.kind)
        self.outputs.append(OutputPlan(output, "ragged", columns, entry))
        if masked:
            valid = OutputPlan(f"{output}__valid", "valid", columns, Field(torch.bool))
            self.outputs.append(valid)

    def add_pad(self, output: str, spec: Pad | Fixed, leaf: SelectedLeaf) -> None:
        plan, item = self._plan(leaf, spec.elements, varying=True)
        owner = type(spec).__name__
        if plan.bytes:
            raise SchemaError(
                f"Expected lists of numbers for {owner} `{output}`, got {leaf.type}; "
                f"{owner}(Hash(...), ...) and {owner}(Codes(...), ...) turn them into integers - "
                f"at column `{leaf.name}`"
            )
        if plan.depth != 1:
            way = "; read the column by its name, and write ragged.to_padded(), for every level"
            raise SchemaError(
                f"Expected one level of lists of varying lengths for {owner} `{output}`, got "
                f"{leaf.type}{way if plan.depth else ''} - at column `{leaf.name}`"
            )
        names = _names_of(leaf, spec.elements, item)
        if isinstance(spec, Fixed):
            self._add_fixed(output, spec, plan, item, names)
            return
        try:
            pad = encode_number(spec.value, item.dtype, "value of Pad")
        except ValueError as error:
            raise ValueError(f"{error} - at column `{leaf.name}`") from None
        columns = (self._index(plan),)
        sides: Any = {"keep_last": spec.keep == "last", "pad_left": spec.side == "left"}
        entry = Field(item.dtype, (spec.length, *item.shape), unit=item.unit, names=names)
        strides = _strides_of_lists(plan, item)
        self.outputs.append(
            OutputPlan(output, "pad", columns, entry, spec.length, pad, strides=strides, **sides)
        )
        length = f"{output}__length"
        self.outputs.append(OutputPlan(length, "length", columns, Field(torch.int64), spec.length))
        if spec.mask:
            entry = Field(torch.bool, (spec.length,))
            mask = f"{output}__mask"
            self.outputs.append(OutputPlan(mask, "mask", columns, entry, spec.length, **sides))
        self._add_valid(output, spec.elements, columns)

    def _add_fixed(
        self, output: str, spec: Fixed, plan: ColumnPlan, item: Item, names: tuple[str, ...]
    ) -> None:
        columns = (self._index(replace(plan, list_items=spec.size)),)
        # A null list has no elements, so the whole row becomes `pad`.
        pad = plan.fill if plan.fill is not None else bytes(item.dtype.itemsize)
        entry = Field(item.dtype, (spec.size, *item.shape), unit=item.unit, names=names)
        strides = _strides_of_lists(plan, item)
        self.outputs.append(
            OutputPlan(output, "pad", columns, entry, spec.size, pad, strides=strides)
        )
        self._add_valid(output, spec.elements, columns)

    def add_stack(self, output: str, spec: Stack, leaves: Sequence[SelectedLeaf]) -> None:
        for leaf in leaves:
            if leaf.type.is_bytes or leaf.type.list_sizes:
                remedy = "Pad or Fixed" if leaf.type.list_sizes else "Codes or Hash"
                raise SchemaError(
                    f"Expected numeric columns in Stack `{output}`, got {leaf.type}: use {remedy} "
                    f"in an output of its own - at column `{leaf.name}`"
                )
        dtype = torch_dtype(spec.dtype)
        assert dtype is not None, "Stack checks its dtype"
        fills = [spec.fill_of(leaf.name) for leaf in leaves]
        plans = [
            self._plan(leaf, Column(_UNNAMED, dtype, fill))[0]
            for leaf, fill in zip(leaves, fills, strict=True)
        ]
        columns = tuple(map(self._index, plans))
        units = {leaf.type.unit for leaf in leaves}
        unit = units.pop() if len(units) == 1 else None
        entry = Field(dtype, shape=(len(columns),), unit=unit)
        self.outputs.append(OutputPlan(output, "stack", columns, entry))
        if self.nulls == "mask" and None in fills:
            entry = Field(torch.bool, shape=(len(columns),))
            self.masks.add(len(self.outputs))
            self.outputs.append(OutputPlan(f"{output}__valid", "stack_valid", columns, entry))

    def finish(self, *, check_nulls: bool) -> Projection:
        plans = tuple(self.plans)
        stacks = (output for output in self.outputs if output.kind == "stack")
        stacked = {column for output in stacks for column in output.columns}
        sizes, refusal = survey(self.files, plans, stacked, self.images)
        if refusal and check_nulls:
            raise NullValueError(refusal)
        kept = [
            index
            for index, output in enumerate(self.outputs)
            if index not in self.masks or any(sizes[c].may_be_null for c in output.columns)
        ]
        outputs = [_counting(self.outputs[index], sizes) for index in kept]
        added = {self.outputs[index].name for index in self.masks.intersection(kept)}
        _refuse_equal_names([output.name for output in outputs], added)
        rows = max(1, self.files.source.num_rows)
        row_bytes = sum(
            sizes[output.columns[0]].ragged_bytes(plans[output.columns[0]], rows)
            if output.kind == "ragged"
            else output.field.item_bytes
            for output in outputs
        )
        staged = sum(size.staged_bytes(plan, rows) for size, plan in zip(sizes, plans, strict=True))
        return Projection(plans, tuple(outputs), max(1, row_bytes), staged, refusal)

    def _plan(
        self, leaf: SelectedLeaf, spec: LeafSpec, *, varying: bool = False
    ) -> tuple[ColumnPlan, Item]:
        if isinstance(spec, Column) and spec.valid:
            return plan_leaf(leaf, spec, zero=True, varying=varying)
        zero, nan = self.nulls in ("zero", "mask"), self.nulls == "nan"
        return plan_leaf(leaf, spec, zero=zero, nan=nan, varying=varying)

    def _add_valid(self, output: str, spec: LeafSpec, columns: tuple[int, ...]) -> None:
        """Add the `__valid` output of an output, if its spec or `nulls` asks for one."""
        valid = f"{output}__valid"
        asked = isinstance(spec, Column) and spec.valid
        if not asked:
            if self.nulls != "mask" or isinstance(spec, Codes) or spec.fill is not None:
                return
            self.masks.add(len(self.outputs))
        self.outputs.append(OutputPlan(valid, "valid", columns, Field(torch.bool)))

    def _index(self, plan: ColumnPlan) -> int:
        return self.plans.setdefault(plan, len(self.plans))


def _counting(output: OutputPlan, sizes: Sequence[PlanSizes]) -> OutputPlan:
    """Return an output whose field tells how many nulls the footers show."""
    nulls = sum(sizes[column].nulls for column in output.columns)
    if not nulls or output.kind in ("valid", "stack_valid"):
        return output
    return replace(output, field=replace(output.field, nulls=nulls))


# Placeholder for the name of a Column in a Stack or Image: the name of the leaf is used instead.
_UNNAMED = "*"


def _refuse_equal_names(names: Sequence[str], added: Container[str]) -> None:
    """Raise ValueError if two outputs have one name.

    Args:
        names: the names of all outputs.
        added: the names of the `__valid` outputs that nulls="mask" adds.
    """
    name, times = Counter(names).most_common(1)[0] if names else ("", 0)
    if times > 1:
        way_out = (
            f' by a column and by nulls="mask" (which head() sets): exclude=["{name}"] leaves the '
            "column out, and columns={...} can give it another name"
        )
        raise ValueError(f"Output name `{name}` is used twice{way_out if name in added else ''}")


def _names_of(leaf: SelectedLeaf, spec: LeafSpec, item: Item) -> tuple[str, ...]:
    """Return the names of classes that an output's values are numbers of."""
    keeps = isinstance(spec, Column) and item.kind is None and item.dtype != torch.bool
    return leaf.names if keeps and not item.dtype.is_floating_point else ()


def _strides_of_lists(plan: ColumnPlan, item: Item) -> tuple[int, ...]:
    return (max(1, plan.list_size), *item.strides) if item.strides else ()
