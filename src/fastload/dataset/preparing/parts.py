"""Parts: the rows of each file of prepared rows. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from fastload.plan.sequence import RowGroups

__all__ = ["Part", "groups_of", "parts_of"]

# Decoded bytes of a file: enough that the cost of a file vanishes, and few enough that several
# processes share the work of a dataset, and that little is lost where one is killed.
_PART_BYTES = 128 << 20


class Part(NamedTuple):
    """Neighbouring row groups whose rows become one file.

    Attributes:
        number: number of the part, from 0.
        start: index of the first row group.
        stop: index behind the last row group.
    """

    number: int
    start: int
    stop: int


def parts_of(row_groups: RowGroups, row_bytes: int) -> list[Part]:
    """Divide row groups into parts of about equal bytes; every row group is in one part.

    Without row groups there is one part, whose file shows the columns.

    Args:
        row_groups: all row groups, in canonical order.
        row_bytes: bytes of a decoded row.
    """
    if not len(row_groups.rows):
        return [Part(0, 0, 0)]
    ends = np.cumsum(row_groups.rows * row_bytes)
    numbers = np.maximum(ends - 1, 0) // _PART_BYTES
    starts = np.flatnonzero(np.append(True, np.diff(numbers) > 0)).tolist()
    stops = [*starts[1:], len(ends)]
    return [Part(n, a, b) for n, (a, b) in enumerate(zip(starts, stops, strict=True))]


def groups_of(row_groups: RowGroups, part: Part) -> RowGroups:
    """Return the row groups of a part."""
    some = slice(part.start, part.stop)
    stored = None if row_groups.stored is None else row_groups.stored[some]
    return type(row_groups)(
        row_groups.rows[some], row_groups.file[some], row_groups.index[some], stored
    )
