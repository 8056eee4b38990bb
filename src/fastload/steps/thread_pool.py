"""Threads on which steps of `preprocess` work."""

from __future__ import annotations

import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

__all__ = ["Job", "StepPool"]

# A thread goes back to the executor this often, which tells whether the interpreter is ending.
_TURN_S = 0.05


class Job(Protocol):
    """What a step does with one block."""

    @property
    def done(self) -> bool:
        """Whether there is a result, or an error, or nothing more will come."""

    def wait(self) -> None:
        """Until it is done; Ctrl-C interrupts it."""

    def chunks(self, threads: int) -> list[tuple[int, int]]:
        """Its rows, cut into ranges that so many threads may work on at a time."""

    def run(self, start: int, stop: int) -> None:
        """Works on one of the ranges; raises nothing."""

    def cancel(self) -> None:
        """What is not in work is left out. Idempotent."""


class StepPool:
    """Threads for jobs, which they begin in the order in which they were given.

    The threads start with the first job, and end with close(), with the pool and with the
    interpreter, whichever comes first.

    Args:
        threads: how many; 0 = the caller's.
    """

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._executor = ThreadPoolExecutor(max(1, threads), "fastload-steps")
        self._lock = threading.Lock()
        self._waiting: deque[tuple[Job, int, int]] = deque()
        self._busy = 0
        self._closed = False

    def begin(self, job: Job) -> None:
        """Puts a job behind the others; once the pool is closed, it is cancelled."""
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
            self._busy += more
            # With the lock: close() comes before all of this or after it.
            for _ in range(more):
                self._executor.submit(self._take_turn)

    def close(self) -> None:
        """Ends the threads after what they have in work. Idempotent."""
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
            job.run(start, stop)
        try:
            self._executor.submit(self._take_turn)
        except RuntimeError:
            return  # no more turns: closed, or the interpreter is ending
