"""The reads of a feed with on_error="skip", which leave out the row groups that are unreadable."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastload.errors import CorruptFileError
from fastload.plan.substitution import NothingReadableError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fastload.plan.read_plan import ReadPlan
    from fastload.plan.substitution import Substitution
    from fastload.rows.skip_report import SkipReport
    from fastload.source.files import SourceFile

__all__ = ["SkippingReads"]

_SHOWN_CAUSES = 5
# What becomes of the rows of a corrupt row group, for a warning.
_MARKED = "Other rows, for which `__valid__` is False, replace its rows"
_UNMARKED = (
    'Other rows replace its rows, and so come more than once (uneven="pad" marks such repeats in '
    "`__valid__`)"
)


class SkippingReads:
    """The reads of a feed, without the row groups that are unreadable as far as known.

    Args:
        substitution: the reads of the whole share of the leg, with substitutes for rows that
            cannot be read.
        delivered: number of the first rows of the share that were delivered.
        files: the files, for messages.
        report: collects the row groups that are left out.
        marked: batches have `__valid__`, which is False for substitutes.

    Attributes:
        delivered: as the argument; the feed adds the rows of each batch.
        rows_to_drop: number of rows at the start of the current reads that were delivered before:
            without shuffle, windows are read as a whole. The feed subtracts the rows it drops.
    """

    def __init__(
        self,
        substitution: Substitution,
        delivered: int,
        files: Sequence[SourceFile],
        report: SkipReport,
        *,
        marked: bool,
    ) -> None:
        self.delivered = delivered
        self.rows_to_drop = 0
        self._substitution = substitution
        self._first_window = 0  # number of the first window of the current reads in the share
        self._files = files
        self._report = report
        self._instead = _MARKED if marked else _UNMARKED
        self._causes: dict[tuple[int, int], str] = {}

    def rest(self) -> ReadPlan:
        """Return the reads of the rows that are not delivered yet."""
        plan, self._first_window, self.rows_to_drop = self._substitution.after(self.delivered)
        return plan

    def leave_out(self, error: CorruptFileError, damage: tuple[int, int, int]) -> None:
        """Leave out a row group from the next reads on.

        Args:
            error: the error of the row group.
            damage: number of the window in the current reads, file and row group.

        Raises:
            CorruptFileError: no row of the rank can be read as a substitute.
        """
        window, file, row_group = damage
        self._leave_out(self._first_window + window, file, row_group, error)

    def leave_out_lost(self, lost: Mapping[tuple[int, int], str]) -> None:
        """Leave out row groups that were unreadable when the rows were prepared.

        Args:
            lost: the cause of each one, by file and row group.

        Raises:
            CorruptFileError: as `leave_out`.
        """
        for window, file, row_group in self._substitution.without(lost):
            self._leave_out(window, file, row_group, CorruptFileError(lost[file, row_group]))

    def _leave_out(self, window: int, file: int, row_group: int, error: CorruptFileError) -> None:
        path = self._files[file].path
        # Messages of libraries may have several lines; join them.
        self._causes.setdefault((file, row_group), " ".join(str(error).split()))
        try:
            self._substitution.leave_out(window, file, row_group)
        except NothingReadableError:
            raise CorruptFileError(
                "Expected readable rows of this rank to replace unreadable rows, got "
                f"{self._described()} - at {path}, row group {row_group}"
            ) from error
        self._report.add(file, path, row_group, str(error), self._instead)

    def _described(self) -> str:
        causes = list(self._causes.values())
        more = len(causes) - _SHOWN_CAUSES
        shown = "; ".join(causes[:_SHOWN_CAUSES])
        return f"[{shown}{f'; and {more} more' if more > 0 else ''}]"
