"""What the footers tell of planned columns: the bytes of their values, and nulls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastload._core import summarize_leaves
from fastload.errors import NullValueError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fastload.schema import ColumnPlan
    from fastload.source import SourceFile

__all__ = ["survey"]


def survey(
    files: Sequence[SourceFile], plans: Sequence[ColumnPlan], *, check_nulls: bool
) -> list[int]:
    """The bytes of all values of each column; exact for bytes where the writers tell.

    check_nulls: refuse columns that are shown to hold nulls and have no fill.

    Raises `NullValueError` naming the first such null; `CorruptFileError` for a column chunk
    outside its file; `UnsupportedTypeError` for an encrypted column.
    """
    footers = [file.footer for file in files]
    refused = [check_nulls and plan.fill is None for plan in plans]
    summaries = summarize_leaves(
        footers,
        [plan.leaves for plan in plans],
        statistics=[refuse or plan.bytes for refuse, plan in zip(refused, plans, strict=True)],
    )
    value_bytes = []
    nulls: dict[str, str] = {}
    for plan, refuse, summary in zip(plans, refused, summaries, strict=True):
        lacking = [index for index, leaf in enumerate(plan.leaves) if leaf < 0]
        constants = (len(plan.constant(i) or b"") * footers[i].num_rows for i in lacking)
        value_bytes.append(summary.value_bytes + sum(constants))
        if not refuse:
            continue
        empty = (i for i in lacking if plan.constant(i) is None and footers[i].num_rows)
        first = next(empty, len(files))
        if 0 <= summary.null_file < first:
            place = f"row group {summary.null_row_group}, column `{plan.name}`"
            nulls.setdefault(plan.name, f"{files[summary.null_file].path}, {place}")
        elif first < len(files):
            place = f"{files[first].path}, which has no value for column `{plan.name}`"
            nulls.setdefault(plan.name, place)
    if nulls:
        raise NullValueError(_describe_nulls(nulls))
    return value_bytes


def _describe_nulls(nulls: Mapping[str, str]) -> str:
    """The sentence for columns with nulls, given the place of the first null of each."""
    first, *others = nulls
    advice = f"write Column({first!r}, fill=...) or Column({first!r}, valid=True)"
    if others:
        advice += f"; likewise for {', '.join(f'`{name}`' for name in others)}"
    return f"Expected no nulls, got some ({advice}) - at {nulls[first]}"
