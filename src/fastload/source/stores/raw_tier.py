"""The raw tier: byte ranges of remote files, kept on local disk by file and version."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from fastload.errors import StorageError
from fastload.runtime.digest import digest
from fastload.runtime.disk.cache import RAW
from fastload.runtime.disk.entries import describe, entries_of_object
from fastload.runtime.disk.tier import CacheTier
from fastload.runtime.native import core
from fastload.source.stores.http_versions import is_strong
from fastload.source.stores.hub.hub_paths import HUB, without_commit
from fastload.source.stores.obstore_options import connection_config
from fastload.source.stores.store import shown

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from typing_extensions import Buffer

    from fastload.runtime.disk.cache import Cache
    from fastload.source.files import StoredFile

__all__ = ["RawReads", "RawTier", "account_of", "has_version", "identity_of", "store_identity"]

# Filesystems whose files are as near as the cache, which therefore does not keep their bytes.
_NEAR = ("file", "local", "memory")
# Archives: the version of a file in one says when the file was put there, not in which archive.
_ARCHIVES = ("libarchive", "tar", "zip")
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "STORAGE_EMULATOR_HOST")
_WRITERS = 2
# The limit of the bytes that wait for the writers: four of the largest requests of IO's defaults.
# The core's own buffers don't count.
_MOST_HELD_BYTES = 32 << 20
# The number of threads that read entries from disk, for requests that reach Python.
_READERS = 4
# Pauses before this process looks again for an entry that another process fetches.
_FIRST_POLL_S = 0.002
_MOST_POLL_S = 0.05


class RawTier(CacheTier):
    """The byte ranges of remote files in one cache.

    Args:
        cache: the cache that holds the ranges.
        store: text that distinguishes stores with the same paths, from `store_identity`; None = the
            files are not kept.

    Attributes:
        ranges: the core's view of the ranges on disk.

    Raises:
        CacheError: other users may write to the directory.
    """

    _name = RAW
    _instead = "read from its source"

    def __init__(self, cache: Cache, store: str | None) -> None:
        self._store = store
        super().__init__(cache, keeps=store is not None)

    def _begin(self, *, raises: bool = False) -> None:
        super()._begin(raises=raises)
        self._names: dict[tuple[str, StoredFile], str] = {}
        self.ranges = core.RangeCache(os.fspath(self.directory))

    def __reduce__(self) -> tuple[Any, ...]:
        return RawTier, (self._cache, self._store)

    def name_of(self, kind: str, file: StoredFile) -> str:
        """Return the name of the object of a file in its version; "" if the file is not kept."""
        found = self._names.get((kind, file))
        if found is None:
            found = self._names[kind, file] = self._name_of(kind, file)
        return found

    def _name_of(self, kind: str, file: StoredFile) -> str:
        identity = identity_of(self._store, kind, file)
        if identity is None:
            return ""
        name = digest(repr(identity))
        return f"{name[:2]}/{name}"

    def queue(self, files: Iterable[tuple[str, StoredFile | None]]) -> core.RemoteQueue:
        """Make a queue of the core's requests for byte ranges that are not on disk.

        Args:
            files: each file with its kind, by the core's numbers.
        """
        names = ["" if file is None else self.name_of(kind, file) for kind, file in files]
        return core.RemoteQueue(self.ranges, names)

    def drop(self, kind: str, file: StoredFile, start: int, stop: int) -> None:
        """Remove the entries with bytes of the range [start, stop) of a file."""
        name = self.name_of(kind, file)
        if name:
            for entry in entries_of_object(self.directory, name):
                if entry.range and entry.range[0] < stop and start < entry.range[1]:
                    with contextlib.suppress(OSError):
                        os.unlink(entry.path)

    def claim(self, name: str, start: int, stop: int) -> core.RangeClaim | None:
        """Try to claim the right to write an entry.

        Returns None if another process has the right, the entry exists, or the claim fails.
        """
        try:
            return self.ranges.claim(name, start, stop)
        except StorageError as error:
            self.give_up(str(error))
            return None

    def publish(
        self, claim: core.RangeClaim, name: str, kind: str, file: StoredFile, data: Buffer
    ) -> None:
        """Write the bytes of a claimed entry; release the claim if they can't be written."""
        first = self._is_first(name)
        data_bytes = memoryview(data).nbytes
        try:
            if not self.writes or not self._quota.take(data_bytes, claim.descriptor, first=first):
                claim.release()
                return
            claim.publish(data)
            if first:
                url = shown(kind, file.path)
                about = {"url": url, "version": file.version, "size": file.size}
                describe(self.directory, name, about)
        except (OSError, ValueError) as error:
            claim.release()
            self.give_up(getattr(error, "strerror", None) or str(error))


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
            also fetches the range.
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

    async def drop(self, kind: str, file: StoredFile, start: int, stop: int) -> None:
        """Remove what is kept of the bytes [start, stop) of a file."""
        await self._written(self._tier.name_of(kind, file), start, stop)
        self._tier.drop(kind, file, start, stop)

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


def identity_of(store: str | None, kind: str, file: StoredFile) -> tuple[Any, ...] | None:
    """Return a tuple that identifies the bytes of a file of a store.

    Args:
        store: text that distinguishes stores with the same paths, from `store_identity`.
        kind: kind of the file.
        file: the file, as its store lists it.

    Returns:
        The tuple; None if the file has no reliable version, or is as near as the cache.
    """
    if store is None or kind in _NEAR or not has_version(kind, file):
        return None
    if kind == HUB:  # of which a version is the digest of the bytes, in whichever commit
        return (kind, "", without_commit(file.path), file.size, file.version)
    return (kind, store, file.path, file.size, file.version)


def has_version(kind: str, file: StoredFile) -> bool:
    """Return whether the version of a file of a store changes with its bytes."""
    if any(bit.partition("://")[0] in _ARCHIVES for bit in kind.split("::")):
        return False
    return is_strong(file.version)


def store_identity(filesystem: Any, options: Mapping[str, Any]) -> str | None:
    """Return a text, without secrets, that distinguishes stores with the same paths.

    Returns:
        The text; None if files of the filesystem are as near as the cache, or lie in an archive.
    """
    if filesystem is None:
        client = options.get("client_kwargs")
        given = options.get("endpoint_url") or (
            client.get("endpoint_url") if isinstance(client, dict) else None
        )
        named = given or next(filter(None, map(os.environ.get, _ENDPOINTS)), "")
        return " ".join(filter(None, (_host(str(named)), account_of(options))))
    kind = type(filesystem)
    protocol: Any = getattr(filesystem, "protocol", None) or getattr(filesystem, "type_name", "")
    names = [protocol] if isinstance(protocol, str) else list(protocol)
    if any(name in (*_NEAR, *_ARCHIVES) for name in names):
        return None
    inner = getattr(filesystem, "fs", None) or getattr(filesystem, "base_fs", None)
    within = "" if inner is None else store_identity(inner, {})
    if within is None:
        return None
    own = getattr(filesystem, "storage_options", None)
    if own is None:  # pyarrow tells its options to pickle alone
        own = _options_of_arrow(filesystem)
    endpoint = store_identity(None, own)
    host = [getattr(filesystem, name, own.get(name, "")) for name in ("host", "port")]
    base = getattr(filesystem, "base_path", "") or getattr(filesystem, "path", "")
    named = f"{kind.__module__}.{kind.__qualname__} {names} {endpoint} {host} {base} {within}"
    return named.rstrip()


def account_of(options: Mapping[str, Any]) -> str:
    """Return the Azure account and its server, as options or the environment name them; "" = none.

    All names count, because clients differ in which they prefer.
    """
    text = options.get("connection_string") or os.environ.get("AZURE_STORAGE_CONNECTION_STRING")
    connection = connection_config(text) if text else {}
    named = options.get("account_name") or os.environ.get("AZURE_STORAGE_ACCOUNT_NAME")
    places = (connection.get("endpoint"), options.get("account_host"))
    return " ".join(
        [str(name) for name in (connection.get("account_name"), named) if name]
        + [_host(str(place)) for place in places if place]
        + ["emulator"] * ("use_emulator" in connection)
    )


def _options_of_arrow(filesystem: Any) -> Mapping[str, Any]:
    """Return the options of a filesystem of pyarrow that name its server."""
    _, parts, *_ = filesystem.__reduce__()
    found = next((part for part in parts if isinstance(part, dict)), {})
    endpoint = found.get("endpoint_override")
    return {**found, "endpoint_url": endpoint} if endpoint else found


def _host(endpoint: str) -> str:
    """Return the host and the path of an endpoint, without user, password and query."""
    parts = urlsplit(endpoint if "://" in endpoint else f"//{endpoint}")
    return f"{parts.netloc.rpartition('@')[2]}{parts.path}"
