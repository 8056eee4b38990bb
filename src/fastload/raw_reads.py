"""How one client reads through the raw tier: from disk, else from the store, once."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from typing_extensions import Buffer

    from fastload._core import RangeClaim
    from fastload.raw_tier import RawTier
    from fastload.store import StoredFile

__all__ = ["RawReads"]

# Entries that are written at a time; the bytes of as many requests are held for it.
_WRITERS = 4
# Until one that another process fills is looked for again.
_FIRST_POLL_S = 0.002
_MOST_POLL_S = 0.05


class _Writing(NamedTuple):
    """What is on its way to disk."""

    start: int
    stop: int
    task: asyncio.Task[None]


class RawReads:
    """Reads of one event loop.

    Args:
        tier: what is on disk.
        patience_s: seconds to wait for another process that fetches a range, before it is
            fetched here too.
    """

    def __init__(self, tier: RawTier, patience_s: float) -> None:
        self._tier = tier
        self._patience_s = patience_s
        self._threads = ThreadPoolExecutor(_WRITERS, "fastload-cache")
        self._room = asyncio.Semaphore(_WRITERS)
        self._writing: dict[str, list[_Writing]] = {}

    async def read(
        self,
        kind: str,
        file: StoredFile,
        start: int,
        stop: int,
        fetch: Callable[[], Awaitable[Buffer]],
    ) -> Buffer:
        """The bytes [start, stop) of a file; `fetch` brings them from the store."""
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
                return await self._fill(claim, kind, file, start, stop, fetch)
            if not self._tier.writes or time.monotonic() > given_up:
                return await fetch()
            await asyncio.sleep(poll_s)
            poll_s = min(_MOST_POLL_S, 2 * poll_s)

    async def flush(self) -> None:
        """Waits for what is being written."""
        writing = [each.task for all_of in self._writing.values() for each in all_of]
        await asyncio.gather(*writing, return_exceptions=True)

    def close(self) -> None:
        """Ends the threads."""
        self._threads.shutdown(wait=False)

    async def _written(self, name: str, start: int, stop: int) -> None:
        """Waits for what of the range is being written."""
        own = [w.task for w in self._writing.get(name, ()) if w.start < stop and start < w.stop]
        if own:
            await asyncio.wait(own)

    async def _kept(self, name: str, start: int, stop: int) -> Buffer | None:
        ranges = self._tier.ranges
        if not ranges.covers(name, start, stop):
            return None
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, ranges.read, name, start, stop)

    async def _fill(
        self,
        claim: RangeClaim,
        kind: str,
        file: StoredFile,
        start: int,
        stop: int,
        fetch: Callable[[], Awaitable[Buffer]],
    ) -> Buffer:
        try:
            data = await fetch()
            await self._room.acquire()
        except BaseException:
            claim.release()
            raise
        name = self._tier.name_of(kind, file)
        task = asyncio.ensure_future(self._publish(claim, name, kind, file, data))
        writing = _Writing(start, stop, task)
        self._writing.setdefault(name, []).append(writing)
        task.add_done_callback(lambda _: self._forget(name, writing))
        return data

    async def _publish(
        self, claim: RangeClaim, name: str, kind: str, file: StoredFile, data: Buffer
    ) -> None:
        loop = asyncio.get_running_loop()
        arguments = (claim, name, kind, file, data)
        try:
            await loop.run_in_executor(self._threads, self._tier.publish, *arguments)
        except RuntimeError:  # the interpreter ends, and starts nothing more
            claim.release()
        finally:
            self._room.release()

    def _forget(self, name: str, writing: _Writing) -> None:
        self._writing[name].remove(writing)
        if not self._writing[name]:
            del self._writing[name]
