"""The work of `per_block` on one block: a single call."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastload.steps.block import Block

__all__ = ["BlockJob"]


class BlockJob:
    """A call of a function with a block: a `Job`.

    Args:
        fn: the function.
        block: what it is given.
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
        """Whether there is a result, or an error, or nothing more will come."""
        return self._over.is_set()

    def wait(self) -> None:
        """Until it is done; Ctrl-C interrupts it."""
        self._over.wait()

    def returned(self) -> Any:
        """What the function returned, of a job that is done.

        Raises what the function raised; a RuntimeError after `cancel`.
        """
        if self._error is not None:
            raise self._error
        return self._returned

    def chunks(self, _threads: int) -> list[tuple[int, int]]:
        """All of it: the function takes the whole block."""
        return [(0, 1)]

    def run(self, _start: int = 0, _stop: int = 1) -> None:
        """Calls the function; raises nothing."""
        if self.done:
            return
        try:
            returned = self._fn(self._block)
        except BaseException as error:  # noqa: BLE001 - told to whoever asked for the batch
            self._end(None, error)
        else:
            self._end(returned, None)

    def cancel(self) -> None:
        """What it has not returned yet is not waited for. Idempotent."""
        self._end(None, RuntimeError("Expected an open dataset, got one that was closed"))

    def _end(self, returned: Any, error: BaseException | None) -> None:
        with self._lock:
            if not self.done:
                self._returned, self._error = returned, error
                self._over.set()
