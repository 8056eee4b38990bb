"""A pass that leaves out what can't be read: on_error="skip"."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from fastload.errors import CorruptFileError
from fastload.plan import Options, RowGroups, read_plan, turn
from fastload.substitution import NothingReadableError, Substitution

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastload._core import Scan
    from fastload.engine import Engine
    from fastload.passes import Part
    from fastload.plan import ReadPlan
    from fastload.skip_report import SkipReport
    from fastload.state import Position

__all__ = ["Skipping"]

_SHOWN_CAUSES = 5


class Skipping:
    """The scans of one pass: where one meets a corrupt row group, another goes on without it.

    Args:
        engine: does the work.
        row_groups: all, in canonical order.
        options: the dataset's parameters.
        start: where the pass begins.
        part: which worker delivers it.
        rank: of the dataset.
        batch_rows: rows of the core's batches.
        files: paths, to name.
        report: is told of each row group that is left out.
    """

    def __init__(
        self,
        engine: Engine,
        row_groups: RowGroups,
        options: Options,
        start: Position,
        part: Part,
        rank: int,
        batch_rows: int,
        files: Sequence[str],
        report: SkipReport,
    ) -> None:
        options = replace(options, seed=start.seed)
        here = turn(
            row_groups.total_rows,
            options,
            start.progress,
            part.world,
            rank,
            part.workers,
            part.worker,
            start.taken,
        )

        def plan_of(worker: int) -> ReadPlan:
            return read_plan(
                row_groups,
                options,
                start.epoch,
                here.before,
                part.world,
                rank,
                part.workers,
                worker,
                stripe_rows=engine.budget.stripe_rows,
            )

        self.lead = 0
        self._engine = engine
        self._substitution = Substitution(plan_of, here.worker, part.workers)
        self._before = here.delivered
        self._unit = options.batch_size
        self._batch_rows = batch_rows
        self._files = files
        self._report = report
        self._first_window = 0
        self._causes: dict[tuple[int, int], str] = {}

    def start(self, before: Scan | None = None) -> Scan:
        """The first scan; `lead` rows at its start are not part of the pass.

        before: as `Engine.start`.
        """
        return self._engine.start(self._plan(0), self._batch_rows, before)

    def restart(self, scan: Scan, error: CorruptFileError, taken: int) -> Scan | None:
        """The scan that goes on, without the row group that ended `scan`, which is closed.

        Args:
            scan: the one that raised `error`.
            error: what it raised.
            taken: batches delivered in this pass, or rows if it delivers rows.

        Returns:
            None if the error is not that of a row group. `lead` rows at the start of the new
            scan are delivered already.

        Raises:
            CorruptFileError: nothing that the rank could deliver instead can be read.
        """
        if scan.damage is None:
            return None
        window, file, row_group = scan.damage
        # Some messages of libraries have several lines.
        self._causes.setdefault((file, row_group), " ".join(str(error).split()))
        try:
            self._substitution.leave_out(self._first_window + window, file, row_group)
        except NothingReadableError:
            raise CorruptFileError(
                "Expected rows of this rank that can be read, in place of those that can't, got "
                f"{self._described()} - at {self._files[file]}, row group {row_group}"
            ) from error
        # A warning that is an error comes before anything has changed.
        # For whoever asked for the batch.
        self._report.add(file, self._files[file], row_group, str(error), stacklevel=7)
        scan.close()
        return self._engine.start(self._plan(taken), self._batch_rows, again=True)

    def _plan(self, taken: int) -> ReadPlan:
        rows = (self._before + taken) * self._unit
        plan, self._first_window, self.lead = self._substitution.after(rows)
        return plan

    def _described(self) -> str:
        causes = list(self._causes.values())
        more = len(causes) - _SHOWN_CAUSES
        shown = "; ".join(causes[:_SHOWN_CAUSES])
        return f"[{shown}{f'; and {more} more' if more > 0 else ''}]"
