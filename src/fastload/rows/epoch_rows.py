"""Rows of the files that make up an epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastload.plan.sequence import RowGroups
from fastload.rows.selection import RowSelection, select_rows

if TYPE_CHECKING:
    from fastload.plan.kept_rows import FileRows
    from fastload.rows.filter_schema import FilterSchema
    from fastload.rows.predicate import Predicate
    from fastload.rows.skip_report import SkipReport
    from fastload.source.source import Source

__all__ = ["EpochRows"]


class EpochRows:
    """The rows of an epoch: all rows, or the rows that stay.

    Args:
        source: the files.
        filters: the columns that filters may ask for, and the filters and the split, if there are
            any or rows are deleted; None = all rows.
        report: receives the row groups whose filter columns can't be read; None = such a row group
            is an error.

    Attributes:
        row_groups: the row groups of all files, with the number of rows that stay.
    """

    def __init__(
        self,
        source: Source,
        filters: tuple[FilterSchema, Predicate] | None,
        report: SkipReport | None,
    ) -> None:
        # The selection is kept whole, because its pickle leaves out rows that the cache holds.
        self._selection: RowSelection | None = None
        rows, stored = source.row_group_rows, None
        if filters is not None:
            self._selection = select_rows(source, *filters, report is not None)
            rows, stored = self._selection.counts, rows if report is None else None
            if report is not None:
                for index, group, cause in self._selection.corrupt:
                    path = source.files[index].path
                    report.add(index, path, group, cause, "`num_rows` does not count its rows")
        self.row_groups = RowGroups(rows, source.row_group_file, source.row_group_index, stored)

    @property
    def files(self) -> tuple[FileRows, ...]:
        """Rows that stay, for each file; () = all rows."""
        return () if self._selection is None else self._selection.files
