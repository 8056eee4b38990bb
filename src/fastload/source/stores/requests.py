"""Answers to the core's requests for byte ranges of stores."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol, TypeAlias

from fastload.errors import SourceChangedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer

    from fastload.runtime.native import core
    from fastload.source.files import StoredFile
    from fastload.source.stores.request_slots import RequestSlots

__all__ = ["QueueService", "Served"]

# The files of a queue, each with its kind.
Served: TypeAlias = "Sequence[tuple[str, StoredFile]]"
# Number of the request, number of the file, offset and bytes, as the core sends them.
_Request: TypeAlias = "tuple[int, int, int, int]"


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
