"""The work of `per_row` on one block: a function called for each row."""

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

# Rows that a thread takes at once: few enough that all threads end at about the same time.
_MOST_CHUNK_ROWS = 16
_CHUNKS_PER_THREAD = 4


class RowJob:
    """The rows of one block: a `Job`.

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
        self._rows = rows
        self._values = [RowValues(rows, layout) for layout in step.layouts]
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
        rows = self._rows
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
                self._put(row, self._step.fn(*arguments))
        except RefusedRowError as refused:
            self._refuse(refused)
            return
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
        except Exception as error:  # noqa: BLE001 - likewise
            what = f"Expected values that make an output `{name}` of {self._label}"
            self._fail(RuntimeError(f"{what}, got {type(error).__name__}: {error}"), error)
        self._columns, self._values = (), []

    @property
    def _label(self) -> str:
        return f"per_row step `{name_of(self._step.fn)}`"

    def _failed(self, row: int, error: BaseException) -> Exception:
        return RuntimeError(
            f"Expected {self._label} to take the row, got {type(error).__name__}: {error} - at "
            f"{self._place(row)}"
        )

    def _refuse(self, refused: RefusedRowError) -> None:
        error = ValueError(f"{refused} of {self._label} - at {self._place(refused.row)}")
        self._fail(error, refused.__cause__)

    def _fail(self, error: Exception, cause: BaseException | None) -> None:
        """The first error counts, unless there is a result."""
        with self._lock:
            if not self.done:
                error.__cause__ = cause
                self._error = error
                self._over.set()
