"""The stores of one dataset, and the choice of client for each process."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from io import RawIOBase
from multiprocessing.util import Finalize
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
from torch.utils.data import get_worker_info
from typing_extensions import override

from fastload.errors import (
    CorruptFileError,
    FastloadError,
    SourceNotFoundError,
    StorageError,
)
from fastload.runtime.native import core
from fastload.source.files import NOT_FOUND, FoundFile
from fastload.source.local_paths import url_of
from fastload.source.stores.client import StoreClient
from fastload.source.stores.fsspec_urls import is_known, options_in_chain, split_url
from fastload.source.stores.hub.hub_paths import HUB
from fastload.source.stores.hub.hub_store import HubMemory, HubStore
from fastload.source.stores.io import IO
from fastload.source.stores.obstore_options import (
    AZURE,
    GCS,
    UnsupportedOptionsError,
    check_gcs_options,
    object_store_options,
)
from fastload.source.stores.obstore_store import (
    FallbackStore,
    NativeStore,
    check_forked,
    is_native,
    was_forked,
)
from fastload.source.stores.process_store import ProcessStore
from fastload.source.stores.raw_tier import RawTier, account_of, store_identity
from fastload.source.stores.store import FILESYSTEM, HTTP, shown
from fastload.source.stores.store_paths import find_remote

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
    from concurrent.futures import Executor

    from typing_extensions import Buffer

    from fastload.runtime.disk.cache import Cache
    from fastload.source.files import PathLike, SourceFile
    from fastload.source.stores.store import Store

__all__ = ["Stores"]

T = TypeVar("T")

# Clients of the parent process, kept alive in a child of fork(): finalizing a client would wait
# for threads that don't exist in the child.
_abandoned: list[object] = []


class Stores:
    """The reader of all files of a dataset that are not local.

    Each process has clients of its own, which are not pickled.

    Args:
        filesystem: an fsspec or pyarrow filesystem, to which paths without a scheme belong;
            None = only URLs are remote.
        options: options for the stores of URLs, in the words of fsspec.
        io: how files are read.
        cache: cache for the byte ranges that are read; None = nothing is kept.

    Raises:
        TypeError: `filesystem` is not a filesystem, `options` is not a dict, or `io` no IO.
        ValueError: options or the native transport are combined with a filesystem.
    """

    def __init__(
        self,
        filesystem: Any,
        options: Mapping[str, Any] | None,
        io: IO,
        cache: Cache | None = None,
    ) -> None:
        if not isinstance(io, IO):
            raise TypeError(f"Expected io as fastload.IO, got {io!r}")
        if options is not None and not isinstance(options, dict):
            raise TypeError(f"Expected storage_options as a dict, got {type(options).__name__}")
        if filesystem is not None:
            filesystem = _known_filesystem(filesystem)
            if options:
                raise ValueError(
                    "Expected storage_options or a filesystem, got both: give the options to the "
                    "filesystem when you make it"
                )
            if io.transport == "native":
                raise ValueError(
                    'Expected IO(transport="fsspec") or "auto" with a filesystem, got "native"'
                )
        self._filesystem = filesystem
        self._options = dict(options or {})
        self._checked = not options
        self._io = io
        self._hub = HubMemory()
        self._cache = cache if cache is not None and cache.raw else None
        self._raw = self._raw_tier()
        self._clients: dict[bool, StoreClient] = {}
        self._pid = os.getpid()
        # File and row group of those that stay corrupt when they are read again.
        self._corrupt: set[tuple[int, int]] = set()

    def _raw_tier(self) -> RawTier | None:
        return None if self._cache is None else RawTier(self._cache, self.store_identity)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_clients": {}, "_pid": None}

    @property
    def options(self) -> dict[str, Any]:
        """The options of fsspec's filesystems, as the dataset got them."""
        return dict(self._options)

    def find(self, entries: Sequence[PathLike]) -> list[list[FoundFile] | None]:
        """Return the files of each entry of a source; None for an entry that is local.

        Raises:
            SourceNotFoundError: no file was found; the error names the URL.
            StorageError: a store could not be read; the error names the URL.
            ValueError: no client knows the scheme of a URL, or gcsfs does not know an option.
        """
        paths = [self._remote_path_of(entry) for entry in entries]
        remote = [path for path in paths if path is not None]
        found = iter(self.map(_find, remote) if remote else ())
        return [None if path is None else next(found) for path in paths]

    def locate(self, paths: Sequence[str]) -> list[FoundFile]:
        """Return the files at paths or URLs, which are neither globs nor chains of fsspec.

        Raises:
            SourceNotFoundError: a file of a store does not exist; the error names the URL.
            StorageError: a store could not be read; the error names the URL.
        """
        places = [self._remote_path_of(path, chains=False) for path in paths]
        remote = [place for place in places if place is not None]
        found = iter(self.map(_locate, remote) if remote else ())
        return [
            FoundFile(path) if place is None else next(found)
            for path, place in zip(paths, places, strict=True)
        ]

    def take_options(self, options: Mapping[str, Any]) -> None:
        """Use options that the catalog of a table gives, if the user gave none."""
        if self._filesystem is None and not self._options:
            self._options = dict(options)
            self._raw = self._raw_tier()  # the options name the store

    def check_serves_tables(self, uri: str) -> None:
        """Raise an error if the stores can't serve a table.

        Raises:
            ValueError: the files are read through a filesystem object.
        """
        if self._filesystem is not None:
            raise ValueError(
                "Expected storage_options for a table, got a filesystem, which the library that "
                f"reads the table's metadata can't use - at {uri}"
            )

    def options_for_libraries(self, uri: str) -> dict[str, str] | None:
        """Return the options of a URL's store in the words of object_store, for deltalake.

        Raises:
            ValueError: the files are read through a filesystem object, or object_store has no
                counterpart of an option.
        """
        self.check_serves_tables(uri)
        url = url_of(uri)
        return None if url is None else object_store_options(url[0], self._options)

    def _remote_path_of(self, entry: PathLike, *, chains: bool = True) -> tuple[str, str] | None:
        """Return the kind and the path of an entry of a source; None if the entry is local.

        Args:
            entry: the entry.
            chains: "::" makes the entry a chain of fsspec.
        """
        url = url_of(entry)
        if url is not None:
            _check_scheme(*url)
            if url[0] in GCS and not self._checked:
                check_gcs_options(self._options)
                self._checked = True
        # A local path may look like a chain.
        text = isinstance(entry, str) and (url is not None or "::" in entry)
        if (
            (chains or "::" not in os.fspath(entry))
            and text
            and (url is not None or not os.path.lexists(entry))
        ):
            split = split_url(str(entry))
            if split is not None:
                for options in options_in_chain(split[0], self._options, GCS):
                    check_gcs_options(options)
                return split
        if url is None:
            if self._filesystem is None:
                return None
            return FILESYSTEM, _path_in(self._filesystem, os.fspath(entry))
        kind, path = url
        return kind, f"{kind}://{path}" if kind in HTTP else path

    @property
    def store_identity(self) -> str | None:
        """A text that distinguishes stores for the cache; None if files are as near as it."""
        return store_identity(self._filesystem, self._options)

    def identity_for_footers(self, kind: str) -> str | None:
        """Return a text that distinguishes the store of a kind of file for kept footers.

        Returns:
            The text; None if the store can't be distinguished from others.
        """
        if kind == FILESYSTEM or "::" in kind:
            return None
        if kind == HUB:  # of which a version is the digest of the bytes
            return HUB
        client = self._options.get("client_kwargs")
        given = [self._options.get("endpoint_url"), account_of(self._options)]
        given += [client.get("endpoint_url")] if isinstance(client, dict) else []
        names = ("STORAGE_EMULATOR_HOST", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3")
        return repr([kind, *given, *(os.environ.get(name) for name in names)])

    def map(
        self, work: Callable[[StoreClient, Any], Coroutine[Any, Any, Any]], items: Iterable[Any]
    ) -> list[Any]:
        """Return the results of `work(client, item)` for all items, in order.

        Many items are worked on at a time.
        """
        client = self.client(data=False)
        return client.call(client.map(partial(work, client), items))

    def serve(self, files: Sequence[SourceFile], *, data: bool) -> core.RemoteQueue | None:
        """Make a queue for the core's requests, and answer the requests from now on.

        Args:
            files: the files that the core may ask for, by number.
            data: True if batches of an epoch are read. Then the client may be one that does not
                survive a fork, because workers have been forked before an epoch begins.

        Returns:
            The queue; None if all files are local.
        """
        if all(file.stored is None for file in files):
            return None
        served: Any = [(file.kind, file.stored) for file in files]
        client = self.client(data=data)
        queue = core.RemoteQueue() if self._raw is None else self._raw.queue(served)
        client.serve(queue, served)
        return queue

    def read(self, file: SourceFile | FoundFile, start: int, stop: int) -> Buffer:
        """Read the bytes [start, stop) of a file of a store."""
        assert file.stored is not None
        client = self.client(data=False)
        with _at(file.path):
            return client.call(client.read(file.kind, file.stored, start, stop))

    def read_whole(self, file: FoundFile) -> bytes:
        """Read all bytes of a file.

        Raises:
            OSError: a local file can't be read; StorageError for a file of a store.
        """
        if file.stored is not None:
            return bytes(self.read(file, 0, file.stored.size))
        with open(os.fsencode(file.path), "rb") as opened:
            return opened.read()

    def open(self, file: SourceFile) -> pa.PythonFile:
        """Open a file of a store for pyarrow, whose reads each make one request."""
        return pa.PythonFile(_RangeFile(self, file), mode="r")

    def keeps(self, files: Sequence[SourceFile]) -> bool:
        """Return whether byte ranges of any of the files are kept on disk."""
        raw = self._raw and self._raw.of_process()
        if raw is None or not raw.writes:
            return False
        return any(file.stored and raw.name_of(file.kind, file.stored) for file in files)

    @property
    def has_cache(self) -> bool:
        """True if there is a cache for byte ranges of the files of stores."""
        return self._raw is not None

    @property
    def cache_failure(self) -> str:
        """Why this process keeps no further byte ranges on disk; "" if nothing failed."""
        return self._raw.of_process().failure if self._raw is not None else ""

    def check_room_since(self, began_ns: int) -> None:
        """Check that byte ranges kept since a time are on disk; see `CacheTier.check_room_since`.

        Raises:
            CacheError: `max_bytes` do not hold these ranges.
        """
        if self._raw is not None:
            self._raw.of_process().check_room_since(began_ns)

    def reads_again(
        self, error: FastloadError, files: Sequence[SourceFile], tried: set[tuple[int, int]]
    ) -> bool:
        """Return whether to read a corrupt row group again, because an answer may have been wrong.

        The bytes of the row group that are kept on disk are dropped then.

        Args:
            error: the error of the row group.
            files: the files of the dataset.
            tried: the file and the row group of each one that the caller reads again; changed.
        """
        place = error._row_group if isinstance(error, CorruptFileError) else None  # noqa: SLF001
        if place is None or files[place[0]].stored is None or place in self._corrupt:
            return False
        if place in tried:
            self._corrupt.add(place)
            return False
        tried.add(place)
        self.forget_row_group(files[place[0]], place[1])
        return True

    def again(
        self, file: SourceFile | FoundFile, row_group: int | None, read: Callable[[], T]
    ) -> T:
        """Return what `read` returns; call it once more if it finds a file of a store corrupt.

        Args:
            file: the file.
            row_group: the row group that `read` reads; None = the whole file.
            read: reads and decodes.
        """
        try:
            return read()
        except CorruptFileError:
            if file.stored is None:
                raise
        if row_group is None or isinstance(file, FoundFile):
            self.forget(file, 0, file.stored.size)
        else:
            self.forget_row_group(file, row_group)
        return read()

    def forget_row_group(self, file: SourceFile, row_group: int) -> None:
        """Drop the byte ranges of a row group that are kept on disk, and those of page indexes."""
        if self._raw is not None and file.stored is not None:
            for start, stop in _ranges_of(file, row_group):
                self.forget(file, start, stop)

    def forget(self, file: SourceFile | FoundFile, start: int, stop: int) -> None:
        """Drop what is kept on disk of the bytes [start, stop) of a file."""
        raw = self._raw and self._raw.of_process()
        if raw is not None and file.stored is not None:
            self.flush()
            raw.drop(file.kind, file.stored, start, stop)

    def flush(self) -> None:
        """Wait, for a limited time, until the byte ranges to be kept are on disk."""
        if self._pid == os.getpid():
            for client in self._clients.values():
                client.flush()

    def close(self) -> None:
        """Close this process's connections; later reads open new ones. Idempotent."""
        if self._pid == os.getpid():
            for client in self._clients.values():
                client.close()
            self._clients = {}

    def client(self, *, data: bool) -> StoreClient:
        """Return this process's client, which may not survive a fork if `data` is True."""
        if self._pid != os.getpid():
            _abandoned.extend(self._clients.values())
            self._clients = {}
            self._pid = os.getpid()
        native = data and self._filesystem is None and self._io.transport != "fsspec"
        if native and self._io.transport == "auto" and was_forked():
            native = False
        if native:
            check_forked()
        if native not in self._clients:
            worker = get_worker_info()
            shared = self._io.concurrency // (1 if worker is None else worker.num_workers)
            io = replace(self._io, concurrency=max(1, shared))
            # For filesystems with blocking calls; a thread starts with the first call.
            threads = ThreadPoolExecutor(io.concurrency, "fastload-store")
            opens = partial(_open, self._filesystem, self._options, io, native, threads, self._hub)
            client = StoreClient(opens, io, self._raw and self._raw.of_process())
            weakref.finalize(self, client.close)
            if worker is not None and self._raw is not None:  # a worker may exit without atexit
                Finalize(client, client.flush, exitpriority=0)
            self._clients[native] = client
            if native and False in self._clients:
                self._clients[False].rest()
        return self._clients[native]


class _RangeFile(RawIOBase):
    """A file object without a buffer: each read is one request for exactly the bytes to read."""

    def __init__(self, stores: Stores, file: SourceFile) -> None:
        super().__init__()
        self._stores = stores
        self._file = file
        self._at = 0

    @override
    def readable(self) -> bool:
        return True

    @override
    def seekable(self) -> bool:
        return True

    @override
    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._file.size}[whence]
        self._at = base + offset
        return self._at

    @override
    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer)
        stop = min(self._file.size, self._at + len(view))
        if stop <= self._at:
            return 0
        data = self._stores.read(self._file, self._at, stop)
        view[: stop - self._at] = memoryview(data)
        read, self._at = stop - self._at, stop
        return read


def _ranges_of(file: SourceFile, row_group: int) -> list[tuple[int, int]]:
    """Return the ranges of a row group, and of all that is stored behind the row groups."""
    import pyarrow.parquet as pq

    metadata = pq.read_metadata(pa.BufferReader(file.footer.tail))
    ranges = []
    for group in range(metadata.num_row_groups):
        chunks = [metadata.row_group(group).column(c) for c in range(metadata.num_columns)]
        starts = [
            min(filter(None, (chunk.dictionary_page_offset, chunk.data_page_offset)), default=0)
            for chunk in chunks
        ]
        stops = [s + c.total_compressed_size for s, c in zip(starts, chunks, strict=True)]
        ranges.append((min(starts, default=0), max(stops, default=0)))
    behind = max((stop for _, stop in ranges), default=0)
    return [ranges[row_group], (behind, file.size)]


def _path_in(filesystem: Any, path: str) -> str:
    """Return a path of a filesystem as the filesystem lists it."""
    if _is_arrow(filesystem):
        return path
    listed: str = filesystem._strip_protocol(path)  # noqa: SLF001 - fsspec has no public name
    return f"{listed}/" if path.endswith("/") and not listed.endswith("/") and listed else listed


async def _open(
    filesystem: Any,
    options: Mapping[str, Any],
    io: IO,
    native: bool,
    threads: Executor,
    memory: HubMemory,
    kind: str,
) -> Store:
    if kind == FILESYSTEM:
        if _is_arrow(filesystem):
            from fastload.source.stores.pyarrow_store import ArrowStore

            return ArrowStore(filesystem, threads)
        from fastload.source.stores.fsspec_store import open_filesystem

        return await open_filesystem(filesystem, io, threads)
    if kind == HUB:
        return HubStore(options, io, threads, memory, native=native)
    by_fsspec = partial(_open_by_fsspec, options, io, threads, kind)
    if native and is_native(kind):
        try:
            store = NativeStore(kind, options, io)
        except UnsupportedOptionsError:
            if io.transport == "native":
                raise
        else:
            return store if io.transport == "native" else FallbackStore(store, by_fsspec)
    return await by_fsspec()


async def _open_by_fsspec(
    options: Mapping[str, Any], io: IO, threads: Executor, kind: str
) -> Store:
    from fastload.source.stores.fsspec_store import MissingPackageError, open_protocol

    try:
        return await open_protocol(kind, options, io, threads)
    except MissingPackageError as error:
        if io.transport == "fsspec" or not is_native(kind):
            raise
        if kind not in AZURE and _may_fork():
            raise
        store = ProcessStore if kind in AZURE else NativeStore
        try:
            return store(kind, options, io)
        except UnsupportedOptionsError as unsupported:
            raise StorageError(f"{error}. {unsupported}") from error


def _may_fork() -> bool:
    """Return True if this process forks workers by default, or was itself forked.

    obstore hangs in a child that was forked from a process that has used obstore.
    """
    default = multiprocessing.get_all_start_methods()[0]
    method = multiprocessing.get_start_method(allow_none=True) or default
    return method == "fork" or was_forked()


def _is_arrow(filesystem: Any) -> bool:
    return type(filesystem).__module__.startswith("pyarrow.")


def _known_filesystem(filesystem: Any) -> Any:
    """Return a filesystem, or the filesystem of fsspec that pyarrow has wrapped."""
    if _is_arrow(filesystem):
        from pyarrow.fs import FileSystem, FSSpecHandler, PyFileSystem

        known = isinstance(filesystem, FileSystem)
        # fsspec's own interface says more about files, and which filesystems take one thread.
        if isinstance(filesystem, PyFileSystem) and isinstance(filesystem.handler, FSSpecHandler):
            filesystem = filesystem.handler.fs
    else:
        from fsspec import AbstractFileSystem

        known = isinstance(filesystem, AbstractFileSystem)
    if not known:
        raise TypeError(
            f"Expected an fsspec or pyarrow filesystem, got {type(filesystem).__name__}"
        )
    return filesystem


def _check_scheme(scheme: str, path: str) -> None:
    if not is_known(scheme) and not is_native(scheme):
        raise ValueError(
            "Expected a local path or a URL of a scheme that fsspec knows, got the scheme "
            f"{scheme}:// - at {shown(scheme, path)}"
        )


async def _locate(client: StoreClient, path: tuple[str, str]) -> FoundFile:
    with _at(shown(*path)):
        path = path[0], await client.pin(*path)
        file = await client.info(*path)
    if file is None or file is NOT_FOUND:
        raise SourceNotFoundError(f"Expected a file, found none - at {shown(*path)}")
    return FoundFile(shown(path[0], file.path), (), path[0], file)


async def _find(client: StoreClient, path: tuple[str, str]) -> list[FoundFile]:
    with _at(shown(*path)):
        return await find_remote(client, path[0], await client.pin(*path))


@contextlib.contextmanager
def _at(location: str) -> Iterator[None]:
    """Add a location to errors that have none."""
    try:
        yield
    except FastloadError as error:
        if " - at " in str(error):
            raise
        raise type(error)(f"{error} - at {location}") from error.__cause__
