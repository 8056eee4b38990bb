"""Batches by tokens: documents packed into rows of equal size, and budgets of tokens."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

import torch

from fastload.errors import ColumnNotFoundError, SchemaError
from fastload.runtime.hints import hinted, nearest
from fastload.schema.argument_checks import check_choice, check_int
from fastload.schema.columns import (
    Codes,
    Column,
    Hash,
    check_elements,
    column_name,
)
from fastload.schema.encoded_values import encode_number
from fastload.schema.fields import Field
from fastload.schema.projection import OutputPlan, Projection
from fastload.schema.sizes import OFFSET_BYTES

if TYPE_CHECKING:
    from fastload.schema.projection import Columns

__all__ = ["Pack", "TokenBudget", "columns_of_pack", "lists_of", "packed"]

# Outputs with an element for each token of a packed row.
_OF_TOKENS = ("document", "position")
# Outputs that are added to another output.
_COMPANIONS = ("length", "mask", "valid", "stack_valid")
_MOST = 2**31 - 1  # of tokens and rows
Number = bool | int | float


@hinted()
@dataclass(frozen=True, slots=True)
class Pack:
    """Documents (lists of tokens) packed into rows of exactly `length` tokens.

    A batch then has `batch_size` packed rows. Its outputs, for R rows of T = `length` tokens:

    - the packed column and each column of `along`, as tensors (R, T);
    - `<out>__document`, int32 (R, T): number of the token's document in its row, -1 at padding;
    - `<out>__position`, int32 (R, T): number of the token in its document, as far as the document
      stands in this row; 0 at padding;
    - `<out>__cu_seqlens`, int32 (documents + 1,): where documents begin, counted over the R * T
      tokens of the batch, with R * T at the end, less than 2**31; padding counts as a document;
    - `<out>__max_seqlen`, int32 (): tokens of the longest of these documents.

    Padding stands at the end of a row. The two last outputs are what attention kernels for
    sequences of varying lengths take; attention across documents is never meant.

    Example:
        ds = FastParquetDataset("tokens", pack=Pack("input_ids", 8192), batch_size=8, shuffle=True)
        next(iter(ds))["input_ids"].shape  # (8, 8192)

    Args:
        column: name of the output to pack, or a `Column`, `Hash` or `Codes` that names the column
            of the files and decides the form of its tokens.
        length: number of tokens of a packed row, at least 1.
        along: names of further outputs, such as labels or a loss mask, whose lists are as long as
            those of `column` and are cut alike.
        fit: the way documents are packed. "best": whole documents, by best fit (decreasing)
            within a shuffle window. "split": one stream of all documents, cut every `length`
            tokens, so that only the last row of an epoch has padding.
        long: what becomes of a document longer than `length`. "split": the document is cut every
            `length` tokens. "truncate": its first `length` tokens are kept. "drop": the document
            is left out. "raise": an error when the dataset is made.
        pad: number written at padding; or a mapping of outputs to numbers, 0 for all others.

    Raises:
        TypeError, ValueError: an argument has the wrong type or an invalid value.
    """

    column: str | Column | Hash | Codes
    length: int
    along: Sequence[str] = field(default=(), kw_only=True)
    fit: Literal["best", "split"] = field(default="best", kw_only=True)
    long: Literal["split", "truncate", "drop", "raise"] = field(default="split", kw_only=True)
    pad: Number | Mapping[str, Number] = field(default=0, kw_only=True)

    def __post_init__(self) -> None:
        check_elements("Pack", self.column)
        check_int("length of Pack", self.length, 1, _MOST)
        check_choice("fit of Pack", self.fit, ("best", "split"))
        check_choice("long of Pack", self.long, ("split", "truncate", "drop", "raise"))
        if isinstance(self.along, str) or not all(isinstance(name, str) for name in self.along):
            raise TypeError(f"Expected along of Pack as a list of output names, got {self.along!r}")
        object.__setattr__(self, "along", tuple(self.along))
        pads = self.pad if isinstance(self.pad, Mapping) else {self.output: self.pad}
        if not all(isinstance(pad, (bool, int, float)) for pad in pads.values()):
            raise TypeError(f"Expected pad of Pack as a number or a mapping, got {self.pad!r}")
        for name in pads:
            if name not in self.outputs:
                raise ValueError(
                    f"Expected pad of Pack for {' and '.join(self.outputs)}, got one for {name!r}"
                )

    @property
    def output(self) -> str:
        """Name of the packed output."""
        return self.column if isinstance(self.column, str) else column_name(self.column)

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of all outputs of lists."""
        return (self.output, *self.along)

    def pad_of(self, output: str) -> Number:
        """Return the number written at the padding of an output."""
        return self.pad.get(output, 0) if isinstance(self.pad, Mapping) else self.pad


@hinted()
@dataclass(frozen=True, slots=True)
class TokenBudget:
    """A `batch_size` by tokens: as many whole rows as fit a number of tokens.

    Rows lie in a batch of one shuffle window, so the last batch of a window may be small. Batches
    differ in their number of rows; every rank gets as many batches.

    Example:
        ds = FastParquetDataset("tokens", batch_size=TokenBudget("input_ids", 65536), shuffle=True)
        next(iter(ds))["input_ids"].offsets[-1]  # at most 65536

    Args:
        column: name of the output whose lists are counted.
        tokens: the most tokens of a batch, at least 1.
        padded: count rows x the longest row, as a model takes a batch that is padded. Rows of
            like lengths within a window then form a batch, and batches come in random order.
        max_rows: the most rows of a batch; None = any number.
        long: what becomes of a row longer than `tokens`. "raise": an error when the dataset is
            made, which names the row. "alone": the row is a batch of its own.

    Raises:
        TypeError, ValueError: an argument has the wrong type or an invalid value.
    """

    column: str
    tokens: int
    padded: bool = field(default=False, kw_only=True)
    max_rows: int | None = field(default=None, kw_only=True)
    long: Literal["raise", "alone"] = field(default="raise", kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.column, str):
            raise TypeError(
                f"Expected column of TokenBudget as the name of an output, got {self.column!r}"
            )
        check_int("tokens of TokenBudget", self.tokens, 1, _MOST)
        if self.max_rows is not None:
            check_int("max_rows of TokenBudget", self.max_rows, 1, _MOST)
        if not isinstance(self.padded, bool):
            raise TypeError(f"Expected padded of TokenBudget as a bool, got {self.padded!r}")
        check_choice("long of TokenBudget", self.long, ("raise", "alone"))


def columns_of_pack(pack: Pack, columns: Columns) -> Columns:
    """Return the `columns` argument of a dataset that is packed; None selects the packed lists."""
    if columns is not None:
        if not isinstance(pack.column, str):
            raise ValueError(
                f"Expected the name of an output as the column of Pack beside columns=, got "
                f"{pack.column!r}: write the spec in columns="
            )
        return columns
    return [pack.column, *pack.along]


def lists_of(projection: Projection, output: str, owner: str) -> OutputPlan:
    """Return the plan of an output that holds lists of varying lengths of fixed-width items.

    Raises:
        ColumnNotFoundError: there is no such output.
        SchemaError: the output is something else.
    """
    plans = {plan.name: plan for plan in projection.outputs}
    if output not in plans:
        close = nearest(output, plans)
        names = ", ".join(f"`{name}`" for name in close or list(plans)[:8])
        remedy = f"the nearest is {names}" if len(close) == 1 else f"the outputs include {names}"
        raise ColumnNotFoundError(
            f"Expected an output that {owner} names, got no `{output}`; {remedy}. If `{output}` "
            "is a column of the files, name it in columns= too"
        )
    plan = plans[output]
    if plan.kind != "ragged" or plan.field.depth != 1 or plan.field.kind is not None:
        dtype, shape, _ = plan.field.described
        raise SchemaError(
            f"Expected lists of numbers of varying lengths for {owner}, got {dtype} {shape}: "
            f"{_lists_instead(plan, owner)} - at output `{output}`"
        )
    return plan


def _lists_instead(plan: OutputPlan, owner: str) -> str:
    """Return what to do about an output that does not hold lists as `owner` takes them."""
    if plan.kind == "pad":
        return (
            f"columns= makes a Pad or Fixed of the column; name the column itself in columns=, "
            f"because {owner} takes the lists as the files store them"
        )
    if plan.kind == "list":
        return (
            "the files store lists of one fixed size. Write the files anew with lists of varying "
            "lengths, column.cast(pyarrow.list_(column.type.value_type))"
        )
    if plan.field.kind is not None:
        if plan.field.depth == 1:
            return f"Hash and Codes turn the {plan.field.kind} of a list into numbers"
        return "name a column of tokens; text is turned into tokens before it is written"
    if plan.field.depth > 1:
        return "write the files anew with one list of numbers for each row"
    return "name a column whose rows are lists of tokens"


def packed(
    projection: Projection, pack: Pack, *, provenance: bool, padded: bool
) -> tuple[Projection, list[OutputPlan]]:
    """Return the projection of a packed dataset, and the outputs made of its segments.

    Args:
        projection: the projection of the columns.
        pack: the way of packing.
        provenance: add `__file__`, `__row__` and `__offset__` of the first document of each row.
        padded: add `__valid__`.

    Returns:
        The projection, whose `row_bytes` include what the outputs have for a document; and the
        outputs.

    Raises:
        ColumnNotFoundError: an output of `pack` does not exist.
        SchemaError: an output is not a list of numbers.
        ValueError: the projection has further outputs, or `pad` does not fit an output.
    """
    items = [lists_of(projection, name, "Pack") for name in pack.outputs]
    _refuse_others(projection, pack)
    outputs = []
    for name, plan in zip(pack.outputs, items, strict=True):
        item = plan.field
        try:
            pad = encode_number(pack.pad_of(name), item.dtype, "pad of Pack")
        except ValueError as error:
            raise ValueError(f"{error} - at output `{name}`") from None
        shape = (pack.length, *item.shape)
        elements = math.prod(item.shape)
        strides = (elements, *plan.strides) if plan.strides else ()
        outputs.append(
            replace(
                plan,
                field=Field(item.dtype, shape, unit=item.unit),
                length=pack.length,
                pad=pad * elements,
                strides=strides,
            )
        )
    extra = _segment_outputs(padded=padded)
    row = (pack.length,)
    out = pack.output
    extra += [
        OutputPlan(f"{out}__document", "document", (), Field(torch.int32, row)),
        OutputPlan(f"{out}__position", "position", (), Field(torch.int32, row)),
        OutputPlan(f"{out}__cu_seqlens", "edges", (), Field(torch.int32, per="document")),
        OutputPlan(f"{out}__max_seqlen", "longest", (), Field(torch.int32, per="batch")),
    ]
    if provenance:
        extra += [
            OutputPlan("__file__", "first_file", (), Field(torch.int32)),
            OutputPlan("__row__", "first_row", (), Field(torch.int64)),
            OutputPlan("__offset__", "first_item", (), Field(torch.int64)),
        ]
    if padded:
        extra.append(OutputPlan("__valid__", "first_real", (), Field(torch.bool)))
    of_items = sum(plan.field.item_bytes for plan in items)
    of_values = projection.row_bytes - len(items) * OFFSET_BYTES
    tokens = -(-max(0, of_values) // of_items)
    of_token = sum(plan.field.dtype.itemsize for plan in extra if plan.kind in _OF_TOKENS)
    of_segment = sum(plan.field.item_bytes for plan in extra if plan.kind not in _OF_TOKENS)
    row_bytes = projection.row_bytes + tokens * of_token + of_segment
    return replace(projection, outputs=tuple(outputs), row_bytes=row_bytes), extra


def _refuse_others(projection: Projection, pack: Pack) -> None:
    """Raise ValueError if there are outputs that `pack` does not name."""
    others = [plan for plan in projection.outputs if plan.name not in pack.outputs]
    if not others:
        return
    # Outputs that are there because of another output.
    names = [plan.name for plan in others if plan.kind in _COMPANIONS]
    advice = (
        'nulls="mask" or valid=True adds it; pass nulls="zero" or fill= instead, which make a null '
        "list an empty one"
    )
    if len(names) < len(others):
        names = [plan.name for plan in others if plan.name not in names]
        advice = "name lists to cut alike in along=, and leave out the others"
    raise ValueError(
        f"Expected a packed dataset to have the outputs {', '.join(pack.outputs)} alone, got "
        f"{', '.join(names)} too: {advice}"
    )


def _segment_outputs(*, padded: bool) -> list[OutputPlan]:
    """Return the outputs of each segment, from which those of packed rows are made."""
    hidden = [
        OutputPlan(".file", "file", (), Field(torch.int32), hidden=True),
        OutputPlan(".row", "row", (), Field(torch.int64), hidden=True),
        OutputPlan(".first", "first", (), Field(torch.int64), hidden=True),
    ]
    if padded:
        hidden.append(OutputPlan(".real", "real_row", (), Field(torch.bool), hidden=True))
    return hidden
