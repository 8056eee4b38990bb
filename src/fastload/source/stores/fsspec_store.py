"""Stores read by fsspec's filesystems, which may be objects of the user's."""

# The names of fsspec's asynchronous methods begin with an underscore.
# ruff: noqa: SLF001

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import threading
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, cast
from urllib.request import getproxies
from weakref import WeakKeyDictionary

from typing_extensions import override

from fastload.errors import StorageError
from fastload.source.files import StoredFile
from fastload.source.stores.errors import check_range, status_of, without_secrets
from fastload.source.stores.fsspec_urls import is_one_at_a_time, open_url
from fastload.source.stores.http_versions import check_version, is_strong, version_of
from fastload.source.stores.obstore_options import GCS, S3
from fastload.source.stores.store import HTTP, Store, below, shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from concurrent.futures import Executor
    from contextlib import AbstractContextManager

    from typing_extensions import Buffer

    from fastload.source.stores.io import IO

__all__ = ["MissingPackageError", "open_filesystem", "open_protocol"]

# Fields of a listing that tell one version of a file from another, the most reliable first.
_VERSIONS = ("generation", "ETag", "etag", "VersionId", "mtime", "LastModified", "last_modified")
# Names of the token that asks for a page of a listing, and of the token of the next page.
_GCS_TOKENS = ("pageToken", "nextPageToken")
_S3_TOKENS = ("ContinuationToken", "NextContinuationToken")
_GONE = (HTTPStatus.NOT_FOUND, HTTPStatus.GONE)
# Idle connections are kept this long, as long as obstore keeps them.
_IDLE_S = 90.0
# What a host that a store redirects to may be told; any other header may hold a secret.
_SAFE_HEADERS = ("accept", "accept-encoding", "if-match", "range", "user-agent")


class MissingPackageError(StorageError):
    """The package that provides fsspec's filesystem for a protocol is not installed."""


async def open_protocol(
    protocol: str, options: Mapping[str, Any], io: IO, threads: Executor
) -> Store:
    """Open a store for the URLs of a protocol.

    Args:
        protocol: scheme of the URLs, or the kind of a URL with a host or of a chain.
        options: options of fsspec's filesystem.
        io: how files are read.
        threads: threads for a filesystem without asynchronous calls.

    Raises:
        MissingPackageError: fsspec has no filesystem for the protocol. The error names the
            package, if fsspec knows it.
    """
    import fsspec

    if "://" in protocol:
        return await _open_url(protocol, options, threads)
    options = dict(options)
    if protocol in GCS:
        options = _gcs_options(options, io)
        # The class in fsspec's registry asks over gRPC for the kind of bucket. This is slow where
        # gRPC can't connect, and does not survive a fork.
        from gcsfs.core import GCSFileSystem

        cls: Any = GCSFileSystem
    else:
        if protocol in S3:
            options = _s3_options(options, io)
        elif protocol in HTTP:
            options["client_kwargs"] = _with_proxies(options.get("client_kwargs"))
        try:
            cls = fsspec.get_filesystem_class(protocol)
        except (ImportError, ValueError) as error:  # not installed, or not known at all
            if protocol in S3:
                raise MissingPackageError(
                    f"Expected the package s3fs to list {protocol}://, found none: "
                    "run `pip install s3fs`"
                ) from error
            raise MissingPackageError(
                f"Expected a filesystem for {protocol}://, got none: {error}"
            ) from error
    return await _open(cls, (), options, threads, io)


async def _open_url(kind: str, options: Mapping[str, Any], threads: Executor) -> Store:
    opens = asyncio.get_running_loop().run_in_executor(threads, open_url, kind, options)
    try:
        filesystem = await opens
    except (ImportError, ValueError) as error:
        raise MissingPackageError(
            f"Expected a filesystem for {shown(kind, '')}, got none: {error}"
        ) from error
    lock = threading.Lock() if is_one_at_a_time(kind) else contextlib.nullcontext()
    return _ThreadStore(filesystem, threads, lock)


async def open_filesystem(filesystem: Any, io: IO, threads: Executor) -> Store:
    """Open a store that reads as an fsspec filesystem object does."""
    # What wraps another filesystem can't be made again with another event loop than the other has.
    wraps = hasattr(filesystem, "fs")
    if type(filesystem).async_impl is True and not wraps:
        # A copy is made in this event loop: the object's own loop may belong to a parent process
        # from before a fork.
        options = filesystem.storage_options
        return await _open(type(filesystem), filesystem.storage_args, options, threads, io)
    mine = await asyncio.get_running_loop().run_in_executor(threads, of_process, filesystem)
    return _ThreadStore(mine[0], threads, mine[1])


async def _open(
    cls: Any,
    args: Sequence[Any],
    options: Mapping[str, Any],
    threads: Executor,
    io: IO,
) -> Store:
    own: dict[str, Any] = {"skip_instance_cache": True, "use_listings_cache": False}
    if cls.async_impl is True:
        own |= {"asynchronous": True, "loop": asyncio.get_running_loop()}
        if _is_gcs(cls):
            own["version_aware"] = True
        made = cls(*args, **{**options, **own})
        if _is_gcs(cls):
            await _prepare_gcs(made, io)
            made._call = _ended_at_a_page_again(made._call, made, _GCS_TOKENS)
            return _GcsStore(made)
        if _is_of(cls, "s3fs.core"):
            made.retries = 1
            made.config_kwargs = {**_safe_s3_session(), **made.config_kwargs}
            made._call_s3 = _ended_at_a_page_again(made._call_s3, made, _S3_TOKENS)
            return _S3Store(made)
        if _is_of(cls, "fsspec.implementations.http"):
            made.client_kwargs = _with_safe_redirects(made.client_kwargs)
            return _HttpStore(made)
        return _AsyncStore(made)
    return _ThreadStore(cls(*args, **{**options, **own}), threads, contextlib.nullcontext())


def _ended_at_a_page_again(call: Any, filesystem: Any, tokens: tuple[str, str]) -> Any:
    """Wrap the call that makes the requests of a filesystem: a listing must have an end.

    A server may name the page that it sends as the next page; the filesystem would ask on.

    Args:
        call: the filesystem's call.
        filesystem: the filesystem, for the message.
        tokens: the name of the token that asks for a page, and that of the next page's token.

    Raises:
        StorageError: an answer names the page that was asked for as the next page.
    """
    asked, following = tokens

    async def checked(*args: Any, **options: Any) -> Any:
        answer = await call(*args, **options)
        token = options.get(asked)
        if token is not None and isinstance(answer, dict) and answer.get(following) == token:
            server = getattr(filesystem, "endpoint_url", None) or getattr(
                filesystem, "_location", "the store"
            )
            raise StorageError(
                f"Expected a listing with an end, got the token {token!r} of the next page twice "
                f"from {without_secrets(str(server))}: the server does not page"
            )
        return answer

    return checked


def _gcs_options(options: dict[str, Any], io: IO) -> dict[str, Any]:
    import aiohttp

    if "token" not in options and os.environ.get("STORAGE_EMULATOR_HOST"):
        options["token"] = "anon"  # noqa: S105 - no secret: gcsfs's word for none
    # gcsfs has no time-out of its own.
    options.setdefault(
        "requests_timeout",
        aiohttp.ClientTimeout(total=None, sock_connect=io.timeout_s, sock_read=io.timeout_s),
    )
    options["session_kwargs"] = _with_proxies(options.get("session_kwargs"))
    return options


def _with_proxies(session: Mapping[str, Any] | None) -> dict[str, Any]:
    """Have an aiohttp session use the proxies of the environment, as obstore and s3fs do.

    Without a proxy the session ignores the environment, so that it does not read ~/.netrc.
    """
    return {"trust_env": bool(getproxies()), **(session or {})}


def _s3_options(options: dict[str, Any], io: IO) -> dict[str, Any]:
    """Add options for as many connections as requests (botocore opens ten), and no retries."""
    config = {
        "max_pool_connections": io.concurrency,
        "connect_timeout": io.timeout_s,
        "read_timeout": io.timeout_s,
        "retries": {"total_max_attempts": 1},
    }
    return {**options, "config_kwargs": config | (options.get("config_kwargs") or {})}


def _with_safe_redirects(session: Mapping[str, Any]) -> dict[str, Any]:
    """Add an option to those of an aiohttp session: other hosts get no header with a secret.

    aiohttp itself takes off Authorization and cookies alone.
    """
    return {**session, "trace_configs": [*session.get("trace_configs", ()), _safe_redirects()]}


def _safe_redirects() -> Any:
    import aiohttp
    from yarl import URL

    async def redirected(_session: Any, _context: Any, told: Any) -> None:
        where = told.response.headers.get("Location", "")
        with contextlib.suppress(ValueError):  # aiohttp raises an error at such an address
            if told.url.join(URL(where)).origin() == told.url.origin():
                return
        for name in [name for name in told.headers if name.lower() not in _SAFE_HEADERS]:
            del told.headers[name]

    tracing = aiohttp.TraceConfig()
    tracing.on_request_redirect.append(redirected)
    return tracing


def _safe_s3_session() -> dict[str, Any]:
    """Return an option of aiobotocore's clients whose redirects tell other hosts no secret.

    Versions before 2.22 have no such option.
    """
    from aiobotocore.config import AioConfig
    from aiobotocore.httpsession import AIOHTTPSession

    if "http_session_cls" not in inspect.signature(AioConfig.__init__).parameters:
        return {}

    class Session(AIOHTTPSession):  # type: ignore[misc]
        async def _get_session(self, *args: Any) -> Any:
            session = await super()._get_session(*args)
            if not session.trace_configs:
                tracing = _safe_redirects()
                tracing.freeze()
                session.trace_configs.append(tracing)
            return session

    return {"http_session_cls": Session}


async def _prepare_gcs(filesystem: Any, io: IO) -> None:
    # gcsfs would retry a request six times by itself, and not report the errors meanwhile.
    once = getattr(type(filesystem)._request, "__wrapped__", None)
    if once is not None:
        filesystem._request = partial(once, filesystem)
    if not getattr(filesystem, "_use_client_cert", False):  # none until gcsfs 2026.6
        import aiohttp
        from fsspec.implementations.http import get_client

        # gcsfs would close a session that it has opened itself from another thread.
        session = _with_safe_redirects(filesystem.session_kwargs)
        if "connector" not in session:
            session["connector"] = aiohttp.TCPConnector(
                limit=io.concurrency, keepalive_timeout=_IDLE_S
            )
        filesystem._session = await get_client(**session)


class _AsyncStore(Store):
    """The store of an asynchronous filesystem, which was made in the running event loop."""

    pins = False

    def __init__(self, filesystem: Any) -> None:
        self._fs = filesystem

    @override
    async def ls(self, directory: str) -> Sequence[StoredFile]:
        try:
            found = (await self._fs._find(directory, detail=True)).values()
        except FileNotFoundError:
            return ()
        return _files(found, directory)

    @override
    async def info(self, path: str) -> StoredFile | None:
        return _file(await self._fs._info(path))

    @override
    async def read(self, file: StoredFile, start: int, stop: int) -> Buffer:
        data: Buffer = await self._fs._cat_file(file.path, start=start, end=stop)
        return data

    @override
    async def close(self) -> None:
        session = getattr(self._fs, "_session", None)
        if session is not None and hasattr(session, "close"):
            await session.close()


class _GcsStore(_AsyncStore):
    """The store of gcsfs.

    `info` asks for the object first: gcsfs itself would also look for a directory with the
    object's name. gcsfs takes `#123` at the end of a path for a generation; if there is no such
    generation, `info` asks for an object whose name ends so. `read` makes the request itself: gcsfs
    would take a # or ? in the object's name for a generation.
    """

    pins = True

    @override
    async def info(self, path: str) -> StoredFile | None:
        try:
            return _file(await self._fs._get_object(path))
        except FileNotFoundError:
            bucket, _, generation = self._fs.split_path(path)
            if generation is None:
                return await super().info(path)
        name = path.removeprefix(f"{bucket}/")
        found = await self._fs._call("GET", "b/{}/o/{}", bucket, name, json_out=True)
        return _file(self._fs._process_object(bucket, found))

    @override
    async def read(self, file: StoredFile, start: int, stop: int) -> Buffer:
        if start == stop:
            return b""
        fs = self._fs
        bucket, _, name = file.path.partition("/")
        url = f"{fs._location}/download/storage/v1/b/{{}}/o/{{}}"
        wanted = {"alt": "media", "generation": file.version or None}
        headers = {"Range": f"bytes={start}-{stop - 1}"}
        got, data = await fs._call("GET", url, bucket, name, headers=headers, **wanted)
        check_version(file.version, got.get("x-goog-generation"), None)
        check_range(got.get("Content-Range"), file, start, stop)
        return cast("Buffer", data)


class _S3Store(_AsyncStore):
    """The store of s3fs.

    `ls` leaves out what is not below the directory: some servers ignore the prefix. `read` asks for
    the listed ETag, because s3fs itself pins no version in a bucket without versions. `read` also
    checks the answer, because some servers and proxies ignore what a request asks for.
    """

    pins = True

    @override
    async def ls(self, directory: str) -> Sequence[StoredFile]:
        return below(await super().ls(directory), directory)

    @override
    async def read(self, file: StoredFile, start: int, stop: int) -> Buffer:
        bucket, key, _ = self._fs.split_path(file.path)
        wanted = {"Bucket": bucket, "Key": key, "Range": f"bytes={start}-{stop - 1}"}
        if is_strong(file.version):
            wanted["IfMatch"] = file.version
        answer = await self._fs._call_s3("get_object", **wanted, **self._fs.req_kw)
        try:
            check_version(file.version, answer.get("ETag"), answer.get("LastModified"))
            status = answer["ResponseMetadata"]["HTTPStatusCode"]
            check_range(answer.get("ContentRange"), file, start, stop, status)
            data: Buffer = await answer["Body"].read()
        finally:
            answer["Body"].close()
        return data

    @override
    async def close(self) -> None:
        creator = getattr(self._fs, "_s3creator", None)
        if creator is not None:
            await creator.__aexit__(None, None, None)


class _HttpStore(_AsyncStore):
    """The store of fsspec's filesystem for HTTP.

    `info` raises the cause of an error: fsspec raises FileNotFoundError for every failure. `read`
    checks the headers of an answer, and stops reading when an answer is too long.
    """

    @override
    async def info(self, path: str) -> StoredFile | None:
        try:
            found = await self._fs._info(path)
        except FileNotFoundError as error:
            cause = error.__cause__
            if cause is None or status_of(cause) in _GONE:
                raise
            raise cause from None
        file = _file(found)
        changed = found.get("Last-Modified")
        return file and replace(file, version=version_of(file.version, changed))

    @override
    async def read(self, file: StoredFile, start: int, stop: int) -> Buffer:
        from fsspec.implementations.http import HTTPFileSystem

        fs = self._fs
        if start == stop or type(fs)._cat_file is not HTTPFileSystem._cat_file:
            return await super().read(file, start, stop)
        headers = {"Accept-Encoding": "identity", **fs.kwargs.get("headers", {})}
        headers["Range"] = f"bytes={start}-{stop - 1}"
        session = await fs.set_session()
        url = fs.encode_url(file.path)
        async with session.get(url, **{**fs.kwargs, "headers": headers}) as answer:
            fs._raise_not_found_for_status(answer, file.path)
            got = answer.headers
            check_version(file.version, got.get("ETag"), got.get("Last-Modified"))
            check_range(got.get("Content-Range"), file, start, stop, answer.status)
            return await _at_most(stop - start, answer.content)


async def _at_most(most: int, content: Any) -> bytes:
    """Return the bytes of an answer, or more than `most` of its first bytes."""
    pieces: list[bytes] = []
    length = 0
    while length <= most and (piece := await content.readany()):
        pieces.append(piece)
        length += len(piece)
    return b"".join(pieces)


class _ThreadStore(Store):
    """The store of a filesystem with blocking calls, on threads, each within `lock`."""

    pins = False

    def __init__(
        self, filesystem: Any, threads: Executor, lock: AbstractContextManager[Any]
    ) -> None:
        self._fs = filesystem
        self._threads = threads
        self._lock = lock

    async def _run(self, call: Any, *args: Any, **options: Any) -> Any:
        def run() -> Any:
            with self._lock:
                return call(*args, **options)

        return await asyncio.get_running_loop().run_in_executor(self._threads, run)

    @override
    async def ls(self, directory: str) -> Sequence[StoredFile]:
        try:
            found = await self._run(self._fs.find, directory, detail=True)
        except FileNotFoundError:
            return ()
        # Entries of a DirFileSystem hold the names in the filesystem below, until fsspec 2026.9.
        return _files(({**entry, "name": name} for name, entry in found.items()), directory)

    @override
    async def info(self, path: str) -> StoredFile | None:
        return _file(await self._run(_info, self._fs, path))

    @override
    async def read(self, file: StoredFile, start: int, stop: int) -> Buffer:
        data: Buffer = await self._run(self._fs.cat_file, file.path, start=start, end=stop)
        return data

    @override
    async def close(self) -> None:
        """Do nothing: the filesystem belongs to its owner."""


def _info(filesystem: Any, path: str) -> Mapping[str, Any]:
    """Return what a filesystem with blocking calls tells of a file, with its name there.

    A DirFileSystem returns the name in the filesystem below, until fsspec 2025.3.
    """
    from fsspec.implementations.dirfs import DirFileSystem

    if type(filesystem).info is not DirFileSystem.info:
        found: Mapping[str, Any] = filesystem.info(path)
        return found
    found = _info(filesystem.fs, filesystem._join(path))
    return {**found, "name": filesystem._relpath(found["name"])}


def _is_gcs(cls: Any) -> bool:
    return _is_of(cls, "gcsfs.core")


def _is_of(cls: Any, module: str) -> bool:
    return any(each.__module__ == module for each in cls.__mro__)


def _files(entries: Any, directory: str) -> list[StoredFile]:
    found = [_file(entry) for entry in entries]
    # An empty object with the name of a directory is a marker of the directory, not a file.
    own = directory.rstrip("/")
    return [
        file
        for file in found
        if file is not None and not file.path.endswith("/") and file.path != own
    ]


def _file(entry: Mapping[str, Any]) -> StoredFile | None:
    if entry["type"] != "file":
        return None
    found = next((name for name in _VERSIONS if entry.get(name)), None)
    if found == "LastModified":  # of S3, in whole seconds
        version = version_of(None, entry[found])
    else:
        version = "" if found is None else str(entry[found])
    return StoredFile(entry["name"], int(entry["size"] or 0), version)


# The process that an object was first read in, and the lock of those who read through the object.
_known: WeakKeyDictionary[Any, tuple[int, threading.Lock]] = WeakKeyDictionary()


def of_process(filesystem: Any) -> tuple[Any, AbstractContextManager[Any]]:
    """Return a filesystem of this process's, and a context in which a thread must call it.

    A child of fork() makes the filesystem again: the child would share connections, and the
    positions of open files, with its parent, and event loops and other threads don't exist in it.

    Raises:
        StorageError: a child of fork() can't make the filesystem again.
    """
    *_, base = layers = list(_layers(filesystem))
    protocols = {name for layer in layers for name in _protocols(layer)}
    locks = any(map(is_one_at_a_time, protocols))
    pid, lock = _known.setdefault(base, (os.getpid(), threading.Lock()))
    if pid != os.getpid():
        filesystem, lock = _again(filesystem), threading.Lock()
    return filesystem, lock if locks else contextlib.nullcontext()


def _layers(filesystem: Any) -> Iterator[Any]:
    """Yield the filesystem, and the filesystems of fsspec that lie below it."""
    from fsspec import AbstractFileSystem

    while isinstance(filesystem, AbstractFileSystem):
        yield filesystem
        filesystem = getattr(filesystem, "fs", None)


def _protocols(filesystem: Any) -> tuple[str, ...]:
    names = type(filesystem).protocol
    return (names,) if isinstance(names, str) else tuple(names)


def _again(filesystem: Any) -> Any:
    args = [_part(filesystem, value) for value in filesystem.storage_args]
    options = {k: _part(filesystem, value) for k, value in filesystem.storage_options.items()}
    return type(filesystem)(*args, **{**options, "skip_instance_cache": True})


def _part(filesystem: Any, value: Any) -> Any:
    from fsspec import AbstractFileSystem

    if hasattr(value, "read") and not isinstance(value, AbstractFileSystem):
        raise StorageError(
            f"Expected a {type(filesystem).__name__} of a path for forked workers, got one of an "
            'open file: write DataLoader(..., multiprocessing_context="forkserver")'
        )
    return _again(value) if isinstance(value, AbstractFileSystem) else value
