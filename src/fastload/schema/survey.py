"""What the footers tell of planned columns: the sizes of their values, and nulls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastload.errors import NullValueError
from fastload.runtime.native import core
from fastload.schema.plan_sizes import PlanSizes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fastload.schema.column_plan import ColumnPlan
    from fastload.source.files import SourceFile

__all__ = ["survey"]


def survey(
    files: Sequence[SourceFile], plans: Sequence[ColumnPlan], *, check_nulls: bool
) -> list[PlanSizes]:
    """The sizes of the values of each column.

    check_nulls: refuse columns that are shown to hold nulls and do not take them.

    Raises `NullValueError` naming the first such null; `CorruptFileError` for a column chunk
    outside its file; `UnsupportedTypeError` for an encrypted column.
    """
    footers = [file.footer for file in files]
    refused = [check_nulls and not plan.takes_nulls for plan in plans]
    # In lists footers count empty ones as nulls, so only the values tell.
    counted = [
        refuse and not plan.depth and not plan.list_size
        for refuse, plan in zip(refused, plans, strict=True)
    ]
    summaries = core.summarize_leaves(
        footers,
        [plan.leaves for plan in plans],
        statistics=[count or plan.bytes for count, plan in zip(counted, plans, strict=True)],
    )
    sizes = []
    nulls: dict[ColumnPlan, str] = {}
    for plan, refuse, count, summary in zip(plans, refused, counted, summaries, strict=True):
        lacking = [index for index, leaf in enumerate(plan.leaves) if leaf < 0]
        constants = (
            len(plan.constant(file) or plan.fill or b"") * footers[file].num_rows
            for file in lacking
        )
        sizes.append(PlanSizes(summary.values, summary.value_bytes + sum(constants)))
        if not refuse:
            continue
        empty = (file for file in lacking if plan.constant(file) is None)
        first = next((file for file in empty if footers[file].num_rows), len(files))
        if count and 0 <= summary.null_file < first:
            group = f"row group {summary.null_row_group}, column `{plan.name}`"
            nulls[plan] = f"{files[summary.null_file].path}, {group}"
        elif first < len(files):
            nulls[plan] = f"{files[first].path}, which has no value for column `{plan.name}`"
    if nulls:
        raise NullValueError(_describe_nulls(nulls))
    return sizes


def _describe_nulls(nulls: Mapping[ColumnPlan, str]) -> str:
    """The sentence for columns with nulls, given the place of the first null of each."""
    first, *others = nulls
    if first.hash_buckets:
        advice = f"write Hash({first.name!r}, ..., fill=...)"
    else:
        advice = f"write Column({first.name!r}, fill=...) or Column({first.name!r}, valid=True)"
    names = dict.fromkeys(plan.name for plan in others if plan.name != first.name)
    if names:
        advice += f"; likewise for {', '.join(f'`{name}`' for name in names)}"
    return f"Expected no nulls, got some ({advice}) - at {nulls[first]}"
