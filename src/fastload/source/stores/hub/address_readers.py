"""Clients that read byte ranges at the addresses of the Hub's files."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol

from fastload.source.stores.obstore_store import check_forked, client_options, mark_used

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from fastload.source.files import StoredFile
    from fastload.source.stores.hub.hub_api import Address
    from fastload.source.stores.io import IO

__all__ = ["AddressReader", "NativeReader", "SessionReader"]

# In obstore, each address has a store of its own, and so connections of its own, because the query
# of a URL belongs to the store. A store costs 5 ms and handshakes, which smaller files don't repay.
_LEAST_BYTES = 8 << 20
# The number of files that are read natively at a time.
_MOST_STORES = 16
# A file that was not read for this long gives its place to another.
_IDLE_S = 10.0
_KEPT_S = 90.0


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
        file: StoredFile,  # noqa: ARG002 - all files share the connections
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
