"""The feeds over scans of the core: over one scan, or over a new scan after a corrupt row group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastload.engine.prepared_engine import PreparedEngine
from fastload.errors import CorruptFileError
from fastload.plan.substitution import NothingReadableError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import torch

    from fastload.batch.batch import Batch
    from fastload.engine.engine import Engine
    from fastload.plan.position import BatchPosition
    from fastload.plan.read_plan import ReadPlan
    from fastload.plan.substitution import Substitution
    from fastload.rows.skip_report import SkipReport
    from fastload.runtime.native import core

__all__ = ["ScanFeed", "SkippingFeed"]

_SHOWN_CAUSES = 5
# What becomes of the rows of a corrupt row group, for a warning.
_MARKED = "Other rows, for which `__valid__` is False, replace its rows"
_UNMARKED = (
    'Other rows replace its rows, and so come more than once (uneven="pad" marks such repeats in '
    "`__valid__`)"
)
# If so few batches are left once the last window is open, all steps towards the next pass are taken
# at once. Otherwise one step is taken after each batch, so that no batch waits for all steps.
_FEW_BATCHES = 8


class ScanFeed:
    """A feed that hands out the batches of one scan.

    Args:
        engine: the engine that makes the batches.
        scan: the scan of the core.
        on_copy: called for each batch that is handed out as a copy.
        batches: number of batches of the scan.

    Attributes:
        on_opened: a function that prepares the next pass in small steps, so that no batch waits
            for all of the steps; None = no call. Called with the scan after each batch once
            the scan has opened its last window, until the function returns True (no step is
            left). Called with None if the scan is given up for another scan.
    """

    def __init__(
        self, engine: Engine, scan: core.Scan, on_copy: Callable[[], None], batches: int
    ) -> None:
        self.engine = engine
        self.on_opened: Callable[[core.Scan | None], bool] | None = None
        self._done = False  # on_opened has no step left
        self._few: bool | None = None  # few batches were left once the last window was open
        self._left = batches
        self._held: core.LentBatch | None = None  # a batch whose call ended in an error
        self._tensors: list[torch.Tensor | None] = []  # what was taken from it
        self._made: Batch | None = None  # the same, once its tensors are made
        self._scan = scan
        self._on_copy = on_copy

    @property
    def ready(self) -> bool:
        """True if `next` need not wait, and the batches handed out leave room for one more."""
        engine = self.engine
        return self._scan.ready and 2 * engine.pipeline.lent_bytes <= engine.lend_bytes

    def begin(self) -> None:
        """Begin the pass, if the feed was opened to prepare the next pass."""
        self.engine.begin(self._scan)

    def next(self, mark: BatchPosition) -> Batch | None:
        """Return the next batch, with the position `mark`; None at the end.

        If an error ends the call once the core has lent the batch (Ctrl-C, a warning that is
        raised as an error), the next call returns the batch.
        """
        batch, self._made = self._made, None
        if batch is not None:
            return batch
        lent = self._held
        if lent is None:
            lent = self._lent()
            if lent is None:
                return None
            self._held = lent
            self._left -= 1
        batch, copied = self.engine.batch_of(lent, mark, self._tensors)
        self._made = batch
        self._held = lent = None
        if self._tensors:
            self._tensors = []
        if copied:
            self._on_copy()
        on_opened = self.on_opened  # another thread may close the feed
        if on_opened is not None and not self._done and self._scan.opened_all:
            if self._few is None:
                self._few = self._left < _FEW_BATCHES
            self._done = on_opened(self._scan)
            while self._few and not self._done:
                self._done = on_opened(self._scan)
        self._made = None
        return batch

    def close(self) -> None:
        """Abandon the batches that are left. Idempotent."""
        self._made = self._held = None
        self._tensors = []
        self.on_opened = None  # a pass that is over prepares no other
        self._scan.close()

    def _lent(self) -> core.LentBatch | None:
        return self.engine.next_of(self._scan)


class SkippingFeed(ScanFeed):
    """A feed that hands out the batches of a scan, and starts a new scan at a corrupt row group.

    The new scan leaves out the corrupt row group. One of a store is read once more before.

    Args:
        engine: the engine that makes the batches.
        on_copy: as in `ScanFeed`.
        substitution: the plan, with substitutes for rows that cannot be read.
        first_row: the first row of the plan to deliver.
        batch_rows: number of rows in the core's batches.
        files: paths of the files, for messages.
        report: collects the row groups that are left out.
        marked: batches have `__valid__`, which is False for substitutes.
        before: as in `Engine.start`.
    """

    def __init__(
        self,
        engine: Engine,
        on_copy: Callable[[], None],
        substitution: Substitution,
        first_row: int,
        batch_rows: int,
        files: Sequence[str],
        report: SkipReport,
        *,
        marked: bool,
        before: core.Scan | None,
    ) -> None:
        self._substitution = substitution
        self._next_row = first_row
        self._batch_rows = batch_rows
        self._files = files
        self._tried: set[tuple[int, int]] = set()
        self._report = report
        self._instead = _MARKED if marked else _UNMARKED
        self._causes: dict[tuple[int, int], str] = {}
        self._mends = isinstance(engine, PreparedEngine)  # a wrapping feed does, at any error
        if isinstance(engine, PreparedEngine):
            self._leave_out_lost(engine.lost)
        plan = self._plan()
        super().__init__(engine, engine.start(plan, batch_rows, before), on_copy, plan.batches)

    def _plan(self) -> ReadPlan:
        plan, self._first_window, self._lead = self._substitution.after(self._next_row)
        return plan

    def _lent(self) -> core.LentBatch | None:
        """Return the core's next batch that has a row to deliver; None at the end."""
        while True:
            try:
                lent = self.engine.next_of(self._scan)
            except CorruptFileError as error:
                if self._scan.damage is None or self._mends:
                    raise
                self._restart(error, *self._scan.damage)
                continue
            if lent is None:
                return None
            # Python looks at signals in calls. Without a call, Ctrl-C does not lose the batch.
            rows, lead = lent.rows, self._lead
            if not lead:
                self._next_row += rows
                return lent
            self._lead = lead - rows if lead > rows else 0

    def _restart(self, error: CorruptFileError, window: int, file: int, row_group: int) -> None:
        """Start a new scan that leaves out a row group.

        Raises:
            CorruptFileError: no row of the rank can be read as a substitute.
        """
        if self.on_opened is not None:
            self._done = False
            self.on_opened(None)
        if self.engine.reads_again(error, self._tried):
            self._rescan()
            return
        self._leave_out(self._first_window + window, file, row_group, error)
        self._rescan()

    def _leave_out_lost(self, lost: Mapping[tuple[int, int], str]) -> None:
        """Leave out the row groups that were unreadable when the rows were prepared."""
        for window, file, row_group in self._substitution.without(lost):
            error = CorruptFileError(lost[file, row_group])
            self._leave_out(window, file, row_group, error)

    def _leave_out(self, window: int, file: int, row_group: int, error: CorruptFileError) -> None:
        # Messages of libraries may have several lines; join them.
        self._causes.setdefault((file, row_group), " ".join(str(error).split()))
        try:
            self._substitution.leave_out(window, file, row_group)
        except NothingReadableError:
            raise CorruptFileError(
                "Expected readable rows of this rank to replace unreadable rows, got "
                f"{self._described()} - at {self._files[file]}, row group {row_group}"
            ) from error
        # The report comes before any change here, because its warning may be raised as an error.
        self._report.add(file, self._files[file], row_group, str(error), self._instead)

    def _rescan(self) -> None:
        self._scan.close()
        self._scan = self.engine.start(self._plan(), self._batch_rows, again=True)

    def _described(self) -> str:
        causes = list(self._causes.values())
        more = len(causes) - _SHOWN_CAUSES
        shown = "; ".join(causes[:_SHOWN_CAUSES])
        return f"[{shown}{f'; and {more} more' if more > 0 else ''}]"
