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
    """The rows of an epoch: all rows, or the rows that filters and a split keep.

    Args:
        source: the files.
        filters: the columns that filters may ask for, and the filters and the split; None = all
            rows.
        report: receives the row groups whose filter columns can't be read; None = such a row group
            is an error.
    """

    def __init__(
        self,
        source: Source,
        filters: tuple[FilterSchema, Predicate] | None,
        report: SkipReport | None,
    ) -> None:
        self._source = source
        self._report = report
        self._selection: RowSelection | None = None
        if filters is not None:
            self._selection = select_rows(source, *filters, report is not None)
            self._report_unreadable()

    @property
    def files(self) -> tuple[FileRows, ...]:
        """Rows that stay, for each file; () = all rows."""
        return () if self._selection is None else self._selection.files

    @property
    def row_groups(self) -> RowGroups:
        """Row groups of all files, with the number of rows that stay."""
        source, selection = self._source, self._selection
        return RowGroups(
            source.row_group_rows if selection is None else selection.counts,
            source.row_group_file,
            source.row_group_index,
            source.row_group_rows if selection is not None and self._report is None else None,
        )

    def _report_unreadable(self) -> None:
        """Add the row groups whose filter columns can't be read to the report."""
        if self._report is not None and self._selection is not None:
            for index, group, cause in self._selection.corrupt:
                self._report.add(index, self._source.files[index].path, group, cause)
