"""What the core's threads can do side by side: the units of work that a window is cut into.

The core cuts it so (`csrc/fastload/plan/unit.cc`): each column by itself, but for those of stacks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastload.schema.projection import OutputPlan

__all__ = ["WorkUnits", "work_units"]

# A row of a unit of a stack has so many bytes at most.
_STACK_BYTES = 256
# From so many columns on rows of a stack are copied one by one when they are shuffled.
_WIDE_STACK = 12
# What a thread has of each row of a shuffled window: of a stack a cache line; of a column the
# value, a code of half its size, its entry in the table of codes, and whether it is valid.
_STACK_SCRATCH_BYTES = 64
_COLUMN_SCRATCH = 3


class WorkUnits(NamedTuple):
    """Units of a window.

    units: at least 1.
    shared: when they are shuffled, threads share the rows of some of them.
    scratch_row_bytes: that a thread needs beside its output for each row of a shuffled window.
    """

    units: int
    shared: bool
    scratch_row_bytes: int


def work_units(outputs: Sequence[OutputPlan]) -> WorkUnits:
    """Return the units of work for the outputs of a dataset."""
    columns = set()
    stacked = scratch = 0
    shared = False
    for output in outputs:
        if output.kind == "stack":
            most = _STACK_BYTES // output.field.dtype.itemsize
            whole, rest = divmod(len(output.columns), most)
            stacked += whole + bool(rest)
            narrow = 0 < rest < _WIDE_STACK
            shared |= whole > 0 or not narrow
            scratch = max(scratch, _STACK_SCRATCH_BYTES if narrow else 0)
        elif output.columns:
            columns.add(output.columns[0])
            plain = output.kind in ("column", "valid")
            shared |= output.kind in ("list", "pad", "ragged")
            scratch = max(scratch, _COLUMN_SCRATCH * output.field.item_bytes if plain else 0)
    return WorkUnits(max(1, stacked + len(columns)), shared, scratch)
