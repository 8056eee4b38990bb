"""Reading of footers: kept footers from the cache, others from their files, many at a time."""

from __future__ import annotations

import asyncio
import hashlib
import os
import stat
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

from fastload.errors import CorruptFileError, SourceChangedError, SourceNotFoundError, StorageError
from fastload.runtime.native import core
from fastload.runtime.progress import ProgressLine
from fastload.source.files import SourceFile
from fastload.source.footer_cache import FooterCache, FooterKey, NewFooter
from fastload.source.hive import keys_of
from fastload.source.stores.hub.hub_paths import HUB, without_commit
from fastload.source.stores.raw_tier import has_version

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from fastload.source.files import FoundFile, StoredFile
    from fastload.source.footer_cache import PackedFooter
    from fastload.source.stores.client import StoreClient
    from fastload.source.stores.stores import Stores

__all__ = ["read_footers"]

# Most footers are smaller than this. Reading too much costs less than a second request.
_TAIL_BYTES = 64 << 10
# Footers are small, scattered reads. A few reads in flight hide the latency of a disk; more reads
# only cost threads.
_THREADS = 8
# Footers in the page cache are read sooner than threads start.
_ALONE_S = 0.002
# A larger footer takes some milliseconds to read, which several threads share.
_LARGE_BYTES = 1 << 20
# Footers are read, and then kept, in groups: an interrupted start loses one group. A group has
# this many files, and about as many bytes as memory has room for.
_AT_ONCE = 8192
_FIRST = 16  # files of the first group, which tells how large footers are
_GROUP_BYTES = 48 << 20
# Footers beyond this limit are packed.
_UNPACKED_BYTES = 32 << 20
# The footers of fewer local files are read as quickly as they are found in the cache; with many
# files, parsing takes long.
_LEAST_LOCAL = 256
# Footers of local files are kept once the file has not changed for this long.
_SETTLED_NS = 2_000_000_000


class _Version(NamedTuple):
    """What tells a version of a file from others.

    Attributes:
        size: bytes of the file.
        mtime_ns: modification time of a local file, in ns since 1970; -1 for a file of a store.
        inode: inode of a local file.
        ctime_ns: time of the last change of the inode, which no program can set.
    """

    size: int
    mtime_ns: int
    inode: int = 0
    ctime_ns: int = 0

    @classmethod
    def of(cls, status: os.stat_result) -> _Version:
        return cls(status.st_size, status.st_mtime_ns, status.st_ino, status.st_ctime_ns)


def read_footers(found: Sequence[FoundFile], storage: Stores) -> list[SourceFile]:
    """Return files with their footers, in order, from the cache on disk or from the files.

    The cache on disk keeps the footers of remote files by URL and version, if the store has
    versions, and the footers of many local files by path, size, times and inode.

    Args:
        found: the files.
        storage: the stores of remote files.

    Raises:
        SourceNotFoundError: a file does not exist. Every error names the file.
        CorruptFileError: a file is not Parquet, or its footer is damaged.
        StorageError: a file can't be read.
        SourceChangedError: a file changed while its footer was read.
        UnsupportedTypeError: the footer is legal Parquet that fastload can't read yet.
        SchemaError: the name of a Hive key is not UTF-8.
    """
    return _Reading(found, storage).run()


class _Reading:
    def __init__(self, found: Sequence[FoundFile], storage: Stores) -> None:
        self._found = found
        self._storage = storage
        self._schemas = core.FooterSchemas()
        self._results: list[SourceFile | None] = [None] * len(found)
        self._versions = _versions_of(found)
        kinds = {file.kind for file in found if file.stored is not None}
        stores = {kind: storage.identity_for_footers(kind) for kind in kinds}
        keys = (_key_of(found[i], version, stores) for i, version in self._versions.items())
        self._keys = {index: key for index, key in zip(self._versions, keys, strict=True) if key}
        self._new: dict[int, NewFooter] = {}  # footers still to be kept, by index
        self._unpacked_bytes = 0
        self._done = 0
        self._progress = ProgressLine("read", len(found), "footers")

    def run(self) -> list[SourceFile]:
        cache = FooterCache(self._schemas) if self._keys else None
        if cache is not None:
            self._take_packed(self._keys, cache.load(self._keys.values()))
        lacking = [index for index, result in enumerate(self._results) if result is None]
        done, at_once = 0, min(_AT_ONCE, _FIRST)
        while done < len(lacking):
            some = lacking[done : done + at_once]
            done += len(some)
            self._read_local([i for i in some if self._found[i].stored is None])
            self._read_remote([i for i in some if self._found[i].stored is not None])
            if cache is not None:
                new = [(self._keys[i], footer) for i, footer in self._new.items()]
                packed = cache.store(new)
                if self._is_full:
                    self._take_packed(self._new, packed)
            kept = sum(len(footer.packed) for footer in self._new.values())
            at_once = min(_AT_ONCE, max(1, len(some) * _GROUP_BYTES // max(1, kept)))
            self._new = {}
        return [result for result in self._results if result is not None]

    @property
    def _is_full(self) -> bool:
        """True if footers take so much memory that further ones are packed."""
        return self._unpacked_bytes > _UNPACKED_BYTES

    def _take_packed(self, indices: Iterable[int], packed: Mapping[str, PackedFooter]) -> None:
        """Take footers from packs on disk, where they stay until they are needed."""
        for index in indices:
            found = packed.get(self._keys[index].key)
            if found is not None:
                version = self._versions[index]
                footer = found.footer(version.size, self._found[index].path)
                self._results[index] = _file_of(self._found[index], version, footer, found.digest)

    def _read_local(self, indices: Sequence[int]) -> None:
        def read(index: int) -> None:
            self._take(index, *_read_local(self._found[index]))

        left, stop = iter(indices), time.monotonic() + _ALONE_S
        for index in left:
            read(index)
            if time.monotonic() > stop:
                break
        rest = list(left)
        if not rest:
            return
        threads = ThreadPoolExecutor(min(_THREADS, len(rest)), "fastload-footer")
        try:
            list(threads.map(read, rest))
        finally:
            threads.shutdown(cancel_futures=True)

    def _read_remote(self, indices: Sequence[int]) -> None:
        async def read(client: StoreClient, index: int) -> None:
            file = self._found[index]
            assert file.stored is not None
            version = _Version(file.stored.size, -1)
            try:
                await take(client, index, file.stored, version)
            except CorruptFileError:  # the answer may have been wrong
                await client.forget(file.kind, file.stored, 0, file.stored.size)
                await take(client, index, file.stored, version)

        async def take(
            client: StoreClient, index: int, stored: StoredFile, version: _Version
        ) -> None:
            tail, needed = await _read_stored(client, self._found[index], stored, _TAIL_BYTES)
            if needed < _LARGE_BYTES:
                if needed > len(tail):
                    tail, _ = await _read_stored(client, self._found[index], stored, needed)
                self._take(index, tail[len(tail) - needed :], version)
                return
            async with large:
                tail, _ = await _read_stored(client, self._found[index], stored, needed)
                # The answers of the store are not to wait for a large footer.
                loop = asyncio.get_running_loop()
                await loop.run_in_executor(threads, self._take, index, tail, version)

        if not indices:
            return
        cores = min(_THREADS, os.cpu_count() or 1)
        large = asyncio.Semaphore(2 * cores)  # they would take much memory together
        threads = ThreadPoolExecutor(cores, "fastload-footer")
        try:
            self._storage.map(read, indices)
        finally:
            threads.shutdown(cancel_futures=True)

    def _take(self, index: int, tail: bytes, version: _Version) -> None:
        """Parse a footer, of which `tail` holds exactly the bytes, and add it to the results."""
        path, size = os.fsencode(self._found[index].path), version.size
        digest = hashlib.blake2b(tail, digest_size=16).digest()
        self._unpacked_bytes += len(tail)
        # The footer of a single file has no other footer to share its schema with.
        footer = core.Footer(tail, size, path, self._schemas if len(self._found) > 1 else None)
        keeps = index in self._keys and self._versions[index] == version
        if keeps or self._is_full:
            packed, rows = footer.pack(), footer.packed_rows
            if keeps:
                key = self._keys[index]
                parts = (key.key, key.path, digest, rows, packed, footer.schema)
                self._new[index] = NewFooter(*parts)
            if self._is_full:
                footer = core.Footer.of_packed(packed, size, path, rows, footer.schema)
        self._results[index] = _file_of(self._found[index], version, footer, digest)
        self._done += 1
        self._progress.show(self._done)


def _file_of(found: FoundFile, version: _Version, footer: core.Footer, digest: bytes) -> SourceFile:
    return SourceFile(
        found.path,
        version.size,
        version.mtime_ns,
        footer,
        digest,
        keys_of(found.folders, found.path),
        "/".join((*found.folders, os.path.basename(found.path))),
        found.kind,
        found.stored,
        version.inode,
    )


def _versions_of(found: Sequence[FoundFile]) -> dict[int, _Version]:
    """Return the version of each file whose footer may be kept, by index."""
    local = [index for index, file in enumerate(found) if file.stored is None]
    versions = {i: _Version(file.stored.size, -1) for i, file in enumerate(found) if file.stored}
    if len(local) < _LEAST_LOCAL:
        return versions
    latest = time.time_ns() - _SETTLED_NS
    for index in local:
        try:
            status = os.stat(found[index].path)
        except OSError:
            continue  # reading the footer raises the error
        # A file written just now may be written again with the same size and time.
        if status.st_mtime_ns < latest:
            versions[index] = _Version.of(status)
    return versions


def _key_of(
    file: FoundFile, version: _Version, stores: Mapping[str, str | None]
) -> FooterKey | None:
    """Return the key of a file's footer in the cache; None if the footer is not kept.

    Args:
        file: the file.
        version: the version of the file.
        stores: for each kind of stored file, which store has it; None = its footers are not kept.
    """
    if file.stored is None:
        return FooterKey(os.path.abspath(file.path), repr(tuple(version)))
    store = stores[file.kind]
    # Without a version, a changed file could not be told from the old one.
    if store is None or not has_version(file.kind, file.stored):
        return None
    path = without_commit(file.stored.path) if file.kind == HUB else file.path
    return FooterKey(path, f"{store}:{file.stored.size}:{file.stored.version}")


async def _read_stored(
    client: StoreClient, found: FoundFile, stored: StoredFile, most: int
) -> tuple[bytes, int]:
    """Return up to `most` bytes at a file's end, and how many of them the footer takes, or more."""
    path, size = found.path, stored.size
    try:
        tail = bytes(await client.read(found.kind, stored, max(0, size - most), size))
        return tail, core.Footer.tail_bytes(tail, size, os.fsencode(path))
    except (SourceChangedError, StorageError) as error:
        raise type(error)(f"{error} - at {path}") from None


def _read_local(found: FoundFile) -> tuple[bytes, _Version]:
    path = found.path
    try:
        fd = _open(path)
    except FileNotFoundError:
        raise SourceNotFoundError(f"Expected a file, found none - at {path}") from None
    except OSError as error:
        raise _storage_error("Can't open the file", error, path) from error
    try:
        version = _Version.of(os.fstat(fd))
        size = version.size
        tail = _read_tail(fd, size, min(_TAIL_BYTES, size), path)
        needed = core.Footer.tail_bytes(tail, size, os.fsencode(path))
        if needed > len(tail):
            tail = _read_tail(fd, size, needed, path)
    except OSError as error:
        raise _storage_error("Can't read the footer", error, path) from error
    finally:
        os.close(fd)
    return tail[len(tail) - needed :], version


def _open(path: str) -> int:
    # The check comes before open(), which would wait for a writer of a pipe.
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise OSError(0, "it is a directory, device, pipe or socket")
    return os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))


def _storage_error(what: str, error: OSError, path: str) -> StorageError:
    return StorageError(f"{what}: {error.strerror} - at {path}")


def _read_tail(fd: int, size: int, length: int, path: str) -> bytes:
    tail = os.pread(fd, length, size - length)
    while len(tail) < length:
        more = os.pread(fd, length - len(tail), size - length + len(tail))
        if not more:
            raise SourceChangedError(
                f"Expected a file of {size} bytes, got its end {length - len(tail)} bytes "
                f"earlier: the file changed while it was read - at {path}"
            )
        tail += more
    return tail
