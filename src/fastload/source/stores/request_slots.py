"""How many requests are in flight at a store: fewer while it asks for that."""

from __future__ import annotations

import asyncio
import time
from collections import deque

__all__ = ["RequestSlots"]


class RequestSlots:
    """Places of requests, which coroutines of one event loop take in turns.

    Args:
        most: places there are, while the store asks for no fewer.
    """

    def __init__(self, most: int) -> None:
        self._most = float(most)
        self._limit = float(most)
        self._taken = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._reduced = 0.0

    @property
    def limit(self) -> int:
        """Places there are now."""
        return int(self._limit)

    @property
    def taken(self) -> int:
        """The number of slots that requests hold."""
        return self._taken

    @property
    def crowded(self) -> bool:
        """Whether somebody waits for one, or more are taken than there are now."""
        return bool(self._waiting) or self._taken > self.limit

    async def take(self) -> None:
        """Waits for one."""
        if not self._waiting and self._taken < self.limit:
            self._taken += 1
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if not waiter.cancelled():  # it was given one as it was cancelled
                self.free()
            elif waiter in self._waiting:
                self._waiting.remove(waiter)
            raise

    def free(self) -> None:
        """Gives one back."""
        self._taken -= 1
        while self._waiting and self._taken < self.limit:
            waiter = self._waiting.popleft()
            if not waiter.done():  # else it was cancelled, and is to learn of it
                waiter.set_result(None)
                self._taken += 1

    def grow(self) -> None:
        """After an answer: one more a round."""
        if self._limit < self._most:
            self._limit = min(self._most, self._limit + 1 / self._limit)

    def shrink(self, began: float) -> None:
        """After an answer that asks for fewer, to a request from then (of time.monotonic).

        What requests tell that began before there were fewer is known already.
        """
        if began >= self._reduced:
            self._reduced = time.monotonic()
            self._limit = max(1.0, self._limit / 2)
