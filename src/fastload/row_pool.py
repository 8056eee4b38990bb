"""Threads that call a function for each row of a block."""

from __future__ import annotations

import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from fastload.per_row import name_of
from fastload.row_values import RefusedRowError, column_of, rows_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import torch

    from fastload.per_row import PerRow
    from fastload.ragged import Ragged

__all__ = ["RowJob", "RowPool"]

# Rows that a thread takes at once: few enough that all threads end at about the same time.
_MOST_CHUNK_ROWS = 16
_CHUNKS_PER_THREAD = 4
# A thread goes back to the executor this often, which tells whether the interpreter is ending.
_TURN_S = 0.05


class RowJob:
    """The rows of one block.

    Args:
        step: what to do.
        columns: its inputs.
        rows: of the block.
        place: where a row comes from, for messages.
    """

    def __init__(
        self,
        step: PerRow,
        columns: Sequence[torch.Tensor | Ragged],
        rows: int,
        place: Callable[[int], str],
    ) -> None:
        self._step = step
        self._columns = columns
        self._place = place
        self._values: list[Any] = [None] * rows
        self._outputs: dict[str, torch.Tensor | Ragged] = {}
        self._error: Exception | None = None
        self._left = rows
        self._lock = threading.Lock()
        self._over = threading.Event()

    @property
    def done(self) -> bool:
        """Whether there is a result, or an error, or nothing more will come."""
        return self._over.is_set()

    def wait(self) -> None:
        """Until it is done; Ctrl-C interrupts it."""
        self._over.wait()

    def outputs(self) -> dict[str, torch.Tensor | Ragged]:
        """The outputs by name, of a job that is done.

        Raises:
            RuntimeError: the function failed for a row; that error is the cause.
            ValueError: a row's value does not go with the others.
        """
        if self._error is not None:
            cause = self._error.__cause__
            # Of a function that the thread itself has called.
            raise cause if isinstance(cause, KeyboardInterrupt) else self._error
        return self._outputs

    def chunks(self, threads: int) -> list[tuple[int, int]]:
        """All rows, cut into ranges."""
        rows = len(self._values)
        size = max(1, min(_MOST_CHUNK_ROWS, rows // max(1, threads * _CHUNKS_PER_THREAD)))
        return [(start, min(start + size, rows)) for start in range(0, rows, size)]

    def run(self, start: int, stop: int) -> None:
        """Calls the function for a range of rows; raises nothing."""
        if self.done:
            return
        row = start
        try:
            columns = [rows_of(column[start:stop]) for column in self._columns]
            for row, arguments in enumerate(zip(*columns, strict=True), start):
                if self._over.is_set():
                    return
                self._values[row] = self._step.fn(*arguments)
        except BaseException as error:  # noqa: BLE001 - told to whoever asked for the batch
            self._fail(self._failed(row, error), error)
            return
        with self._lock:
            self._left -= stop - start
            last = not self._left
        if last:
            self._collate()
            self._over.set()

    def cancel(self) -> None:
        """Rows that are not in work are left out. Idempotent."""
        self._fail(RuntimeError("Expected an open dataset, got one that was closed"), None)

    def _collate(self) -> None:
        where = self._label
        try:
            columns = zip(self._step.outputs, self._step.layouts, self._by_output(), strict=True)
            for name, layout, values in columns:
                where = f"output `{name}` of {self._label}"
                self._outputs[name] = column_of(values, layout)
        except RefusedRowError as refused:
            at = self._place(refused.row)
            self._fail(ValueError(f"{refused} in {where} - at {at}"), None)
        except Exception as error:  # noqa: BLE001 - likewise
            self._fail(RuntimeError(f"Expected values of rows that torch takes in {where}"), error)

    def _by_output(self) -> list[Sequence[Any]]:
        count = len(self._step.outputs)
        if count == 1:
            return [self._values]
        for row, value in enumerate(self._values):
            if not isinstance(value, tuple) or len(value) != count:
                got = f"{len(value)}" if isinstance(value, tuple) else type(value).__name__
                raise RefusedRowError(row, f"Expected a tuple of {count} values, got {got}")
        return list(zip(*self._values, strict=True))

    @property
    def _label(self) -> str:
        return f"per_row step `{name_of(self._step.fn)}`"

    def _failed(self, row: int, error: BaseException) -> Exception:
        return RuntimeError(
            f"Expected {self._label} to take the row, got {type(error).__name__}: {error} - at "
            f"{self._place(row)}"
        )

    def _fail(self, error: Exception, cause: BaseException | None) -> None:
        """The first error counts, unless there is a result."""
        with self._lock:
            if not self.done:
                error.__cause__ = cause
                self._error = error
                self._over.set()


class RowPool:
    """Threads for jobs, which they begin in the order in which they were given.

    The threads start with the first job, and end with close(), with the pool and with the
    interpreter, whichever comes first.

    Args:
        threads: how many; 0 = the caller's.
    """

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._executor = ThreadPoolExecutor(max(1, threads), "fastload-rows")
        self._lock = threading.Lock()
        self._waiting: deque[tuple[RowJob, int, int]] = deque()
        self._busy = 0

    def begin(self, job: RowJob) -> None:
        """Puts a job behind the others."""
        chunks = job.chunks(self._threads)
        if not self._threads:
            for start, stop in chunks:
                job.run(start, stop)
            return
        with self._lock:
            self._waiting.extend((job, *chunk) for chunk in chunks)
            more = min(len(self._waiting), self._threads - self._busy)
            self._busy += more
        for _ in range(more):
            self._executor.submit(self._take_turn)

    def close(self) -> None:
        """Ends the threads after the rows that are in work. Idempotent."""
        with self._lock:
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
