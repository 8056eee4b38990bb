"""The sizes of decoded columns, estimated from footers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fastload.schema.columns import DTYPES

if TYPE_CHECKING:
    from fastload.schema.column_plan import ColumnPlan

__all__ = ["PlanSizes"]

_OFFSET_BYTES = 8
# Bytes of a pointer and a length, which represent a str or bytes until its batch has memory.
_VIEW_BYTES = 16

_ITEM_BYTES = {name: dtype.itemsize for dtype, name in DTYPES.items()}


@dataclass(frozen=True, slots=True)
class PlanSizes:
    """The size of a column in all files, constants of files without the column included.

    Attributes:
        values: number of elements, with nulls, and with one for each empty or null list.
        value_bytes: number of bytes of all str or bytes values. If a writer left this number out
            of the footer, the size of the pages is used instead.
    """

    values: int
    value_bytes: int

    def ragged_bytes(self, plan: ColumnPlan, rows: int) -> int:
        """Return the mean bytes of a row of the column's Ragged: values and offsets.

        A list within a list has an offset of its own. Lists are at most as many as values, so
        each value counts one offset for each inner level.
        """
        total = self.value_bytes if plan.bytes else self.values * _ITEM_BYTES[plan.dtype]
        inner_levels = plan.depth - 1 + plan.bytes
        total += self.values * inner_levels * _OFFSET_BYTES
        return _OFFSET_BYTES - (-total // rows)

    def staged_bytes(self, plan: ColumnPlan, rows: int) -> int:
        """Return the mean bytes of a row that are decoded before its batch has memory."""
        if not plan.depth and not plan.bytes:
            return 0
        if not plan.depth:
            return _VIEW_BYTES - (-self.value_bytes // rows)
        views = self.values * _VIEW_BYTES if plan.bytes else 0
        return self.ragged_bytes(plan, rows) - (-views // rows)
