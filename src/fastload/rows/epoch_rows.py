"""Which rows of the files an epoch is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastload.plan import read_plan as plan
from fastload.rows.found_rows import FoundRows
from fastload.rows.selection import RowSelection, select_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastload.plan.intervals import Int64s
    from fastload.plan.kept_rows import FileRows
    from fastload.plan.options import Options
    from fastload.plan.position import Part, Position
    from fastload.rows.filter_schema import FilterSchema
    from fastload.rows.predicate import Predicate
    from fastload.rows.skip_report import SkipReport
    from fastload.source.source import Source

__all__ = ["EpochRows"]


class EpochRows:
    """The rows that an epoch is made of: all of them, or those that filters and a split leave.

    Args:
        source: the files.
        filters: which rows stay, and the columns that tell; None = all rows.
        report: is told of row groups of which that can't be told; None = they are errors.
        ahead: find the rows now; else when they are asked for, or by a pass, on the way.

    Attributes:
        found: the rows as far as passes have found them; None = nothing is left to be found.
    """

    def __init__(
        self,
        source: Source,
        filters: tuple[FilterSchema, Predicate] | None,
        report: SkipReport | None,
        *,
        ahead: bool,
    ) -> None:
        self._source = source
        self._filtered = filters is not None
        self._report = report
        self._selection: RowSelection | None = None
        self.found: FoundRows | None = None
        if filters is None:
            return
        selected = (source, *filters, report is not None)
        if ahead:
            self._selection = select_rows(*selected)
            self.report_unreadable(stacklevel=5)
        else:
            self.found = FoundRows(*selected)

    @property
    def files(self) -> tuple[FileRows, ...]:
        """By file, its rows that stay; () = all."""
        rows = self._selection or self.found
        return () if rows is None else rows.files

    @property
    def places(self) -> int | None:
        """Stored rows that windows are made of, where nothing is counted ahead."""
        return None if self.found is None else int(self.found.places.sum())

    @property
    def row_groups(self) -> plan.RowGroups:
        """All row groups, with the rows that stay; finds these first where they are not known."""
        rows = self._selection or self.found
        counts = self._source.row_group_rows if rows is None else rows.counts
        self.report_unreadable(stacklevel=6)
        return self._row_groups_of(counts)

    @property
    def row_groups_so_far(self) -> plan.RowGroups:
        """All row groups, with the rows that are found of each."""
        assert self.found is not None
        return self._row_groups_of(self.found.found)

    @property
    def is_known(self) -> bool:
        """Whether nothing is left to be found."""
        return self.found is None or self.found.known

    @property
    def most(self) -> int:
        """How many they are; at least as many, where they are not counted."""
        if self.is_known:
            return self.row_groups.total_rows
        return self.places or 0

    def finds(self, start: Position, part: Part, options: Options) -> bool:
        """Whether a pass that begins there finds the rows on the way."""
        return self.found is not None and self.found.finds(start, part, options)

    def report_unreadable(self, stacklevel: int) -> None:
        """Tells of row groups that filters could not be asked of.

        stacklevel: of the warning, as `SkipReport.add` takes it.
        """
        rows: RowSelection | FoundRows | None = self._selection or self.found
        if self._report is not None and rows is not None:
            files: Sequence[str] = [file.path for file in self._source.files]
            for index, group, cause in rows.corrupt:
                self._report.add(index, files[index], group, cause, stacklevel=stacklevel)

    def _row_groups_of(self, rows: Int64s) -> plan.RowGroups:
        source = self._source
        return plan.RowGroups(
            rows,
            source.row_group_file,
            source.row_group_index,
            source.row_group_rows if self._filtered and not self._report else None,
            None if self.found is None else self.found.places,
        )
