"""Stores read by obstore, without the GIL, or by fsspec where answers lack headers."""

from __future__ import annotations

import asyncio
import os
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from typing_extensions import override

from fastload.errors import StorageError
from fastload.source.files import StoredFile
from fastload.source.stores.errors import NoRangeError, check_size
from fastload.source.stores.http_versions import check_version, is_strong, version_of
from fastload.source.stores.obstore_options import (
    AZURE,
    GCS,
    S3,
    NativeOptions,
    UnsupportedOptionsError,
)
from fastload.source.stores.store import HTTP, Store, below, shown

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from typing_extensions import Buffer

    from fastload.source.stores.io import IO

__all__ = [
    "FallbackStore",
    "NativeStore",
    "check_forked",
    "client_options",
    "is_native",
    "is_whole",
    "lacks_headers",
    "mark_used",
    "was_forked",
]

# The number of the process that has used obstore. The threads of obstore's runtime don't exist in
# a child of fork().
_used_by: list[int] = []
# Part of obstore's messages about answers of some emulators and web servers.
_LACKING = (
    "Header missing from response",
    "header not present in partial response",
    "Failed to parse value for CONTENT_RANGE header",  # which may leave out the file's size
)
# Part of its message about names such as "a//b", which stores may have.
_BAD_PATH = "Could not parse path"
_NO_RANGE = "Range request not supported"


def is_native(protocol: str) -> bool:
    """Return whether obstore can read URLs of a protocol."""
    return protocol in (*AZURE, *GCS, *HTTP, *S3)


def mark_used() -> None:
    """Remember that this process has used obstore."""
    _used_by[:] = [os.getpid()]


def lacks_headers(error: BaseException) -> bool:
    """Return whether an error of obstore says that an answer lacks headers, or parts of them."""
    return any(text in str(error) for text in _LACKING)


def is_whole(error: BaseException) -> bool:
    """Return whether an error of obstore says that an answer is a whole file, not a range."""
    return _NO_RANGE in str(error)


def was_forked() -> bool:
    """Return whether obstore would hang here: a parent process had used it before a fork."""
    return bool(_used_by) and _used_by[0] != os.getpid()


def check_forked() -> None:
    """Raise an error where obstore would hang.

    Raises:
        StorageError: this process was forked from one that had used obstore.
    """
    if was_forked():
        raise StorageError(
            "Expected a process that was not forked from one that has read an object store with "
            'transport="native", got a forked worker: write DataLoader(..., '
            'multiprocessing_context="forkserver")'
        )


def client_options(io: IO, idle: int) -> dict[str, Any]:
    """Return options of obstore's HTTP client, which keeps up to `idle` connections to a host."""
    timeout = timedelta(seconds=io.timeout_s)
    return {
        "allow_http": True,
        "connect_timeout": timeout,
        "read_timeout": timeout,
        "timeout": timedelta(days=1),  # for a whole answer; the caller gives up earlier
        "pool_max_idle_per_host": str(idle),
    }


class NativeStore(Store):
    """A store of one protocol, read by obstore.

    Args:
        protocol: scheme of the URLs.
        options: options in the words of fsspec.
        io: how files are read.

    Raises:
        UnsupportedOptionsError: obstore has no counterpart of an option, which is named.
        StorageError: this process was forked from one that had used obstore.
    """

    pins = True

    def __init__(self, protocol: str, options: Mapping[str, Any], io: IO) -> None:
        check_forked()
        self._protocol = protocol
        self._options = NativeOptions.of(protocol, options)
        self._client = {**client_options(io, io.concurrency), **self._options.client}
        self._stores: dict[str, Any] = {}

    def _store(self, path: str) -> tuple[Any, str]:
        """Return obstore's store of a file, and the name of the file in the store."""
        from obstore import store as stores

        mark_used()
        if self._protocol in HTTP:
            parts = urlsplit(path)
            if parts.query:
                raise UnsupportedOptionsError(
                    'Expected a URL without a query, got one: write IO(transport="fsspec")'
                )
            root, name = f"{parts.scheme}://{parts.netloc}", parts.path.lstrip("/")
        else:
            root, _, name = path.partition("/")
        if root not in self._stores:
            self._stores[root] = self._make(stores, root)
        return self._stores[root], name

    def _make(self, stores: Any, root: str) -> Any:
        common: dict[str, Any] = {
            "client_options": self._client,
            "retry_config": {"max_retries": 0},
        }
        config = self._options.config
        if self._protocol in GCS:
            return stores.GCSStore(root, config=config, **common)
        if self._protocol in S3:
            keys = self._options.keys
            if keys is not None:
                common["credential_provider"] = lambda: keys
            return stores.S3Store(root, config=config, **common)
        if self._protocol in AZURE:
            # A URL may name the account: abfss://container@account.dfs.core.windows.net/name.
            container, _, host = root.partition("@")
            if host:
                config = {"account_name": host.partition(".")[0], **config}
            try:
                return stores.AzureStore(container, config=config, **common)
            except Exception as error:
                if "Account must be specified" not in str(error):
                    raise
                raise StorageError(
                    "Expected the name of an Azure storage account, got none: write "
                    'storage_options={"account_name": ...}, or set AZURE_STORAGE_ACCOUNT_NAME'
                ) from None
        return stores.HTTPStore.from_url(root, **common)

    @override
    async def ls(self, directory: str) -> Sequence[StoredFile]:
        import obstore

        root = directory.partition("/")[0]
        store, prefix = self._store(directory)
        found: dict[str, StoredFile] = {}
        async for page in obstore.list(store, prefix, chunk_size=1000):
            for meta in page:
                path = f"{root}/{meta['path']}"
                if path in found:
                    raise StorageError(
                        f"Expected a listing with an end, got {shown(self._protocol, path)} twice: "
                        "the server sends a page again"
                    )
                found[path] = self._file(meta, path)
        return below(found.values(), directory)  # some servers ignore the prefix

    @override
    async def info(self, path: str) -> StoredFile | None:
        import obstore

        store, name = self._store(path)
        try:
            return self._file(await obstore.head_async(store, name), path)
        except FileNotFoundError:
            found = await obstore.list_with_delimiter_async(store, name)
            if found["objects"] or found["common_prefixes"]:
                return None
            raise

    def _file(self, meta: Any, path: str) -> StoredFile:
        if self._protocol in GCS:
            version = meta["version"] or ""
        else:
            version = version_of(meta["e_tag"], meta["last_modified"])
        return StoredFile(path, meta["size"], version)

    @override
    async def read(self, file: StoredFile, start: int, stop: int) -> Buffer:
        import obstore

        store, name = self._store(file.path)
        options: Any = {"range": (start, stop)}
        if is_strong(file.version):  # a weak ETag can't be matched
            options["version" if self._protocol in GCS else "if_match"] = file.version
        try:
            answer = await obstore.get_async(store, name, options=options)
        except Exception as error:
            if is_whole(error):
                raise NoRangeError from error
            raise
        # Web servers, and proxies in front of stores, may ignore what the request asks for.
        meta = answer.meta
        etag = meta["version"] if self._protocol in GCS else meta["e_tag"]
        check_version(file.version, etag, meta["last_modified"])
        check_size(meta["size"], file)
        data: Buffer = await answer.bytes_async()
        return data

    @override
    async def close(self) -> None:
        self._stores.clear()


class FallbackStore(Store):
    """A store that switches to another client when an answer lacks headers, or at odd names.

    Args:
        first: store to read with at first.
        open_other: opens the store to read with from then on.
    """

    def __init__(self, first: Store, open_other: Callable[[], Awaitable[Store]]) -> None:
        self._first = first
        self._open_other = open_other
        self._other: asyncio.Future[Store] | None = None
        self.pins = first.pins

    @override
    async def ls(self, directory: str) -> Sequence[StoredFile]:
        return await self._first.ls(directory)

    @override
    async def info(self, path: str) -> StoredFile | None:
        return await (self._first if self._other is None else await self._opened()).info(path)

    @override
    async def read(self, file: StoredFile, start: int, stop: int) -> Buffer:
        if self._other is None:
            try:
                return await self._first.read(file, start, stop)
            except Exception as error:
                if not lacks_headers(error) and _BAD_PATH not in str(error):
                    raise
        return await (await self._opened()).read(file, start, stop)

    async def _opened(self) -> Store:
        if self._other is None:
            self._other = asyncio.ensure_future(self._open_other())
        opening = self._other
        try:
            other = await asyncio.shield(opening)
        except Exception:
            if self._other is opening:
                self._other = None
            raise
        self.pins = other.pins
        return other

    @override
    async def close(self) -> None:
        await self._first.close()
        if self._other is not None:
            await (await self._other).close()
