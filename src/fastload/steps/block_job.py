"""Job of `per_block`: a single call of a function with one block."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastload.steps.block import Block

__all__ = ["BlockJob"]


class BlockJob:
    """Calls a function with a block; a `Job`.

    Args:
        fn: the function to call.
        block: the function's argument.
    """

    def __init__(self, fn: Callable[[Block], Any], block: Block) -> None:
        self._fn = fn
        self._block = block
        self._returned: Any = None
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

    def returned(self) -> Any:
        """Return the function's result. The job has to be done.

        Raises:
            BaseException: the error that the function raised.
            RuntimeError: the job was cancelled.
        """
        if self._error is not None:
            raise self._error
        return self._returned

    def chunks(self, _threads: int) -> list[tuple[int, int]]:
        """Return a single chunk, because the function takes the whole block."""
        return [(0, 1)]

    def run(self, _start: int = 0, _stop: int = 1) -> None:
        """Call the function, and keep its result or its error; raises nothing."""
        if self.done:
            return
        try:
            returned = self._fn(self._block)
        except BaseException as error:  # noqa: BLE001 - raised where the batch is asked for
            self._end(None, error)
        else:
            self._end(returned, None)

    def cancel(self) -> None:
        """End the job without a result, unless the function has returned. Idempotent."""
        self._end(None, RuntimeError("Expected an open dataset, got one that was closed"))

    def _end(self, returned: Any, error: BaseException | None) -> None:
        with self._lock:
            if not self.done:
                self._returned, self._error = returned, error
                self._over.set()
