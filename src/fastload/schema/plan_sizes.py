"""How many bytes a column decodes to, as footers tell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fastload.schema.columns import DTYPES

if TYPE_CHECKING:
    from fastload.schema.column_plan import ColumnPlan

__all__ = ["PlanSizes"]

_OFFSET_BYTES = 8
# What stands for one str or bytes until its batch has memory: a pointer and a length.
_VIEW_BYTES = 16

_ITEM_BYTES = {name: dtype.itemsize for dtype, name in DTYPES.items()}


@dataclass(frozen=True, slots=True)
class PlanSizes:
    """What the footers say of all chunks of a column, and the constants of files without.

    values: elements, nulls among them, and one for each list without elements.
    value_bytes: of all str or bytes; where a writer left them out, those of the pages.
    """

    values: int
    value_bytes: int

    def ragged_bytes(self, plan: ColumnPlan, rows: int) -> int:
        """Bytes of a row of the Ragged of a column: values, shared out evenly, and offsets.

        A list within a list has an offset of its own; there are at most as many as values.
        """
        total = self.value_bytes if plan.bytes else self.values * _ITEM_BYTES[plan.dtype]
        inner_levels = plan.depth - 1 + plan.bytes
        total += self.values * inner_levels * _OFFSET_BYTES
        return _OFFSET_BYTES - (-total // rows)

    def staged_bytes(self, plan: ColumnPlan, rows: int) -> int:
        """Bytes of a row of a column that are decoded before the memory of its batch is there."""
        if not plan.depth and not plan.bytes:
            return 0
        if not plan.depth:
            return _VIEW_BYTES - (-self.value_bytes // rows)
        views = self.values * _VIEW_BYTES if plan.bytes else 0
        return self.ragged_bytes(plan, rows) - (-views // rows)
