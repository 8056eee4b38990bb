"""The store of the Hugging Face Hub, and the clients that read byte ranges of its files."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Protocol

from typing_extensions import override

from fastload.source.stores.errors import check_range, status_of
from fastload.source.stores.hub.hub_api import Address, HubApi, Revision
from fastload.source.stores.obstore_store import (
    check_forked,
    client_options,
    is_whole,
    lacks_headers,
    mark_used,
)
from fastload.source.stores.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from concurrent.futures import Executor

    from typing_extensions import Buffer

    from fastload.source.files import StoredFile
    from fastload.source.stores.io import IO

__all__ = ["HubMemory", "HubStore"]

# A signed address that has expired is answered so.
_EXPIRED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
# In obstore, each address has a store of its own, and so connections of its own, because the query
# of a URL belongs to the store. A store costs 5 ms and handshakes, which smaller files don't repay.
_LEAST_BYTES = 8 << 20
# The number of files that are read natively at a time.
_MOST_STORES = 16
# A file that was not read for this long gives its place to another.
_IDLE_S = 10.0
_KEPT_S = 90.0


@dataclass
class HubMemory:
    """What a dataset has learned from the Hub; worker processes get a copy with the dataset.

    Attributes:
        commits: the commit of each revision: a branch names one commit as long as the dataset
            lives.
        addresses: the address of each file, by path.
    """

    commits: dict[Revision, str] = field(default_factory=dict)
    addresses: dict[str, Address] = field(default_factory=dict, repr=False)


class HubStore(Store):
    """The Hub, asked through huggingface_hub; bytes come from the addresses that the Hub gives.

    Args:
        options: options of `HfFileSystem`.
        io: how files are read.
        threads: threads for calls of huggingface_hub.
        memory: what the dataset has learned from the Hub.
        native: read bytes with obstore.

    Raises:
        StorageError: huggingface_hub is not installed.
    """

    pins = True

    def __init__(
        self,
        options: Mapping[str, Any],
        io: IO,
        threads: Executor,
        memory: HubMemory,
        *,
        native: bool,
    ) -> None:
        self._api = HubApi(options, io.timeout_s)
        self._threads = threads
        self._memory = memory
        self._session = SessionReader(io)
        self._reader: AddressReader = NativeReader(io, self._session) if native else self._session
        self._asking: dict[object, asyncio.Task[Any]] = {}

    async def _run(self, call: Callable[..., Any], *args: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._threads, call, *args)

    def check(self, path: str) -> None:
        """Check that a path names a repository, without a request.

        Raises:
            ValueError: the path names none.
        """
        self._api.parse(path)

    async def pin(self, path: str) -> str:
        """Return a path with the commit in place of the branch or tag that the path names."""
        revision, name = self._api.parse(path)
        commit = self._memory.commits.get(revision)
        if commit is None:
            found = await self._once(revision, self._api.commit, revision)
            commit = self._memory.commits.setdefault(revision, found)
        pinned = f"{revision.repo}@{commit}"
        return f"{pinned}/{name}" if name else pinned

    @override
    async def ls(self, directory: str) -> Sequence[StoredFile]:
        found: Sequence[StoredFile] = await self._run(self._api.ls, directory.rstrip("/"))
        return found

    @override
    async def info(self, path: str) -> StoredFile | None:
        found: StoredFile | None = await self._run(self._api.info, path)
        return found

    @override
    async def read(self, file: StoredFile, start: int, stop: int) -> Buffer:
        address = self._memory.addresses.get(file.path) or await self._ask(file)
        try:
            data = await self._read_at(file, address, start, stop)
        except Exception as error:
            if status_of(error) not in _EXPIRED:
                raise
            # Another request may have asked for a new address in the meantime.
            new = self._memory.addresses.get(file.path)
            if new is None or new == address:
                new = await self._ask(file)
            data = await self._read_at(file, new, start, stop)
        if len(memoryview(data)) == file.size:  # the Hub may answer with all of a small file
            return memoryview(data)[start:stop]
        return data

    async def _read_at(self, file: StoredFile, address: Address, start: int, stop: int) -> Buffer:
        try:
            return await self._reader.read(file, address, start, stop)
        except Exception as error:
            if not lacks_headers(error) and not is_whole(error):
                raise
        return await self._session.read(file, address, start, stop)

    async def _ask(self, file: StoredFile) -> Address:
        """Ask the Hub for a new address of a file, once for all requests that wait for it."""
        address: Address = await self._once(file.path, self._api.address, file)
        self._memory.addresses[file.path] = address
        return address

    async def _once(self, key: object, call: Callable[..., Any], *args: Any) -> Any:
        """Return the result of a call; callers with one key at the same time share one call."""
        asking = self._asking.get(key)
        if asking is None:
            asking = self._asking[key] = asyncio.ensure_future(self._run(call, *args))
            asking.add_done_callback(partial(self._asked, key))
        return await asyncio.shield(asking)

    def _asked(self, key: object, asking: asyncio.Task[Any]) -> None:
        self._asking.pop(key, None)
        if not asking.cancelled():
            asking.exception()  # the callers may have been cancelled

    @override
    async def close(self) -> None:
        await self._reader.close()


class AddressReader(Protocol):
    """Reads byte ranges at addresses."""

    async def read(self, file: StoredFile, address: Address, start: int, stop: int) -> Buffer:
        """Read the bytes [start, stop) at the address of a file."""

    async def close(self) -> None:
        """Close the connections."""


class SessionReader:
    """Reads with aiohttp, whose connections serve all addresses of a host.

    Args:
        io: how files are read.
    """

    def __init__(self, io: IO) -> None:
        self._io = io
        self._session: Any = None

    async def read(
        self,
        file: StoredFile,
        address: Address,
        start: int,
        stop: int,
    ) -> Buffer:
        """Read the bytes [start, stop) at the address of a file."""
        from yarl import URL

        headers = {"Range": f"bytes={start}-{stop - 1}", "Accept-Encoding": "identity"}
        if address.authorization:
            headers["Authorization"] = address.authorization
        url = URL(address.url, encoded=True)  # the signature covers the query as it stands
        async with self._opened().get(url, headers=headers) as answer:
            answer.raise_for_status()
            check_range(answer.headers.get("Content-Range"), file, start, stop)
            data: bytes = await answer.read()
            return data

    def _opened(self) -> Any:
        if self._session is None:
            import aiohttp

            timeout = aiohttp.ClientTimeout(
                total=None, sock_connect=self._io.timeout_s, sock_read=self._io.timeout_s
            )
            connector = aiohttp.TCPConnector(limit=self._io.concurrency, keepalive_timeout=_KEPT_S)
            self._session = aiohttp.ClientSession(
                connector=connector, timeout=timeout, trust_env=True, auto_decompress=False
            )
        return self._session

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None


@dataclass(slots=True)
class _Opened:
    """A store of obstore for one address, and the time of its last use."""

    address: Address
    store: Any
    used: float


class NativeReader:
    """Reads some large files with obstore, without the GIL, and all others with another reader.

    Args:
        io: how files are read.
        other: reads the other files.

    Raises:
        StorageError: this process was forked from one that had used obstore.
    """

    def __init__(self, io: IO, other: AddressReader) -> None:
        check_forked()
        self._client = client_options(io, max(1, io.concurrency // 4))
        self._client["pool_idle_timeout"] = timedelta(seconds=_IDLE_S)
        self._opened: dict[str, _Opened] = {}
        self._other = other

    async def read(self, file: StoredFile, address: Address, start: int, stop: int) -> Buffer:
        """Read the bytes [start, stop) at the address of a file."""
        import obstore

        store = None if file.size < _LEAST_BYTES else self._store(file.path, address)
        if store is None:
            return await self._other.read(file, address, start, stop)
        answer = await obstore.get_async(store, "", options={"range": (start, stop)})
        data: Buffer = await answer.bytes_async()
        return data

    def _store(self, path: str, address: Address) -> Any | None:
        """Return obstore's store of an address; None if too many other files are being read."""
        now = time.monotonic()
        opened = self._opened.get(path)
        if opened is not None and opened.address == address:
            opened.used = now
            return opened.store
        if opened is None and len(self._opened) >= _MOST_STORES:
            oldest = min(self._opened, key=lambda each: self._opened[each].used)
            if now - self._opened[oldest].used < _IDLE_S:
                return None
            del self._opened[oldest]
        from obstore.store import HTTPStore

        mark_used()
        client = dict(self._client)
        if address.authorization:
            client["default_headers"] = {"authorization": address.authorization}
        options: dict[str, Any] = {"client_options": client, "retry_config": {"max_retries": 0}}
        store = HTTPStore.from_url(address.url, **options)
        self._opened[path] = _Opened(address, store, now)
        return store

    async def close(self) -> None:
        """Close the connections."""
        self._opened.clear()
        await self._other.close()
