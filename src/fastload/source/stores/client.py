"""The thread that brings bytes from stores: one event loop, connections that stay open."""

from __future__ import annotations

import asyncio
import contextlib
import random
import sys
import threading
import time
from concurrent import futures
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from fastload.errors import FastloadError
from fastload.runtime.shutdown import close_at_exit
from fastload.source.files import NOT_FOUND
from fastload.source.stores.errors import (
    check_length,
    is_changed,
    is_overload,
    is_transient,
    meaning,
)
from fastload.source.stores.obstore_options import UnsupportedOptionsError
from fastload.source.stores.raw_reads import RawReads
from fastload.source.stores.request_slots import RequestSlots
from fastload.source.stores.requests import QueueService

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence

    from typing_extensions import Buffer

    from fastload.runtime.native import core
    from fastload.source.files import StoredFile
    from fastload.source.stores.io import IO
    from fastload.source.stores.raw_tier import RawTier
    from fastload.source.stores.requests import Served
    from fastload.source.stores.store import Store

__all__ = ["StoreClient", "backoff_s"]

T = TypeVar("T")
R = TypeVar("R")

_FIRST_BACKOFF_S = 0.1
_MOST_BACKOFF_S = 20.0
# A link that is slower than this, with all requests in flight, takes an answer for lost.
_LEAST_BYTES_PER_S = 50_000
_JOIN_S = 5.0
_REST_S = 1.0
# So long the loop goes on for answers that a client's threads were about to hand over to it.
_SETTLE_S = 0.02
# Of all pages of a listing; each of them has the client's own time-out.
_LISTING_S = 3600.0


def backoff_s(failed: int, random: Callable[[], float] = random.random) -> float:
    """Seconds to wait after so many failed tries, at least 1: drawn from a doubling span."""
    span: float = min(_MOST_BACKOFF_S, _FIRST_BACKOFF_S * 2 ** (failed - 1))
    return span * (0.5 + random() / 2)


if sys.version_info >= (3, 11):

    async def _within(seconds: float, work: Awaitable[T]) -> T:
        """Its result; raises TimeoutError when it takes longer."""
        async with asyncio.timeout(seconds):  # which begins no task, as wait_for there does
            return await work

else:

    async def _within(seconds: float, work: Awaitable[T]) -> T:
        """Its result; raises asyncio.TimeoutError when it takes longer."""
        return await asyncio.wait_for(work, seconds)


class StoreClient:
    """Reads with up to `io.concurrency` requests in flight, of which each is tried again.

    Args:
        open_store: makes the client of a kind of file (such as "gs"), in the event loop.
        io: how files are read.
        raw: what is kept on disk of what was read; None = nothing.

    It belongs to the process that made it.
    """

    def __init__(
        self, open_store: Callable[[str], Awaitable[Store]], io: IO, raw: RawTier | None = None
    ) -> None:
        self._open_store = open_store
        self._io = io
        self._raw = None if raw is None else RawReads(raw, io.timeout_s)
        self._loop = asyncio.new_event_loop()
        self._stores: dict[str, asyncio.Task[Store]] = {}
        self._checked: dict[tuple[str, str], asyncio.Task[None]] = {}
        self.slots = RequestSlots(io.concurrency)
        self._service = QueueService(self, self._loop)
        self._busy = 0
        self._thread = threading.Thread(target=self._run, name="fastload-store", daemon=True)
        self._thread.start()
        close_at_exit(self)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine, which runs in the event loop."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def flush(self) -> None:
        """Waits, for a while, until what was read is on disk, where that is kept."""
        if self._raw is not None and self._thread.is_alive():
            with contextlib.suppress(RuntimeError, TimeoutError, futures.TimeoutError):
                flushed = asyncio.run_coroutine_threadsafe(self._raw.flush(), self._loop)
                flushed.result(_JOIN_S)

    def close(self) -> None:
        """Ends requests and connections; whoever waits for bytes gets an error. Idempotent."""
        if self._loop.is_closed() or not self._thread.is_alive():
            return
        if threading.current_thread() is self._thread:  # as the garbage collector may have it
            self._closing = self._loop.create_task(self._close())
            return
        with contextlib.suppress(RuntimeError):
            asyncio.run_coroutine_threadsafe(self._close(), self._loop)
        self._thread.join(_JOIN_S)

    async def _close(self) -> None:
        busy = self._busy > 0
        await self._service.close()
        if busy:
            await asyncio.sleep(_SETTLE_S)
        if self._raw is not None:
            await self._raw.flush()
            self._raw.close()
        await self._close_stores()
        self._loop.stop()

    def rest(self) -> None:
        """Ends connections that nobody uses now; what is asked for later opens others."""

        async def rest() -> None:
            if self._busy == 0:
                await self._close_stores()

        with contextlib.suppress(RuntimeError, TimeoutError, futures.TimeoutError):
            asyncio.run_coroutine_threadsafe(rest(), self._loop).result(_REST_S)

    async def _close_stores(self) -> None:
        stores, self._stores = self._stores, {}
        for opened in stores.values():
            with contextlib.suppress(Exception):
                await (await opened).close()

    async def store(self, kind: str) -> Store:
        """The client of a kind of file."""
        opened = self._stores.get(kind)
        if opened is None:
            opened = self._stores[kind] = asyncio.ensure_future(self._open_store(kind))
        try:
            return opened.result() if opened.done() else await asyncio.shield(opened)
        except Exception:
            self._stores.pop(kind, None)
            raise

    # Listing ------------------------------------------------------------------------------

    async def ls(self, kind: str, directory: str) -> Sequence[StoredFile]:
        """The files below a directory. Raises `StorageError`, without a place."""

        async def once() -> Sequence[StoredFile]:
            return await (await self.store(kind)).ls(directory)

        return await self.retrying(once, "a listing", _LISTING_S)

    async def info(self, kind: str, path: str) -> StoredFile | None:
        """The file of that path, NOT_FOUND, or None = it is a directory."""

        async def once() -> StoredFile | None:
            try:
                return await (await self.store(kind)).info(path)
            except FileNotFoundError:
                return NOT_FOUND

        return await self.retrying(once, "a file or directory", self._io.timeout_s)

    # One range ----------------------------------------------------------------------------

    async def read(self, kind: str, file: StoredFile, start: int, stop: int) -> Buffer:
        """The bytes [start, stop) of a file, as it was listed, from disk where they are kept.

        Raises `SourceChangedError` or `StorageError`, without a place.
        """
        if self._raw is None:
            return await self.fetch(kind, file, start, stop)
        fetch = partial(self.fetch, kind, file, start, stop)
        return await self._raw.read(kind, file, start, stop, fetch)

    async def fetch(self, kind: str, file: StoredFile, start: int, stop: int) -> Buffer:
        """Read the bytes [start, stop) from the store; keep nothing on disk. Raises as `read`."""

        async def once() -> Buffer:
            store = await self.store(kind)
            if not store.pins:
                await self._check(kind, store, file)
            data = await store.read(file, start, stop)
            check_length(data, file, start, stop)
            return data

        seconds = self._io.timeout_s + (stop - start) / _LEAST_BYTES_PER_S
        what = f"{stop - start} bytes at offset {start}"
        return await self.retrying(once, what, seconds)

    async def retrying(self, once: Callable[[], Awaitable[T]], what: str, seconds: float) -> T:
        """What `once` returns, tried again while that may help."""
        self._busy += 1
        try:
            return await self._retrying(once, what, seconds)
        finally:
            self._busy -= 1

    async def _retrying(self, once: Callable[[], Awaitable[T]], what: str, seconds: float) -> T:
        failed = 0
        while True:
            await self.slots.take()
            began = time.monotonic()
            try:
                done = await _within(seconds, once())
            except (FastloadError, ImportError, UnsupportedOptionsError):
                raise
            except Exception as error:  # noqa: BLE001 - whatever a client raises
                failed += 1
                if is_overload(error):
                    self.slots.shrink(began)
                again = failed <= self._io.retries and not is_changed(error)
                if not again or not is_transient(error):
                    raise meaning(error, what, failed) from None
            else:
                self.slots.grow()
                return done
            finally:
                self.slots.free()
            await asyncio.sleep(backoff_s(failed))  # others have its place meanwhile

    async def _check(self, kind: str, store: Store, file: StoredFile) -> None:
        """Looks once whether a file is as it was, where reading it does not tell."""
        key = (kind, file.path)

        async def look() -> None:
            found = await store.info(file.path)
            if found is None or (found.size, found.version) != (file.size, file.version):
                raise FileNotFoundError("another version")

        if key not in self._checked:
            self._checked[key] = asyncio.ensure_future(look())
        task = self._checked[key]
        try:
            await asyncio.shield(task)
        except Exception:
            self._checked.pop(key, None)
            raise

    async def map(self, work: Callable[[T], Coroutine[Any, Any, R]], items: Iterable[T]) -> list[R]:
        """The results of `work`, in order, a few at a time; the first error ends it."""
        numbered = iter(enumerate(items))
        results: dict[int, R] = {}

        async def worker() -> None:
            for number, item in numbered:
                results[number] = await work(item)

        workers = [asyncio.ensure_future(worker()) for _ in range(self._io.concurrency)]
        try:
            await asyncio.gather(*workers)
        except BaseException:
            for task in workers:
                task.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
            raise
        return [results[number] for number in range(len(results))]

    # What the core asks for ---------------------------------------------------------------

    def serve(self, queue: core.RemoteQueue, files: Served) -> None:
        """Brings what a queue asks for of files, each of its kind, until it is closed."""

        def begin() -> None:
            # What was looked at for footers may have been replaced since.
            self._checked.clear()
            self._service.serve(queue, files)

        self._loop.call_soon_threadsafe(begin)
