"""A gate that lets a few threads through at a time."""

from __future__ import annotations

import heapq
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator

__all__ = ["Gate"]


class Gate:
    """Lets a few threads through at a time, of those that wait whose number is the least.

    Threads that wait here don't wait for the GIL, so that who is through has it.

    Args:
        at_once: threads that may be through.
    """

    def __init__(self, at_once: int) -> None:
        self._lock = threading.Lock()
        self._free = at_once
        # Each waits for a lock of its own, which is what wakes it alone.
        self._waiting: list[tuple[int, int, threading.Lock]] = []

    @contextmanager
    def passed(self, number: int) -> Generator[None, None, None]:
        """To be through while in it."""
        self._enter(number)
        try:
            yield
        finally:
            self._leave()

    def _enter(self, number: int) -> None:
        with self._lock:
            if self._free:
                self._free -= 1
                return
            mine = threading.Lock()
            mine.acquire()
            heapq.heappush(self._waiting, (number, id(mine), mine))
        mine.acquire()

    def _leave(self) -> None:
        with self._lock:
            if self._waiting:
                heapq.heappop(self._waiting)[-1].release()
            else:
                self._free += 1
