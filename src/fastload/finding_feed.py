"""A pass over rows that are found a step ahead of the one being delivered."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from fastload.errors import CorruptFileError
from fastload.joining import joined
from fastload.passes import ScanFeed

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastload._core import Scan
    from fastload.batch import Batch
    from fastload.engine import Engine
    from fastload.found_rows import FoundRows
    from fastload.passes import Mark
    from fastload.plan import ReadPlan
    from fastload.plan_steps import PlanSteps

__all__ = ["FindingFeed"]


class FindingFeed:
    """The batches of one rank from the start of an epoch, in scans of as many rows as are found.

    A scan begins while the one before ends, in the memory that this one leaves; a batch that
    spans both is joined. One thread finds the rows of the next scan meanwhile, and no more.

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
        self.on_opened: Callable[[Scan | None], None] | None = None
        self._engine = engine
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
        self._following: ScanFeed | None = None
        self._ended = False  # nothing follows the running one
        self._next_step = 0  # to look at
        self._stopped = False
        self._pid = os.getpid()
        self._finder = found.finder()
        self._thread = ThreadPoolExecutor(1, "fastload-finding")
        self._finding = self._thread.submit(self._find)

    @property
    def lead(self) -> int:
        """Rows at the start of the batch that came last that are not to be delivered."""
        return 0 if self._running is None else self._running.lead

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
        self._stopped = True
        for feed in (self._running, self._following):
            if feed is not None:
                feed.close()
        self._thread.shutdown(cancel_futures=True)
        self._finder.close()

    def _part(self, mark: Mark) -> Batch | None:
        """The next batch of a scan."""
        while True:
            part = None if self._running is None else self._running.next(mark)
            if part is not None:
                self._look_ahead()
                return part
            if self._ended or not self._go_on():
                return None

    def _find(self) -> ReadPlan | None:
        """Finds rows for a batch at least; None if there are none any more. In a thread."""
        first, rows = self._next_step, 0
        while self._next_step < len(self._steps) and rows < self._batch_rows:
            if self._stopped:
                return None
            self._found.find(self._finder, self._steps.groups(self._next_step))
            rows += self._steps.rows(self._next_step)
            self._next_step += 1
        return self._steps.plan(first, self._next_step) if rows else None

    def _look_ahead(self) -> None:
        """Has the next scan begin to read, if its rows are found, once this one leaves memory."""
        running = self._running
        if self._ended or self._following is not None or running is None:
            return
        if not self._engine.threaded or not self._finding.done() or not running.scan.opened_all:
            return
        if self._finding.exception() is None:  # which comes after the running scan's batches
            self._following = self._start(before=running.scan)

    def _go_on(self) -> bool:
        """Has the next scan deliver; False if there is none."""
        following, self._following = self._following, None
        if following is not None:
            following.begin(again=True)
        else:
            following = self._start()
        if following is None:
            return False
        self._running = following
        return True

    def _start(self, before: Scan | None = None) -> ScanFeed | None:
        """Begins the scan of what was found, and to find what comes after; None at the end."""
        plan = self._finding.result()
        self._on_found()
        if plan is None:
            self._ended = True
            if self._running is not None:
                self._running.on_opened = self.on_opened
            return None
        again = self._running is not None
        scan = self._engine.start(plan, self._batch_rows, before, again=again, lead=self._lead)
        self._lead = (self._lead + plan.rows) % self._batch_rows
        self._finding = self._thread.submit(self._find)
        return ScanFeed(self._engine, scan, self._on_copy)

    def _goes_on_without(self) -> bool:
        """Whether others stand in for rows that can't be read, from now on."""
        running = self._running
        if self._substitute is None or running is None or running.scan.damage is None:
            return False
        running.close()
        if self._following is not None:
            self._following.close()
            self._following = None
        self._running = self._substitute(self._delivered)
        self._substitute = None
        self._running.on_opened = self.on_opened
        self._ended = True
        return True
