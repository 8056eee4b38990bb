"""The sizes of columns, stored and decoded, by footers, and the check of footers for nulls."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fastload.runtime.native import core
from fastload.runtime.user_warnings import warn
from fastload.schema.columns import DTYPES

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    from fastload.plan.sequence import RowGroups
    from fastload.schema.column_plan import ColumnPlan
    from fastload.schema.leaves import FileLeaves
    from fastload.source.files import SourceFile

__all__ = ["OFFSET_BYTES", "stored_bytes", "survey"]

OFFSET_BYTES = 8
"""Bytes of the offset that a batch holds for each list, str or bytes."""
# Bytes of a pointer and a length, which represent a str or bytes until its batch has memory.
_VIEW_BYTES = 16

# Names of columns that a message shows.
_SHOWN = 8

# The name of the column that holds an index of pandas without a name.
_INDEX = re.compile(r"__index_level_\d+__")

_ITEM_BYTES = {name: dtype.itemsize for dtype, name in DTYPES.items()}


@dataclass(frozen=True, slots=True)
class PlanSizes:
    """The size of a column in all files, constants of files without the column included.

    Attributes:
        values: number of elements, with nulls, and with one for each empty or null list.
        value_bytes: number of bytes of all str or bytes values. If a writer left this number out
            of the footer, the size of the pages is used instead.
        may_be_null: footers show a null, or don't say. Footers count an empty list as a null.
        nulls: number of nulls that footers show; 0 for lists, and where footers don't say.
    """

    values: int
    value_bytes: int
    may_be_null: bool = True
    nulls: int = 0

    def ragged_bytes(self, plan: ColumnPlan, rows: int) -> int:
        """Return the mean bytes of a row of the column's Ragged: values and offsets.

        A list within a list has an offset of its own. Lists are at most as many as values, so
        each value counts one offset for each inner level.
        """
        total = self.value_bytes if plan.bytes else self.values * _ITEM_BYTES[plan.dtype]
        inner_levels = plan.depth - 1 + plan.bytes
        total += self.values * inner_levels * OFFSET_BYTES
        return OFFSET_BYTES - (-total // rows)

    def staged_bytes(self, plan: ColumnPlan, rows: int) -> int:
        """Return the mean bytes of a row that are decoded before its batch has memory."""
        if not plan.depth and not plan.bytes:
            return 0
        if not plan.depth:
            return _VIEW_BYTES - (-self.value_bytes // rows)
        views = self.values * _VIEW_BYTES if plan.bytes else 0
        return self.ragged_bytes(plan, rows) - (-views // rows)


def survey(
    leaves: FileLeaves,
    plans: Sequence[ColumnPlan],
    stacked: Container[int] = (),
    images: Container[int] = (),
) -> tuple[list[PlanSizes], str]:
    """Return the sizes of the values of each column, and why a pass over all rows would raise.

    Args:
        leaves: the leaves of the files.
        plans: the planned columns.
        stacked: indices of the plans of columns of a `Stack`, for the advice of the error.
        images: indices of the plans of columns of an `Image`, for the same advice.

    Returns:
        The sizes, and the message for columns whose footers show nulls that the plan does not
        take, with the location of the first null; "" = there are none.

    Raises:
        CorruptFileError: a column chunk lies outside its file.
        UnsupportedTypeError: a column is encrypted.
    """
    files = leaves.source.files
    footers = [file.footer for file in files]
    rows = np.array([footer.num_rows for footer in footers], np.int64)
    refused = [not plan.takes_nulls for plan in plans]
    # In columns of lists, footers count empty lists as nulls, so their null counts are not used.
    counted = [not plan.depth and not plan.list_size for plan in plans]
    summaries = core.summarize_leaves(footers, [plan.leaves for plan in plans])
    sizes = []
    nulls: dict[ColumnPlan, str] = {}
    counts: dict[ColumnPlan, int] = {}
    spelled: list[str] = []
    for plan, refuse, count, summary in zip(plans, refused, counted, summaries, strict=True):
        lacking = np.array(plan.leaves) < 0
        null = lacking & [value is None for value in plan.constants] if plan.constants else lacking
        filled = len(plan.fill or b"") * int(rows[null].sum())
        for file in np.flatnonzero(lacking & ~null).tolist():
            filled += len(plan.constant(file) or b"") * footers[file].num_rows
        empty = np.flatnonzero(null & (rows > 0)).tolist()
        first, other = leaves.other_spelling(plan.name, empty) or (
            empty[0] if empty else len(files),
            "",
        )
        may_be_null = summary.null_file >= 0 or not summary.nulls_known or first < len(files)
        known = (summary.nulls if count else 0) + int(rows[null].sum())
        sizes.append(PlanSizes(summary.values, summary.value_bytes + filled, may_be_null, known))
        if not refuse:
            if other:
                spelled.append(f"`{plan.name}` and `{other}` - at {files[first].path}")
            continue
        if count and 0 <= summary.null_file < first:
            group = f"row group {summary.null_row_group}, column `{plan.name}`"
            nulls[plan] = f"{files[summary.null_file].path}, {group}"
            counts[plan] = known
        elif first < len(files):
            nulls[plan] = f"{files[first].path}, which has no value for column `{plan.name}`"
            nulls[plan] += f" but a column `{other}`" if other else ""
            counts[plan] = known
    refusal = ""
    if nulls:
        first_plan = plans.index(next(iter(nulls)))
        refusal = _describe_nulls(
            nulls, counts, stacked=first_plan in stacked, image=first_plan in images
        )
    if spelled and not nulls:
        warn(
            "Expected one spelling of each column, got names that differ in case alone, which are "
            f"different columns, null where a file has the other one: {'; '.join(spelled)}"
        )
    return sizes, refusal


def stored_bytes(
    files: Sequence[SourceFile], plans: Sequence[ColumnPlan], row_groups: RowGroups
) -> int:
    """Return the bytes that the planned columns take in the files, compressed.

    Args:
        files: the files.
        plans: the planned columns; a leaf of several plans counts once.
        row_groups: all row groups, of which those without rows do not count.
    """
    filled = np.flatnonzero(row_groups.rows)
    numbers, starts = np.unique(row_groups.file[filled], return_index=True)
    of_file = np.split(row_groups.index[filled], starts[1:])
    total = 0
    for number, groups in zip(numbers.tolist(), of_file, strict=False):  # of no files: one part
        for leaf in {plan.leaves[number] for plan in plans} - {-1}:
            sizes = files[number].footer.leaf_chunks(leaf).compressed_bytes
            total += int(np.array(sizes, np.int64)[groups].sum())
    return total


def _describe_nulls(
    nulls: Mapping[ColumnPlan, str],
    counts: Mapping[ColumnPlan, int],
    *,
    stacked: bool,
    image: bool,
) -> str:
    """Return the error message for columns with nulls.

    Args:
        nulls: the location of the first null of each column.
        counts: the number of nulls of each column.
        stacked: the first column belongs to a `Stack`.
        image: the first column belongs to an `Image`.
    """
    first, *others = nulls
    if _INDEX.fullmatch(first.name):
        advice = f'it is an index of pandas: pass exclude=["{first.name}"]'
    elif stacked:
        advice = "write Stack(..., fill=...)"
    elif image:
        advice = f'write Image({first.name!r}, ..., broken="mask")'
    elif first.hash_buckets:
        advice = f"write Hash({first.name!r}, ..., fill=...)"
    else:
        advice = f"write Column({first.name!r}, fill=...) or Column({first.name!r}, valid=True)"
    names = dict.fromkeys(plan.name for plan in others if plan.name != first.name)
    if names:
        shown = [f"`{plan.name}` ({counts[plan]:,})" for plan in others if plan.name in names]
        more = f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
        advice += f", and the same for {', '.join(shown[:_SHOWN])}{more}"
    if not image:
        advice += '; for all columns at once pass nulls="nan" (for floats), "zero" or "mask"'
    if first.depth:
        advice += '; with Pack, fill= or nulls="zero"'
    return f"Expected no nulls, got {counts[first]:,} ({advice}) - at {nulls[first]}"
