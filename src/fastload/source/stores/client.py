"""The client of a process, which reads from stores in one thread, with connections kept open."""

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
from urllib.parse import urlsplit

from fastload.errors import FastloadError
from fastload.runtime.shutdown import close_at_exit
from fastload.runtime.user_warnings import warn
from fastload.source.files import NOT_FOUND
from fastload.source.stores.errors import (
    NoRangeError,
    check_length,
    describe,
    is_changed,
    is_overload,
    is_transient,
    meaning,
    most_retries,
    pause_s,
)
from fastload.source.stores.hub.hub_paths import HUB
from fastload.source.stores.hub.hub_store import HubStore
from fastload.source.stores.obstore_options import UnsupportedOptionsError
from fastload.source.stores.raw_tier import RawReads
from fastload.source.stores.requests import QueueService, RequestSlots
from fastload.source.stores.store import HTTP

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence

    from typing_extensions import Buffer

    from fastload.runtime.native import core
    from fastload.source.files import StoredFile
    from fastload.source.stores.io import IO
    from fastload.source.stores.raw_tier import RawTier
    from fastload.source.stores.requests import Served
    from fastload.source.stores.store import Store

__all__ = ["StoreClient"]

T = TypeVar("T")
R = TypeVar("R")

_FIRST_BACKOFF_S = 0.1
_MOST_BACKOFF_S = 20.0
# An answer that arrives more slowly than this, with all requests in flight, counts as lost.
_LEAST_BYTES_PER_S = 50_000
# The first pause that a store asks for and that takes longer is announced.
_SILENT_S = 1.0
_JOIN_S = 5.0
_REST_S = 1.0
# The loop runs this long after the last request was cancelled, because threads of the store's
# client may still pass answers to the loop.
_SETTLE_S = 0.02
# The limit for all pages of a listing; for each page, the store's client has its own time-out.
_LISTING_S = 3600.0


def backoff_s(failed: int, random: Callable[[], float] = random.random) -> float:
    """Draw the seconds to wait after `failed` failed tries, from a range that doubles each time.

    Args:
        failed: number of failed tries, at least 1.
        random: returns a number in [0, 1).
    """
    span: float = min(_MOST_BACKOFF_S, _FIRST_BACKOFF_S * 2 ** (failed - 1))
    return span * (0.5 + random() / 2)


if sys.version_info >= (3, 11):

    async def _within(seconds: float, work: Awaitable[T]) -> T:
        """Return the result of `work`; raise TimeoutError if it takes longer than `seconds`."""
        async with asyncio.timeout(seconds):  # which starts no task, unlike asyncio.wait_for
            return await work

else:

    async def _within(seconds: float, work: Awaitable[T]) -> T:
        """Return the result of `work`; raise asyncio.TimeoutError after `seconds`."""
        return await asyncio.wait_for(work, seconds)


class StoreClient:
    """Reads files of stores, with up to `io.concurrency` requests in flight, and retries.

    The client belongs to the process that made it.

    Args:
        open_store: opens the store of a kind of file (such as "gs"), in the event loop.
        io: how files are read.
        raw: tier that keeps the byte ranges that were read; None = nothing is kept.
    """

    def __init__(
        self, open_store: Callable[[str], Awaitable[Store]], io: IO, raw: RawTier | None
    ) -> None:
        self._open_store = open_store
        self._io = io
        self._raw = None if raw is None else RawReads(raw, io.timeout_s)
        self._loop = asyncio.new_event_loop()
        self._stores: dict[str, asyncio.Task[Store]] = {}
        self._checked: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._answering: set[tuple[str, str]] = set()  # servers that have answered with a range
        self.slots = RequestSlots(io.concurrency)
        self._service = QueueService(self, self._loop)
        self._busy = 0
        self._warned = False
        self._thread = threading.Thread(target=self._run, name="fastload-store", daemon=True)
        self._thread.start()
        close_at_exit(self)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.run_until_complete(self._cancel_calls())
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the event loop and return its result."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def flush(self) -> None:
        """Wait, for a limited time, until the byte ranges to be kept are on disk."""
        if self._raw is not None and self._thread.is_alive():
            with contextlib.suppress(RuntimeError, TimeoutError, futures.TimeoutError):
                flushed = asyncio.run_coroutine_threadsafe(self._raw.flush(), self._loop)
                flushed.result(_JOIN_S)

    def close(self) -> None:
        """End requests and connections. Idempotent.

        Callers that wait for bytes get an error.
        """
        if self._loop.is_closed() or not self._thread.is_alive():
            return
        if threading.current_thread() is self._thread:  # the garbage collector may run anywhere
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
        for look in self._checked.values():
            look.cancel()
        await asyncio.gather(*self._checked.values(), return_exceptions=True)
        await self._close_stores()
        self._loop.stop()

    def rest(self) -> None:
        """Close all connections if no request is in flight; later requests open new ones."""

        async def rest() -> None:
            if self._busy == 0:
                await self._close_stores()

        with contextlib.suppress(RuntimeError, TimeoutError, futures.TimeoutError):
            asyncio.run_coroutine_threadsafe(rest(), self._loop).result(_REST_S)

    async def _cancel_calls(self) -> None:
        """Cancel what still runs: a call that Ctrl-C ended, or that another thread waits for."""
        running = asyncio.all_tasks() - {asyncio.current_task()}
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running, timeout=_JOIN_S / 2)

    async def _close_stores(self) -> None:
        stores, self._stores = self._stores, {}
        for opened in stores.values():
            with contextlib.suppress(Exception):
                await (await opened).close()

    async def store(self, kind: str) -> Store:
        """Return the store of a kind of file, and open it if it isn't open."""
        opened = self._stores.get(kind)
        if opened is None:
            opened = self._stores[kind] = asyncio.ensure_future(self._open_store(kind))
        try:
            return opened.result() if opened.done() else await asyncio.shield(opened)
        except Exception:
            # Others that waited may have opened another store since.
            if self._stores.get(kind) is opened:
                del self._stores[kind]
            raise

    # Listing ------------------------------------------------------------------------------

    async def ls(self, kind: str, directory: str) -> Sequence[StoredFile]:
        """Return the files below a directory.

        Raises:
            StorageError: the listing failed; the message has no location.
        """

        async def once() -> Sequence[StoredFile]:
            return await (await self.store(kind)).ls(directory)

        return await self.retrying(once, "a listing", _LISTING_S)

    async def info(self, kind: str, path: str) -> StoredFile | None:
        """Return the file at a path, NOT_FOUND if it does not exist, or None for a directory."""

        async def once() -> StoredFile | None:
            try:
                return await (await self.store(kind)).info(path)
            except FileNotFoundError:
                return NOT_FOUND

        return await self.retrying(once, "a file or directory", self._io.timeout_s)

    async def pin(self, kind: str, path: str) -> str:
        """Return a path whose files stay as they are: on the Hub, with a commit.

        Raises:
            ValueError: the path names no repository of the Hub.
            SourceNotFoundError: there is no such revision.
            StorageError: the Hub can't be asked. These errors have no location.
        """
        if kind != HUB:
            return path
        store = await self.store(kind)
        assert isinstance(store, HubStore)
        store.check(path)
        return await self.retrying(partial(store.pin, path), "a commit", self._io.timeout_s)

    # One range ----------------------------------------------------------------------------

    async def read(self, kind: str, file: StoredFile, start: int, stop: int) -> Buffer:
        """Read the bytes [start, stop) of a file, from local disk if they are kept there.

        Raises:
            SourceChangedError: the file is no longer as it was when it was listed.
            StorageError: the request failed. Neither error has a location.
        """
        if self._raw is None:
            return await self.fetch(kind, file, start, stop)
        fetch = partial(self.fetch, kind, file, start, stop)
        return await self._raw.read(kind, file, start, stop, fetch)

    async def forget(self, kind: str, file: StoredFile, start: int, stop: int) -> None:
        """Drop what is kept on disk of the bytes [start, stop) of a file."""
        if self._raw is not None:
            await self._raw.drop(kind, file, start, stop)

    async def fetch(self, kind: str, file: StoredFile, start: int, stop: int) -> Buffer:
        """Read the bytes [start, stop) from the store; keep nothing on disk. Raises as `read`."""
        server = kind, urlsplit(file.path).netloc if kind in HTTP else ""

        async def once() -> Buffer:
            store = await self.store(kind)
            if not store.pins:
                await self._check(kind, store, file)
            try:
                data = await store.read(file, start, stop)
                check_length(data, file, start, stop)
            except NoRangeError as error:
                error.answers = server in self._answering
                raise
            if stop - start < file.size:
                self._answering.add(server)
            return data

        seconds = self._io.timeout_s + (stop - start) / _LEAST_BYTES_PER_S
        what = f"{stop - start} bytes at offset {start}"
        return await self.retrying(once, what, seconds)

    async def retrying(self, once: Callable[[], Awaitable[T]], what: str, seconds: float) -> T:
        """Return the result of `once`, which is called again after errors that may pass.

        Args:
            once: makes one request.
            what: name of the expected answer, for the error.
            seconds: time limit of one request.
        """
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
                retries = most_retries(error, self._io.retries)
                again = failed <= retries and not is_changed(error)
                if not again or not is_transient(error):
                    raise meaning(error, what, failed) from None
                wish_s, got = pause_s(error), describe(error)
            else:
                self.slots.grow()
                return done
            finally:
                self.slots.free()
            if wish_s > _SILENT_S and not self._warned:
                self._warned = True
                warn(f"The store asks to wait {wish_s:.0f} s ({got}): such requests wait")
            # Other requests use the slot meanwhile.
            await asyncio.sleep(max(backoff_s(failed), wish_s))

    async def _check(self, kind: str, store: Store, file: StoredFile) -> None:
        """Check once that a file is unchanged, for a store whose reads can't check."""
        key = (kind, file.path)

        async def look() -> None:
            found = await store.info(file.path)
            # A version may be unknown when the file is listed, and known now.
            version = file.version or (found.version if found else "")
            if found is None or (found.size, found.version) != (file.size, version):
                raise FileNotFoundError("another version")

        if key not in self._checked:
            self._checked[key] = asyncio.ensure_future(look())
            # Whoever waits for the task may be cancelled; asyncio would log an error then.
            self._checked[key].add_done_callback(lambda done: done.cancelled() or done.exception())
        task = self._checked[key]
        try:
            await asyncio.shield(task)
        except Exception:
            if self._checked.get(key) is task:
                del self._checked[key]
            raise

    async def map(self, work: Callable[[T], Coroutine[Any, Any, R]], items: Iterable[T]) -> list[R]:
        """Return the results of `work` for all items, in order.

        Up to `io.concurrency` items are worked on at a time. The first error cancels the rest.
        """
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

    # Requests of the core -----------------------------------------------------------------

    def serve(self, queue: core.RemoteQueue, files: Served) -> None:
        """Answer the requests in a queue, until the queue is closed.

        Args:
            queue: queue of the core's requests.
            files: files of the queue, each with its kind.
        """

        def begin() -> None:
            # A file that was checked when its footer was read may have been replaced since.
            self._checked.clear()
            self._service.serve(queue, files)

        self._loop.call_soon_threadsafe(begin)
