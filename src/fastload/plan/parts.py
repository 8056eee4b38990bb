"""Parts: the rows of each file of prepared rows. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from fastload.plan.intervals import Int64s
    from fastload.plan.sequence import RowGroups

__all__ = ["Part", "Places", "groups_of", "parts_of", "rows_of", "without"]

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

    @property
    def file(self) -> str:
        """The name of the file."""
        return f"part-{self.number:05}.parquet"


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


def rows_of(row_groups: RowGroups, part: Part) -> int:
    """Return the number of rows of a part."""
    return int(row_groups.rows[part.start : part.stop].sum())


def without(row_groups: RowGroups, lost: Collection[tuple[int, int]]) -> RowGroups:
    """Return row groups of which those at some (file, row group) have no rows."""
    if not lost:
        return row_groups
    rows = row_groups.rows.copy()
    for file, index in lost:
        rows[(row_groups.file == file) & (row_groups.index == index)] = 0
    return replace(row_groups, rows=rows)


class Places:
    """Where the row groups of a source lie in the files of prepared rows.

    The files hold every row group of the source, in the same order.

    Args:
        row_groups: all row groups of the source, in canonical order.
        parts: the parts.
    """

    def __init__(self, row_groups: RowGroups, parts: Sequence[Part]) -> None:
        files = int(row_groups.file[-1]) + 1 if len(row_groups.file) else 0
        self._first_of_file = np.searchsorted(row_groups.file, np.arange(files))
        self._first_of_part = np.array([part.start for part in parts])

    def prepared(self, pieces: Int64s) -> Int64s:
        """Return pieces of the source's row groups as pieces of the files' row groups.

        Args:
            pieces: file, row group, first row and end of each piece, (n, 4).
        """
        group = self._first_of_file[pieces[:, 0]] + pieces[:, 1]
        part = np.searchsorted(self._first_of_part, group, side="right") - 1
        result = pieces.copy()
        result[:, 0] = part
        result[:, 1] = group - self._first_of_part[part]
        return result
