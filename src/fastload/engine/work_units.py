"""Units of work that the core divides a window into, which threads work on in parallel.

The core (`csrc/fastload/plan/unit.cc`) makes one unit of each column, except that columns of a
stack share units.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastload.schema.projection import OutputPlan

__all__ = ["WorkUnits", "work_units"]

# The most bytes of a row in one unit of a stack.
_STACK_BYTES = 256
# When a stack of at least this many columns is shuffled, its rows are copied one by one.
_WIDE_STACK = 12
# Scratch of a thread for each row of a shuffled window. A stack takes a cache line. A column takes
# a multiple of the value's size: the value, a code of half its size, an entry in the table of
# codes, and a flag for valid values.
_STACK_SCRATCH_BYTES = 64
_COLUMN_SCRATCH = 3


class WorkUnits(NamedTuple):
    """The units of work in a window.

    Attributes:
        units: the number of units, at least 1.
        shared: threads share the rows of some units when rows are shuffled.
        scratch_row_bytes: bytes that a thread needs, in addition to its output, for each row of a
            shuffled window.
    """

    units: int
    shared: bool
    scratch_row_bytes: int


def work_units(outputs: Sequence[OutputPlan]) -> WorkUnits:
    """Return the units of work for the outputs of a dataset.

    Args:
        outputs: the outputs of the dataset.
    """
    columns: set[int] = set()
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
            columns.update(output.columns)
            plain = output.kind in ("column", "valid", "stack_valid")
            shared |= output.kind in ("list", "mask", "pad", "ragged")
            # A column is decoded for its validity, too.
            item = 8 if output.kind == "stack_valid" else output.field.item_bytes
            scratch = max(scratch, _COLUMN_SCRATCH * item if plain else 0)
    return WorkUnits(max(1, stacked + len(columns)), shared, scratch)
