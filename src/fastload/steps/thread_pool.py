"""Thread pool for the functions of `per_row` and `per_block`."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from concurrent.futures import ThreadPoolExecutor

from fastload.runtime.fork_gate import gate

__all__ = ["Job", "StepPool"]

# A thread returns to the executor this often, and the executor refuses it a new turn when the
# interpreter is ending.
_TURN_S = 0.05


class Job(ABC):
    """The work of a step on one block."""

    def __init__(self) -> None:
        self._error: BaseException | None = None
        self._lock = threading.Lock()
        self._over = threading.Event()

    @property
    def done(self) -> bool:
        """True once the job has a result or an error, or has been cancelled."""
        return self._over.is_set()

    def wait(self) -> None:
        """Wait until the job is done. Ctrl-C interrupts the wait."""
        self._over.wait()

    @abstractmethod
    def chunks(self, threads: int) -> list[tuple[int, int]]:
        """Divide the job's rows into ranges (start, stop) for `threads` threads."""

    @abstractmethod
    def run(self, start: int, stop: int) -> None:
        """Work on one range; raises nothing."""

    def cancel(self) -> None:
        """End the job without a result, unless the job is done. Idempotent."""
        self._end(RuntimeError("Expected an open dataset, got one that was closed"))

    def raise_error(self) -> None:
        """Raise the error of the job, once; without effect on a job that has none.

        The job forgets the error, whose traceback refers to the job: the two would be a cycle.
        """
        error, self._error = self._error, None
        try:
            if error is not None:
                raise error
        finally:
            del error  # the traceback refers to this frame too

    def _end(self, error: BaseException | None) -> None:
        """End the job, and keep its error if it has one; do nothing if the job is done."""
        with self._lock:
            if not self.done:
                self._error = error
                self._over.set()


class StepPool:
    """Threads that work on jobs, in the order in which the jobs were passed to `begin`.

    The threads start with the first job. They end with close(), with the pool or with the
    interpreter, whichever comes first.

    Args:
        threads: the number of threads; 0 = the caller of `begin` works on the job.
    """

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._executor = ThreadPoolExecutor(max(1, threads), "fastload-steps")
        self._lock = threading.Lock()
        self._waiting: deque[tuple[Job, int, int]] = deque()
        self._busy = 0
        self._closed = False

    def begin(self, job: Job) -> None:
        """Add a job after all others; cancel the job if the pool is closed."""
        chunks = job.chunks(self._threads)
        if not self._threads:
            for start, stop in chunks:
                job.run(start, stop)
            return
        with self._lock:
            if self._closed:
                job.cancel()
                return
            self._waiting.extend((job, *chunk) for chunk in chunks)
            more = min(len(self._waiting), self._threads - self._busy)
            # Submitted under the lock, so that close() runs either before or after all submissions.
            for _ in range(more):
                self._executor.submit(self._take_turn)
                self._busy += 1  # not before, because the system may refuse the thread

    def close(self) -> None:
        """End the threads once they have finished the ranges in work. Idempotent."""
        with self._lock:
            self._closed = True
            jobs = {job for job, _, _ in self._waiting}
            self._waiting.clear()
        for job in jobs:
            job.cancel()
        self._executor.shutdown(cancel_futures=True)

    def _take_turn(self) -> None:
        until = time.monotonic() + _TURN_S
        while time.monotonic() < until:
            with self._lock:
                if not self._waiting:
                    self._busy -= 1
                    return
                job, start, stop = self._waiting.popleft()
            with gate:
                job.run(start, stop)
            del job  # as in `run`
        try:
            self._executor.submit(self._take_turn)
        except RuntimeError:
            return  # the executor was closed, or the interpreter is ending
