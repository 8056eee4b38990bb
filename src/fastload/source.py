"""From paths to files and their footers."""

from __future__ import annotations

import hashlib
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fastload._core import Footer
from fastload.errors import (
    SourceChangedError,
    SourceNotFoundError,
    StorageError,
)
from fastload.fingerprint import file_sums, fingerprint
from fastload.hive import keys_of
from fastload.paths import FoundFile, PathLike, find_files
from fastload.remote_storage import RemoteStorage
from fastload.storage import IO

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastload.hive import Keys
    from fastload.store import StoredFile
    from fastload.store_client import StoreClient

__all__ = ["Source", "SourceFile"]

# Most footers are smaller; what is read too much costs less than a second request.
_TAIL_BYTES = 64 << 10
# Footers are small, scattered reads: a few in flight hide the disk, more only cost threads.
_FOOTER_THREADS = 8


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file as it was when its footer was read.

    path: as given or found, to open and to show.
    size: bytes.
    mtime_ns: modification time in ns since the epoch; with `size` it tells a later change. -1
        of a file in a store.
    digest: of the footer's bytes, 16 bytes.
    keys: the hive keys in the names of its directories, with their values.
    name: its path below the directory given, or from the first wildcard of a glob on, with
        "/"; of a file given by itself its name without directories.
    kind: of the store that it lies in, and `stored` what that says of it; none of a local file.
    """

    path: str
    size: int
    mtime_ns: int
    footer: Footer
    digest: bytes
    keys: Keys = ()
    name: str = ""
    kind: str = ""
    stored: StoredFile | None = None


@dataclass(frozen=True)
class Source:
    """Files in canonical order, with all their row groups.

    row_group_rows, row_group_file, row_group_index: int64 arrays of shape (G,), one entry for
        each row group of all files in canonical order: its rows, its index in `files`, its
        index in its file. Read-only.
    """

    files: tuple[SourceFile, ...]
    row_group_rows: npt.NDArray[np.int64] = field(repr=False)
    row_group_file: npt.NDArray[np.int64] = field(repr=False)
    row_group_index: npt.NDArray[np.int64] = field(repr=False)
    storage: RemoteStorage = field(default_factory=lambda: RemoteStorage(None, None, IO()))

    @classmethod
    def open(
        cls, source: PathLike | Sequence[PathLike], storage: RemoteStorage | None = None
    ) -> Source:
        """Finds the files and reads their footers, in parallel.

        source: a file, a directory (searched to any depth), a glob (`**` too), a URL, or a list
            of them. A list keeps its order; what a directory or a glob holds is
            sorted by path, without names that start with "_" or ".". Directories below the
            one given, or from the first wildcard of a glob on, that are called `key=value`
            are hive keys.
        storage: of files that are not local; None = as URLs and `IO()` say.

        Raises `SourceNotFoundError`, `CorruptFileError`, `StorageError`,
        `UnsupportedTypeError` or `SchemaError` (of hive keys), naming the file; `TypeError` or
        `ValueError` for what is no local path.
        """
        storage = storage or RemoteStorage(None, None, IO())
        found = find_files(source, storage.find)
        local = [file for file in found if file.stored is None]
        remote = [file for file in found if file.stored is not None]
        read = iter(_read_footers(local))
        stored = iter(storage.map(_read_stored_footer, remote) if remote else ())
        files = [next(read if file.stored is None else stored) for file in found]
        return cls.of_files(files, storage)

    @classmethod
    def of_files(cls, files: Sequence[SourceFile], storage: RemoteStorage | None = None) -> Source:
        """A source of these files, in this order."""
        per_file = [np.asarray(file.footer.row_group_rows, dtype=np.int64) for file in files]
        counts = np.array([len(rows) for rows in per_file], dtype=np.int64)
        empty = np.empty(0, dtype=np.int64)
        rows = np.concatenate([empty, *per_file])
        file_index = np.repeat(np.arange(len(files), dtype=np.int64), counts)
        first = np.repeat(np.cumsum(counts) - counts, counts)
        index = np.arange(len(rows), dtype=np.int64) - first
        for array in (rows, file_index, index):
            array.setflags(write=False)
        storage = storage or RemoteStorage(None, None, IO())
        return cls(tuple(files), rows, file_index, index, storage)

    @property
    def num_rows(self) -> int:
        """Rows of all files."""
        return int(self.row_group_rows.sum())

    @cached_property
    def fingerprint(self) -> str:
        """What a saved state is checked against: 32 hexadecimal digits.

        Over each file's name (without directories), hive keys, size and footer, in order: a
        dataset may be moved or copied, but not reordered or written anew.
        """
        return fingerprint(self.files)

    @cached_property
    def file_sums(self) -> tuple[int, int]:
        """What a saved state tells the changed file by."""
        return file_sums(self.files)


def _read_footers(found: Sequence[FoundFile]) -> list[SourceFile]:
    if len(found) < 2:
        return [_read_footer(file) for file in found]
    threads = ThreadPoolExecutor(min(_FOOTER_THREADS, len(found)), "fastload-footer")
    try:
        return list(threads.map(_read_footer, found))
    finally:
        threads.shutdown(cancel_futures=True)


async def _read_stored_footer(client: StoreClient, found: FoundFile) -> SourceFile:
    path, stored = found.path, found.stored
    assert stored is not None
    keys = keys_of(found.folders, path)
    size = stored.size
    try:
        tail = bytes(await client.read(found.kind, stored, max(0, size - _TAIL_BYTES), size))
        needed = Footer.tail_bytes(tail, size, path)
        if needed > len(tail):
            tail = bytes(await client.read(found.kind, stored, size - needed, size))
    except (SourceChangedError, StorageError) as error:
        raise type(error)(f"{error} - at {path}") from None
    return _file_of(found, size, -1, tail, needed, keys)


def _file_of(
    found: FoundFile, size: int, mtime_ns: int, tail: bytes, needed: int, keys: Keys
) -> SourceFile:
    footer = Footer(tail, size, found.path)
    digest = hashlib.blake2b(tail[len(tail) - needed :], digest_size=16).digest()
    name = "/".join((*found.folders, os.path.basename(found.path)))
    return SourceFile(
        found.path, size, mtime_ns, footer, digest, keys, name, found.kind, found.stored
    )


def _read_footer(found: FoundFile) -> SourceFile:
    path = found.path
    keys = keys_of(found.folders, path)
    try:
        fd = _open(path)
    except FileNotFoundError:
        raise SourceNotFoundError(f"Expected a file, found none - at {path}") from None
    except OSError as error:
        raise _storage_error("Can't open the file", error, path) from error
    try:
        status = os.fstat(fd)
        size = status.st_size
        tail = _read_tail(fd, size, min(_TAIL_BYTES, size), path)
        needed = Footer.tail_bytes(tail, size, path)
        if needed > len(tail):
            tail = _read_tail(fd, size, needed, path)
    except OSError as error:
        raise _storage_error("Can't read the footer", error, path) from error
    finally:
        os.close(fd)
    return _file_of(found, size, status.st_mtime_ns, tail, needed, keys)


def _open(path: str) -> int:
    # Asked before: opening a pipe would wait for a writer.
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise OSError(0, "it is a device, pipe or socket")
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
                f"earlier: it changed while it was read - at {path}"
            )
        tail += more
    return tail
