"""A pass over rows that are found a step ahead of the one being delivered."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from fastload.batch.joining import joined
from fastload.dataset.passes.epoch_iterator import ScanFeed
from fastload.errors import CorruptFileError

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastload.batch.batch import Batch
    from fastload.engine.engine import Engine
    from fastload.plan.plan_steps import PlanSteps
    from fastload.plan.position import Mark
    from fastload.rows.found_rows import FoundRows
    from fastload.runtime._core import Scan

__all__ = ["FindingFeed"]


class FindingFeed:
    """The batches of one rank from the start of an epoch, in scans of as many rows as are found.

    While a scan runs, a thread finds the rows of the next one, and no more, and begins it: it
    reads in the memory that the running one leaves. A batch that spans both is joined.

    Args:
        engine: does the work.
        on_copy: as `ScanFeed` takes it.
        found: the rows, with the bits that the engine reads.
        steps: the plan.
        batch_rows: rows of a batch.
        drop_last: leave out a last batch that is short.
        on_found: told after rows were found.
        substitute: where something can't be read, gives the batches after so many delivered
            rows, with others in its place; None = it is an error.

    Attributes:
        lead: as `Feed` has it.
        on_opened: as `ScanFeed` has it.
        engine: as above.
    """

    def __init__(
        self,
        engine: Engine,
        on_copy: Callable[[], None],
        found: FoundRows,
        steps: PlanSteps,
        *,
        batch_rows: int,
        drop_last: bool,
        on_found: Callable[[], None],
        substitute: Callable[[int], ScanFeed] | None,
    ) -> None:
        self.on_opened: Callable[[Scan | None], bool] | None = None
        self.engine = engine
        self._on_copy = on_copy
        self._found = found
        self._steps = steps
        self._batch_rows = batch_rows
        self._drop_last = drop_last
        self._on_found = on_found
        self._substitute = substitute
        self._delivered = 0  # rows
        self._lead = 0  # rows of the first batch that the next scan is short of
        self._running: ScanFeed | None = None
        self._ended = False  # nothing follows the running one
        self._next_step = 0  # to look at
        self._stopped = False
        self._pid = os.getpid()
        self._finder = found.finder()
        self._thread = ThreadPoolExecutor(1, "fastload-finding")
        self._finding = self._thread.submit(self._find, None)

    @property
    def lead(self) -> int:
        """Rows at the start of the batch that came last that are not to be delivered."""
        return 0 if self._running is None else self._running.lead

    @property
    def ready(self) -> bool:
        """Whether the next batch, or a part of it, can be had at once."""
        return self._running is not None and self._running.ready

    def begin(self) -> None:
        """It has begun."""

    def next(self, mark: Mark) -> Batch | None:
        """The next batch, which carries the mark; None at the end."""
        parts: list[Batch] = []
        rows = 0
        while rows < self._batch_rows:
            try:
                part = self._part(mark)
            except CorruptFileError:
                if not self._goes_on_without():
                    raise
                parts, rows = [], 0
                continue
            if part is None:
                break
            parts.append(part)
            rows += part.rows
        if not parts or (self._drop_last and rows < self._batch_rows):
            return None
        self._delivered += rows
        return joined(parts)

    def close(self) -> None:
        """Abandons what is left. Idempotent."""
        if self._pid != os.getpid():
            return  # after a fork, whose child has none of the threads
        if self._running is not None:
            self._running.close()
        self._close_following()

    def _part(self, mark: Mark) -> Batch | None:
        """The next batch of a scan."""
        while True:
            part = None if self._running is None else self._running.next(mark)
            if part is not None:
                self._look_for_end()
                return part
            if self._ended or not self._go_on():
                return None

    def _find(self, before: Scan | None) -> ScanFeed | None:
        """Begins a scan of rows for a batch at least, after `before`; None at the end.

        In a thread, and before anyone asks for its batches: it reads in what memory is left.
        """
        first, rows = self._next_step, 0
        while self._next_step < len(self._steps) and rows < self._batch_rows:
            if self._stopped:
                return None
            self._found.find(self._finder, self._steps.groups(self._next_step))
            rows += self._steps.rows(self._next_step)
            self._next_step += 1
        if not rows:
            return None
        plan = self._steps.plan(first, self._next_step)
        again = before is not None
        scan = self.engine.start(plan, self._batch_rows, before, again=again, lead=self._lead)
        self._lead = (self._lead + rows) % self._batch_rows
        return ScanFeed(self.engine, scan, self._on_copy)

    def _go_on(self) -> bool:
        """Has the next scan deliver; False if there is none."""
        following = self._finding.result()
        self._on_found()
        if following is None:
            self._ended = True
            return False
        if self._running is not None:
            following.begin(again=True)
        self._running = following
        self._finding = self._thread.submit(self._find, following.scan)
        return True

    def _look_for_end(self) -> None:
        """Has the last scan tell when its last window is in work."""
        if self._ended or not self._finding.done() or self._finding.exception():
            return
        self._ended = self._finding.result() is None
        if self._ended and self._running is not None:
            self._on_found()
            self._running.on_opened = self.on_opened

    def _close_following(self) -> None:
        """Ends the scan that was begun ahead, or keeps it from being begun."""
        self._stopped = True
        self._thread.shutdown(cancel_futures=True)
        if not self._finding.cancelled() and not self._finding.exception():
            following = self._finding.result()
            if following is not None:
                following.close()
        self._finder.close()

    def _goes_on_without(self) -> bool:
        """Whether others stand in for rows that can't be read, from now on."""
        running = self._running
        if self._substitute is None or running is None or running.scan.damage is None:
            return False
        running.close()
        self._close_following()
        self._running = self._substitute(self._delivered)
        self._substitute = None
        self._running.on_opened = self.on_opened
        self._ended = True
        return True
