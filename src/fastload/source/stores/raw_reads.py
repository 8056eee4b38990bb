"""Reads of one client through the raw tier: from disk, else once from the store."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from typing_extensions import Buffer

    from fastload.runtime.native import core
    from fastload.source.files import StoredFile
    from fastload.source.stores.raw_tier import RawTier

__all__ = ["RawReads"]

_WRITERS = 2
# The limit of the bytes that wait for the writers: four of the largest requests of IO's defaults.
# The core's own buffers don't count.
_MOST_HELD_BYTES = 32 << 20
# The threads that read entries from disk for requests that reach Python.
_READERS = 4
# Pauses before this process looks again for an entry that another process fetches.
_FIRST_POLL_S = 0.002
_MOST_POLL_S = 0.05


class _Writing(NamedTuple):
    """A byte range on its way to disk.

    Attributes:
        name: name of the file's object in the tier.
        start: offset of the range in the file.
        stop: offset of the end of the range.
        done: completed when the range has been written, or given up.
        publish: writes the range.
    """

    name: str
    start: int
    stop: int
    done: asyncio.Future[None]
    publish: Callable[[], None]


class RawReads:
    """Reads byte ranges for the requests of one event loop, through the raw tier.

    Args:
        tier: the ranges on disk.
        patience_s: seconds to wait while another process fetches a range, before this process
            fetches the range too.
    """

    def __init__(self, tier: RawTier, patience_s: float) -> None:
        self._tier = tier
        self._patience_s = patience_s
        self._readers = ThreadPoolExecutor(_READERS, "fastload-cache")
        self._held_bytes = 0
        self._writing: dict[str, list[_Writing]] = {}
        self._to_write: SimpleQueue[_Writing | None] = SimpleQueue()
        self._writers: list[threading.Thread] = []

    async def read(
        self,
        kind: str,
        file: StoredFile,
        start: int,
        stop: int,
        fetch: Callable[[], Awaitable[Buffer]],
    ) -> Buffer:
        """Read the bytes [start, stop) of a file, from disk or with `fetch` from the store."""
        name = self._tier.name_of(kind, file)
        if not name or stop <= start:
            return await fetch()
        given_up = time.monotonic() + self._patience_s
        poll_s = _FIRST_POLL_S
        while True:
            await self._written(name, start, stop)
            kept = await self._kept(name, start, stop)
            if kept is not None:
                return kept
            claim = self._tier.claim(name, start, stop) if self._tier.writes else None
            if claim is not None:
                try:
                    data = await fetch()
                except BaseException:
                    claim.release()
                    raise
                await self._fill(claim, kind, file, start, stop, data)
                return data
            if not self._tier.writes or time.monotonic() > given_up:
                return await fetch()
            await asyncio.sleep(poll_s)
            poll_s = min(_MOST_POLL_S, 2 * poll_s)

    async def flush(self) -> None:
        """Wait until all ranges that are being written are on disk."""
        writing = [each.done for all_of in self._writing.values() for each in all_of]
        if writing:
            await asyncio.wait(writing)

    def close(self) -> None:
        """End the threads."""
        self._readers.shutdown(wait=False)
        for _ in self._writers:
            self._to_write.put(None)

    async def _written(self, name: str, start: int, stop: int) -> None:
        """Wait until all ranges that overlap [start, stop) and are being written are on disk."""
        own = [w.done for w in self._writing.get(name, ()) if w.start < stop and start < w.stop]
        if own:
            await asyncio.wait(own)

    async def _kept(self, name: str, start: int, stop: int) -> Buffer | None:
        ranges = self._tier.ranges
        if not ranges.covers(name, start, stop):
            return None
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._readers, ranges.read, name, start, stop)

    async def _fill(
        self,
        claim: core.RangeClaim,
        kind: str,
        file: StoredFile,
        start: int,
        stop: int,
        data: Buffer,
    ) -> None:
        """Pass an entry to the writers, as soon as its bytes may be held."""
        try:
            await self._room_for(stop - start)
        except BaseException:
            claim.release()
            raise
        name = self._tier.name_of(kind, file)
        loop = asyncio.get_running_loop()
        publish = partial(self._tier.publish, claim, name, kind, file, data)
        writing = _Writing(name, start, stop, loop.create_future(), publish)
        self._writing.setdefault(name, []).append(writing)
        if len(self._writers) < _WRITERS:
            # Writers are daemons: closing the client waits for the writes, not for the threads.
            arguments = (loop,)
            thread = threading.Thread(target=self._write, args=arguments, daemon=True)
            self._writers.append(thread)
            thread.start()
        self._held_bytes += stop - start
        self._to_write.put(writing)

    async def _room_for(self, data_bytes: int) -> None:
        """Wait until `data_bytes` more bytes may be held; a single request always may be."""
        while self._held_bytes and self._held_bytes + data_bytes > _MOST_HELD_BYTES:
            writing = [each.done for all_of in self._writing.values() for each in all_of]
            await asyncio.wait(writing, return_when=asyncio.FIRST_COMPLETED)

    def _write(self, loop: asyncio.AbstractEventLoop) -> None:
        """Write ranges until the queue yields None. Runs in a writer's thread."""
        while (writing := self._to_write.get()) is not None:
            writing.publish()
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(self._forget, writing)
            del writing  # frees the bytes that the object holds

    def _forget(self, writing: _Writing) -> None:
        self._writing[writing.name].remove(writing)
        if not self._writing[writing.name]:
            del self._writing[writing.name]
        writing.done.set_result(None)
        self._held_bytes -= writing.stop - writing.start
