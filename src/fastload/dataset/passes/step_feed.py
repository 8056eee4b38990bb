"""The feed of a pass whose batches pass through steps: `preprocess`, then `augment`."""

from __future__ import annotations

import os
import time
from collections import deque
from typing import TYPE_CHECKING

from fastload.dataset.passes.feed import WrappedFeed
from fastload.errors import note
from fastload.steps.run import SeedKey, run_steps

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from fastload.batch.batch import Batch
    from fastload.dataset.passes.feed import OpenFeed
    from fastload.plan.position import BatchPosition
    from fastload.source.files import SourceFile
    from fastload.steps.steps import Steps
    from fastload.steps.thread_pool import Job

__all__ = ["SteppedFeed"]


class SteppedFeed(WrappedFeed):
    """A feed that calls the steps on the batches of another feed.

    If steps have threads, the threads work on the next batches while the consumer uses a batch. An
    error is raised in place of its batch, and again at each later call. Ctrl-C in a step is raised
    once; in place of its batch, each later call raises a RuntimeError.

    Args:
        feed: the feed that the batches come from.
        steps: the steps that the batches pass through.
        order: seed and epoch, from which the seeds of the rows are derived.
        files: the files of the dataset, for messages.
        prefetch: most batches to work on ahead of the consumer.
    """

    def __init__(
        self,
        feed: OpenFeed,
        steps: Steps,
        order: SeedKey,
        files: Sequence[SourceFile],
        prefetch: int,
    ) -> None:
        super().__init__(feed)
        self._steps = steps
        self._order = order
        self._files = files
        self._ahead = min(prefetch, steps.most_ahead)
        self._works: deque[_Work] = deque()
        self._ended = False
        self._got: Batch | None = None  # a batch whose work did not begin, because of Ctrl-C
        self._feed_s = 0.0  # seconds of this call spent waiting for the feed
        self._pid = os.getpid()

    def next(self, mark: BatchPosition) -> Batch | None:
        """Return the next batch, with the position `mark`; None at the end."""
        if self._pid != os.getpid():
            raise RuntimeError("Expected a pass of this process, got one from before fork")
        start, self._feed_s = time.perf_counter(), 0.0
        try:
            work = self._next(mark)
        finally:
            self._steps.seconds += time.perf_counter() - start - self._feed_s
        if work is None:
            return None
        # An interrupt until here leaves the batch to the next call. Python looks at signals in
        # calls, so there is none from here on.
        if self._works:  # another thread may close the feed
            del self._works[0]
        return work.batch

    def close(self) -> None:
        """Abandon the batches that are left. Idempotent."""
        self._ended = True
        # After a fork the jobs belong to threads of the parent, which may have held their locks.
        if self._pid == os.getpid():
            for work in self._works:
                work.cancel()
        self._works.clear()
        self._got = None
        super().close()

    def _next(self, mark: BatchPosition) -> _Work | None:
        """Return the work on the next batch, finished and still the first one; None at the end."""
        if not self._works and not self._ended:
            self._take(mark)
        self._look_ahead(self._ahead + 1, mark)
        for work in self._works:
            work.go_on()
        if not self._works:
            return None
        work = self._works[0]
        work.finish(self._location, mark)
        self._look_ahead(self._ahead + 1, mark)
        return work

    def _look_ahead(self, most: int, mark: BatchPosition) -> None:
        """Begin the work on batches that are ready, until `most` batches are in work."""
        while len(self._works) < most and not self._ended and self._feed.ready:
            try:
                self._take(mark)
            except Exception as error:  # noqa: BLE001 - raised in place of its batch
                self._ended = True
                self._works.append(_Work(None, error))

    def _take(self, mark: BatchPosition) -> None:
        """Wait for the next batch, and begin the work on it."""
        start = time.perf_counter()
        try:
            if self._got is None:
                self._got = self._feed.next(mark)
        finally:
            self._feed_s += time.perf_counter() - start
        if self._got is None:
            self._ended = True
            return
        running = run_steps(self._got, self._steps, self._order, self._files, self._steps.pool)
        work = _Work(running)
        self._got = None
        self._works.append(work)
        work.go_on()

    def _location(self, mark: BatchPosition) -> str:
        delivered = sum(leg.delivered for leg in mark.position.progress)
        return f"after {delivered - 1} batches of epoch {mark.start.epoch}"


class _Work:
    """The work of the steps on one batch.

    Args:
        running: the running steps; None if the feed raised `error`.
        error: the error that the feed raised instead of the batch.

    Attributes:
        batch: the batch, once the steps have finished.
    """

    def __init__(
        self,
        running: Generator[Job, None, Batch] | None,
        error: BaseException | None = None,
    ) -> None:
        self._running = running
        self._job: Job | None = None  # the job that the steps wait for
        self.batch: Batch | None = None
        self._error = error
        self._of_steps = running is not None
        self._ended = ""  # why the pass raises, once an error was raised

    def go_on(self) -> None:
        """Run the steps as far as possible without waiting for threads."""
        while self._running is not None and (self._job is None or self._job.done):
            try:
                self._job = next(self._running)
            except StopIteration as end:
                self.batch, self._running = end.value, None
            except Exception as error:  # noqa: BLE001 - raised in place of the batch
                # Without this frame, which refers to this object: the two would be a cycle.
                tail = error.__traceback__ and error.__traceback__.tb_next
                self._error, self._running = error.with_traceback(tail), None
            except BaseException as error:  # Ctrl-C is raised at once, and only once
                self._ended, self._running = _ended_by(error, " in a step"), None
                raise

    def finish(self, location: Callable[[BatchPosition], str], mark: BatchPosition) -> None:
        """Finish the batch at position `mark`, or raise the error of a step with its location."""
        while self._running is not None:
            if self._job is not None:
                self._job.wait()
            self.go_on()
        if self._ended:
            raise RuntimeError(self._ended)
        error, self._error = self._error, None
        try:
            if error is not None:
                # Only its name is kept: a traceback refers to the pass, and they would be a cycle.
                self._ended = _ended_by(error)
                if self._of_steps:
                    note(error, location(mark))
                raise error
        finally:
            del error  # the traceback refers to this frame too
        assert self.batch is not None
        self.batch._position = mark  # noqa: SLF001

    def cancel(self) -> None:
        """Abandon the job that the steps wait for."""
        if self._job is not None:
            self._job.cancel()


def _ended_by(error: BaseException, where: str = "") -> str:
    """Return what a pass says that is asked for more after an error, or after Ctrl-C in a step.

    The values of the step's batch may be half-made.
    """
    return (
        f"{type(error).__name__}{where} ended this pass: call iter() again; "
        "load_state_dict(state_dict()) before it continues the epoch after the last batch"
    )
