"""The limit of requests in flight, which shrinks while a store asks for fewer."""

from __future__ import annotations

import asyncio
import time
from collections import deque

__all__ = ["RequestSlots"]


class RequestSlots:
    """Slots for requests in flight, taken by the coroutines of one event loop in order.

    Args:
        most: number of slots while the store does not ask for fewer requests.
    """

    def __init__(self, most: int) -> None:
        self._most = float(most)
        self._limit = float(most)
        self._taken = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._reduced = 0.0

    @property
    def limit(self) -> int:
        """The present number of slots."""
        return int(self._limit)

    @property
    def taken(self) -> int:
        """The number of slots that requests hold."""
        return self._taken

    @property
    def crowded(self) -> bool:
        """True if a coroutine waits for a slot, or more slots are taken than the limit allows."""
        return bool(self._waiting) or self._taken > self.limit

    async def take(self) -> None:
        """Wait for a slot, and take it."""
        if not self._waiting and self._taken < self.limit:
            self._taken += 1
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if not waiter.cancelled():  # the slot came in the moment of the cancellation
                self.free()
            elif waiter in self._waiting:
                self._waiting.remove(waiter)
            raise

    def free(self) -> None:
        """Give a slot back."""
        self._taken -= 1
        while self._waiting and self._taken < self.limit:
            waiter = self._waiting.popleft()
            if not waiter.done():  # a cancelled coroutine takes no slot
                waiter.set_result(None)
                self._taken += 1

    def grow(self) -> None:
        """Grow the limit after an answer: by one slot for each round of answers to all slots."""
        if self._limit < self._most:
            self._limit = min(self._most, self._limit + 1 / self._limit)

    def shrink(self, began: float) -> None:
        """Halve the limit after an answer that asks for fewer requests.

        The answer to a request that began before the last reduction changes nothing.

        Args:
            began: time.monotonic() when the request began.
        """
        if began >= self._reduced:
            self._reduced = time.monotonic()
            self._limit = max(1.0, self._limit / 2)
