"""Requests for byte ranges of stores: their slots, and the answers to the core's requests."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import TYPE_CHECKING, Protocol, TypeAlias

from fastload.errors import SourceChangedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer

    from fastload.runtime.native import core
    from fastload.source.files import StoredFile

__all__ = ["QueueService", "RequestSlots", "Served"]

# The files of a queue, each with its kind.
Served: TypeAlias = "Sequence[tuple[str, StoredFile]]"
# Number of the request, number of the file, offset and bytes, as the core sends them.
_Request: TypeAlias = "tuple[int, int, int, int]"


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


class RangeReader(Protocol):
    """Reads byte ranges of files: the part of `StoreClient` that a queue's requests go through."""

    slots: RequestSlots

    async def read(self, kind: str, file: StoredFile, start: int, stop: int) -> Buffer:
        """Return the bytes [start, stop) of a file."""


class QueueService:
    """Answers the requests in queues, with as many coroutines as the client has slots.

    All methods must be called in the client's event loop.

    Args:
        client: client that reads byte ranges.
        loop: event loop of the client.
    """

    def __init__(self, client: RangeReader, loop: asyncio.AbstractEventLoop) -> None:
        self._client = client
        self._loop = loop
        self._queues: dict[core.RemoteQueue, Served] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def serve(self, queue: core.RemoteQueue, files: Served) -> None:
        """Answer the requests in a queue for ranges of `files`, until the queue is closed."""
        self._queues[queue] = files
        self._loop.add_reader(queue.wake_fd, self._serve, queue)
        self._serve(queue)

    async def close(self) -> None:
        """End all requests; callers that wait for bytes get an error."""
        for queue in list(self._queues):
            queue.close()
            self._forget(queue)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _forget(self, queue: core.RemoteQueue) -> None:
        self._loop.remove_reader(queue.wake_fd)
        self._queues.pop(queue, None)

    def _serve(self, queue: core.RemoteQueue) -> None:
        if queue not in self._queues:
            return
        # A task may not have taken its slot yet, or have freed the slot until it retries.
        slots = self._client.slots
        busy = max(slots.taken, len(self._tasks))
        for request in queue.take(max(0, slots.limit - busy)):
            task = self._loop.create_task(self._answer(queue, request))
            self._tasks.add(task)
            task.add_done_callback(self._ended)
        if queue.closed:
            self._forget(queue)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        for queue in list(self._queues):
            self._serve(queue)

    async def _answer(self, queue: core.RemoteQueue, request: _Request | None) -> None:
        """Answer a request and, while enough slots are free, the next requests of the queue."""
        while request is not None:
            number, file, start, length = request
            try:
                kind, stored = self._queues[queue][file]
                data = await self._client.read(kind, stored, start, start + length)
            except asyncio.CancelledError:
                queue.fail(number, changed=False, message="The dataset was closed")
                raise
            except Exception as error:  # noqa: BLE001 - the core raises it to the caller
                changed = isinstance(error, SourceChangedError)
                queue.fail(number, changed=changed, message=str(error))
                return
            slots = self._client.slots
            room = not slots.crowded and len(self._tasks) <= slots.limit
            request = queue.finish(number, data, take=room and queue in self._queues)
