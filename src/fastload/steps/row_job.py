"""Job of `per_row`: calls of a function for each row of one block."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from fastload.steps.per_row import name_of
from fastload.steps.row_values import RefusedRowError, RowValues, rows_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import torch

    from fastload.batch.ragged import Ragged
    from fastload.steps.per_row import PerRow

__all__ = ["RowJob"]

# The most rows that a thread takes at once: few, so that all threads end at about the same time.
_MOST_CHUNK_ROWS = 16
_CHUNKS_PER_THREAD = 4


class RowJob:
    """Calls a step's function for each row of a block; a `Job`.

    Args:
        step: the step.
        columns: the step's inputs.
        rows: the number of rows in the block.
        location: returns the file and number of a row, for messages.
    """

    def __init__(
        self,
        step: PerRow,
        columns: Sequence[torch.Tensor | Ragged],
        rows: int,
        location: Callable[[int], str],
    ) -> None:
        self._step = step
        self._columns = columns
        self._location = location
        self._rows = rows
        self._values = [RowValues(rows, layout) for layout in step.layouts]
        self._outputs: dict[str, torch.Tensor | Ragged] = {}
        self._error: Exception | None = None
        self._left = rows
        self._lock = threading.Lock()
        self._over = threading.Event()

    @property
    def done(self) -> bool:
        """True once the job has a result or an error, or has been cancelled."""
        return self._over.is_set()

    def wait(self) -> None:
        """Wait until the job is done. Ctrl-C interrupts the wait."""
        self._over.wait()

    def outputs(self) -> dict[str, torch.Tensor | Ragged]:
        """Return the outputs by name. The job has to be done.

        Raises:
            RuntimeError: the function failed for a row (the function's error is the cause), or the
                job was cancelled.
            ValueError: a row's value does not fit the other values.
        """
        if self._error is not None:
            cause = self._error.__cause__
            # Ctrl-C reaches a function that the main thread itself has called (threads=0).
            raise cause if isinstance(cause, KeyboardInterrupt) else self._error
        return self._outputs

    def chunks(self, threads: int) -> list[tuple[int, int]]:
        """Divide all rows into ranges (start, stop)."""
        rows = self._rows
        size = max(1, min(_MOST_CHUNK_ROWS, rows // max(1, threads * _CHUNKS_PER_THREAD)))
        return [(start, min(start + size, rows)) for start in range(0, rows, size)]

    def run(self, start: int, stop: int) -> None:
        """Call the function for a range of rows, and keep its results or its error.

        Raises nothing.
        """
        if self.done:
            return
        row = start
        try:
            columns = [rows_of(column[start:stop]) for column in self._columns]
            for row, arguments in enumerate(zip(*columns, strict=True), start):
                if self._over.is_set():
                    return
                self._put(row, self._step.fn(*arguments))
        except RefusedRowError as refused:
            self._refuse(refused)
            return
        except BaseException as error:  # noqa: BLE001 - raised where the batch is asked for
            self._fail(self._failed(row, error), error)
            return
        with self._lock:
            self._left -= stop - start
            last = not self._left
        if last:
            self._collate()
            self._over.set()

    def cancel(self) -> None:
        """End the job without a result, unless the job is done. Idempotent."""
        self._fail(RuntimeError("Expected an open dataset, got one that was closed"), None)

    def _put(self, row: int, value: Any) -> None:
        outputs = self._step.outputs
        parts = (value,) if len(outputs) == 1 else self._parts(row, value)
        for name, values, part in zip(outputs, self._values, parts, strict=True):
            try:
                values.put(row, part)
            except RefusedRowError as refused:
                raise refused.of(name) from refused.__cause__

    def _parts(self, row: int, value: Any) -> tuple[Any, ...]:
        count = len(self._step.outputs)
        if isinstance(value, tuple) and len(value) == count:
            return value
        got = str(len(value)) if isinstance(value, tuple) else type(value).__name__
        raise RefusedRowError(row, f"Expected a tuple of {count} values, got {got} as the result")

    def _collate(self) -> None:
        try:
            for name, values in zip(self._step.outputs, self._values, strict=True):
                self._outputs[name] = values.column()
        except RefusedRowError as refused:
            self._refuse(refused.of(name))
        except Exception as error:  # noqa: BLE001 - raised where the batch is asked for
            what = f"Expected values that make an output `{name}` of {self._label}"
            self._fail(RuntimeError(f"{what}, got {type(error).__name__}: {error}"), error)
        self._columns, self._values = (), []

    @property
    def _label(self) -> str:
        return f"per_row step `{name_of(self._step.fn)}`"

    def _failed(self, row: int, error: BaseException) -> Exception:
        return RuntimeError(
            f"Expected {self._label} to take the row, got {type(error).__name__}: {error} - at "
            f"{self._location(row)}"
        )

    def _refuse(self, refused: RefusedRowError) -> None:
        error = ValueError(f"{refused} of {self._label} - at {self._location(refused.row)}")
        self._fail(error, refused.__cause__)

    def _fail(self, error: Exception, cause: BaseException | None) -> None:
        """Keep an error, unless the job has a result or an earlier error."""
        with self._lock:
            if not self.done:
                error.__cause__ = cause
                self._error = error
                self._over.set()
