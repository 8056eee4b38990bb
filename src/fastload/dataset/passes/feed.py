"""Feed: the one way from the reads of a pass to its batches, scan -> steps -> batch."""

from __future__ import annotations

import contextlib
import os
import time
import weakref
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fastload.dataset.passes.skipping import SkippingReads
from fastload.dataset.passes.step_work import StepWork
from fastload.engine.prepared_engine import PreparedEngine
from fastload.errors import CorruptFileError, FastloadError, SourceChangedError, StorageError, note
from fastload.runtime.user_warnings import warn
from fastload.steps.run import run_steps

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    from fastload.batch.batch import Batch
    from fastload.dataset.passes.feed_plan import FeedPlan
    from fastload.dataset.process_engine import ProcessEngine
    from fastload.engine.engine import Engine
    from fastload.plan.position import BatchPosition
    from fastload.plan.read_plan import ReadPlan
    from fastload.rows.skip_report import SkipReport
    from fastload.runtime.native import core
    from fastload.steps.steps import Steps

__all__ = ["Feed", "FeedContext", "weakly"]

# If so few batches are left once the last window is open, all steps towards the next pass are taken
# at once. Otherwise one step is taken after each batch, so that no batch waits for all steps.
_FEW_BATCHES = 8


@dataclass(kw_only=True)
class FeedContext:
    """All that the feeds of a dataset share.

    Attributes:
        engines: makes the engines.
        steps: the steps that the batches pass through; None = Python runs no step.
        report: collects the row groups that are unreadable and left out; None = an unreadable row
            group is an error.
        marked: batches have `__valid__`, which is False for a row that is repeated.
        composed: the files are prepared rows of a cache.
        copied_batches: number of batches handed out as copies so far.
    """

    engines: ProcessEngine
    steps: Steps | None
    report: SkipReport | None
    marked: bool = False
    composed: bool = False
    copied_batches: int = 0

    def count_copy(self) -> None:
        """Count a batch that is handed out as a copy, and warn of the first one."""
        self.copied_batches += 1
        if self.copied_batches == 1:
            warn(self.engines.copies_warning)


class Feed:
    """The batches that one `FeedPlan` delivers: a scan of the core reads them, then steps run.

    If steps have threads, the threads work on the next batches while the consumer uses a batch.

    If a scan fails and another scan can go on, the feed begins a scan over the batches that are
    left: a corrupt row group of a store is read once more; with on_error="skip", a corrupt row
    group is left out; a file of prepared rows that is damaged or gone is written again.

    Args:
        context: the settings and counts that the feeds of the dataset share.
        engine: the engine that makes the batches.
        plan: what the feed delivers.
        before: the scan of the running pass, while which this feed only prepares the next pass;
            None = the pass of this feed begins now.
        reads: the result of `plan.reads` for the whole feed, if it is known.

    Attributes:
        engine: the engine that makes the batches from now on.
        held: the batch that `next` made, until the caller sets this to None.
        on_opened: a function that prepares the next pass in small steps, so that no batch waits
            for all of the steps; None = no call. Called with the scan after each batch once
            the scan has opened its last window, until the function returns True (no step is
            left). Called with None if the scan is given up for another scan.
    """

    def __init__(
        self,
        context: FeedContext,
        engine: Engine,
        plan: FeedPlan,
        before: core.Scan | None = None,
        reads: ReadPlan | None = None,
    ) -> None:
        self.held: Batch | None = None
        self.on_opened: Callable[[core.Scan | None], bool] | None = None
        self._context = context
        self._plan = plan
        self._pid = os.getpid()
        self._over = False  # the feed is exhausted, was closed, or met an error ahead of time
        # The batch between the core and the steps.
        self._lent: core.LentBatch | None = None
        self._tensors: list[torch.Tensor | None] = []  # what was taken from it
        self._scanned: Batch | None = None  # the same, once its tensors are made
        self._works: deque[StepWork] = deque()  # the batches that steps work on
        self._scan_s = 0.0  # seconds of this call spent waiting for the scan
        # The way from one scan to the next.
        self._lent_batches = 0
        self._tried: set[tuple[int, int]] = set()  # row groups that were read again
        self._given_up: core.Scan | None = None
        self._damage: FastloadError | None = None  # of prepared rows, which are not mended yet
        self._few: bool | None = None  # few batches were left once the last window was open
        self._planned_next = False  # `on_opened` has no step left
        self._use(engine)
        self._scan: core.Scan | None = self._begun(reads, before)

    @property
    def ready(self) -> bool:
        """True if the scan has a batch, and the batches handed out leave room for one more."""
        scan, engine = self._scan, self.engine
        if scan is None or not scan.ready:
            return False
        return 2 * engine.pipeline.lent_bytes <= engine.lend_bytes

    def begin(self) -> None:
        """Begin the pass, if the feed was opened to prepare the next pass."""
        assert self._scan is not None
        self.engine.begin(self._scan)

    def next(self, mark: BatchPosition) -> Batch | None:
        """Return the next batch, with the position `mark`; None at the end.

        Until the caller sets `held` to None, each call returns the same batch: Ctrl-C, or a warning
        that is raised as an error, loses no batch. The error of a step, too, is raised in place of
        its batch; each later call raises a RuntimeError.
        """
        if self.held is not None:
            return self.held
        if self._steps is None:
            self._read(mark)
        if self._steps is not None:  # also if the rows are no longer read from prepared files
            self._run_steps(mark)
            return self.held
        # Python looks at signals in calls, so Ctrl-C does not come between these lines.
        self.held = self._scanned
        self._scanned = None
        return self.held

    def close(self) -> None:
        """Abandon the batches that are left. Idempotent."""
        self._over = True
        # After a fork the jobs belong to threads of the parent, which may have held their locks.
        if self._pid == os.getpid():
            for work in self._works:
                work.cancel()
        self._works.clear()
        self.held = self._scanned = self._lent = None
        self._tensors = []
        self.on_opened = None  # a pass that is over prepares no other
        for scan in (self._scan, self._given_up):
            if scan is not None:
                scan.close()

    # Steps.

    def _run_steps(self, mark: BatchPosition) -> None:
        """Hold the next batch after the steps, if there is one."""
        if self._pid != os.getpid():
            raise RuntimeError("Expected a pass of this process, got one from before fork")
        assert self._steps is not None
        start, self._scan_s = time.perf_counter(), 0.0
        try:
            work = self._finished_work(mark)
        finally:
            self._steps.seconds += time.perf_counter() - start - self._scan_s
        # Ctrl-C up to here leaves the batch to the next call. The lines below call no function of
        # Python, so that no signal handler can run between them.
        if work is not None:
            self.held = work.batch
            if self._works:  # another thread may close the feed
                del self._works[0]

    def _finished_work(self, mark: BatchPosition) -> StepWork | None:
        """Return the work on the next batch, finished and still the first one; None at the end."""
        if not self._works and not self._over:
            self._begin_work(mark)
        self._look_ahead(mark)
        for work in self._works:
            work.go_on()
        if not self._works:
            return None
        work = self._works[0]
        work.finish(mark)
        self._look_ahead(mark)
        return work

    def _look_ahead(self, mark: BatchPosition) -> None:
        """Begin the work on batches that are ready, as many as the steps may be ahead."""
        while len(self._works) <= self._most_ahead and not self._over and self.ready:
            try:
                self._begin_work(mark)
            except Exception as error:  # noqa: BLE001 - raised in place of its batch
                self._over = True
                self._works.append(StepWork(None, error))

    def _begin_work(self, mark: BatchPosition) -> None:
        """Wait for the next batch of the scan, and begin the work on it."""
        start = time.perf_counter()
        try:
            self._read(mark)
        finally:
            self._scan_s += time.perf_counter() - start
        if self._scanned is None:
            self._over = True
            return
        steps, files = self._steps, self._context.engines.source.files
        assert steps is not None
        work = StepWork(run_steps(self._scanned, steps, self._plan.seeds, files, steps.pool))
        self._scanned = None
        self._works.append(work)
        work.go_on()

    # The scan.

    def _read(self, mark: BatchPosition) -> None:
        """Make the next batch of the scan, if there is one."""
        if self._scanned is not None:
            return
        lent = self._next_lent() if self._lent is None else self._lent
        if lent is None:
            return
        batch, copied = self.engine.batch_of(lent, mark, self._tensors)
        self._scanned = batch
        self._lent = lent = None
        if self._tensors:
            self._tensors = []
        if copied:
            self._context.count_copy()
        on_opened, scan = self.on_opened, self._scan  # another thread may close the feed
        if on_opened is None or scan is None or self._planned_next or not scan.opened_all:
            return
        if self._few is None:
            self._few = self._left < _FEW_BATCHES
        self._planned_next = on_opened(scan)
        while self._few and not self._planned_next:
            self._planned_next = on_opened(scan)

    def _next_lent(self) -> core.LentBatch | None:
        """Return the core's next batch that has a row to deliver; None at the end."""
        while True:
            scan = self._scan
            if scan is None:
                if self._over:  # another thread has closed the feed
                    return None
                self._go_on()
                continue
            try:
                lent = self.engine.next_of(scan)
            except FastloadError as error:
                if not self._answers(error):
                    raise
                # No call in between: Ctrl-C leaves the rest to the next call.
                self._given_up, self._scan = self._scan, None
                continue
            if lent is None:
                return None
            # Without a call from here on, Ctrl-C does not lose the batch.
            skipping = self._skipping
            if skipping is not None:
                rows, drop = lent.rows, skipping.rows_to_drop
                if drop:
                    skipping.rows_to_drop = drop - rows if drop > rows else 0
                    continue
                skipping.delivered += rows
            self._lent = lent
            self._lent_batches += 1
            self._left -= 1
            return lent

    def _answers(self, error: FastloadError) -> bool:
        """Return True if another scan can go on after an error."""
        if isinstance(self.engine, PreparedEngine):
            of_file = isinstance(error, (CorruptFileError, SourceChangedError, StorageError))
            self._damage = error if of_file else None
            return of_file
        if not isinstance(error, CorruptFileError):
            return False
        assert self._scan is not None
        skipping, damage = self._skipping, self._scan.damage
        if (skipping is None or damage) and self.engine.reads_again(error, self._tried):
            return True
        if skipping is not None and damage:
            skipping.leave_out(error, damage)
            return True
        if self._context.composed:
            self._remove_damaged(error)
        return False

    def _remove_damaged(self, error: CorruptFileError) -> None:
        """Remove a damaged file of the prepared rows that are the source of the dataset."""
        place = error._row_group  # noqa: SLF001 - of this package
        if place is not None:
            with contextlib.suppress(OSError):
                os.unlink(self._context.engines.source.files[place[0]].path)
            note(error, "the file was removed; make the dataset again, which writes it again")

    def _go_on(self) -> None:
        """Begin a scan over the batches that are left. After Ctrl-C, the next call begins again."""
        assert self._given_up is not None
        if self.on_opened is not None:
            self._planned_next = False
            self.on_opened(None)
        self._given_up.close()
        again = True
        if self._damage is not None:
            assert isinstance(self.engine, PreparedEngine)
            engine = self._context.engines.mended(self.engine, self._damage)
            again = engine is self.engine
            self._use(engine)
            self._damage = None
        self._scan = self._begun(again=again)
        if self._over:  # another thread has closed the feed meanwhile
            self._scan.close()

    def _use(self, engine: Engine) -> None:
        """Read the batches that are left by an engine."""
        context = self._context
        # Prepared rows have passed `preprocess`.
        steps = engine.steps if isinstance(engine, PreparedEngine) else context.steps
        self._steps = steps or None
        ahead = self._steps.most_ahead if self._steps else 0
        self._most_ahead = min(context.engines.prefetch, ahead)
        self._skipping: SkippingReads | None = None
        if context.report is not None:
            stripe_rows, files = engine.budget.stripe_rows, context.engines.source.files
            shares = self._plan.substitution(stripe_rows, self._lent_batches)
            skipping = SkippingReads(*shares, files, context.report, marked=context.marked)
            if isinstance(engine, PreparedEngine):
                skipping.leave_out_lost(engine.lost)
            self._skipping = skipping
        self.engine = engine

    def _begun(
        self,
        reads: ReadPlan | None = None,
        before: core.Scan | None = None,
        *,
        again: bool = False,
    ) -> core.Scan:
        """Begin a scan over the batches that are left; arguments as for `Engine.start`."""
        engine = self.engine
        if self._skipping is not None:
            reads = self._skipping.rest()
        elif reads is None:
            reads = self._plan.reads(engine.budget.stripe_rows, self._lent_batches)
        self._left = reads.batches
        return engine.start(reads, self._context.engines.batch_rows, before, again=again)


def weakly(method: Callable[..., Any], *arguments: Any) -> Callable[..., Any]:
    """Return a function that calls a method, but does not keep the method's object.

    A feed calls back whoever holds the feed. With a reference to the holder, the two would be a
    cycle: a dataset that is dropped in the middle of a pass would keep its threads and memory until
    Python's garbage collector comes.

    Args:
        method: the method. Once its object is gone, the function returns True: no step is left.
        arguments: the first arguments of each call.
    """
    kept = weakref.WeakMethod(method)

    def call(*more: Any) -> Any:
        bound = kept()
        return True if bound is None else bound(*arguments, *more)

    return call
