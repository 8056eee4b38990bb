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

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastload.hive import Keys

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
    mtime_ns: modification time in ns since the epoch; with `size` it tells a later change.
    digest: of the footer's bytes, 16 bytes.
    keys: the hive keys in the names of its directories, with their values.
    name: its path below the directory given, or from the first wildcard of a glob on, with
        "/"; of a file given by itself its name without directories.
    """

    path: str
    size: int
    mtime_ns: int
    footer: Footer
    digest: bytes
    keys: Keys = ()
    name: str = ""


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

    @classmethod
    def open(cls, source: PathLike | Sequence[PathLike]) -> Source:
        """Finds the files and reads their footers, in parallel.

        source: a file, a directory (searched to any depth), a glob (`**` too), a file:// URL,
            or a list of them. A list keeps its order; what a directory or a glob holds is
            sorted by path, without names that start with "_" or ".". Directories below the
            one given, or from the first wildcard of a glob on, that are called `key=value`
            are hive keys.

        Raises `SourceNotFoundError`, `CorruptFileError`, `StorageError`,
        `UnsupportedTypeError` or `SchemaError` (of hive keys), naming the file; `TypeError` or
        `ValueError` for what is no local path.
        """
        found = find_files(source)
        if len(found) == 1:
            files = [_read_footer(found[0])]
        else:
            threads = ThreadPoolExecutor(min(_FOOTER_THREADS, len(found)), "fastload-footer")
            try:
                files = list(threads.map(_read_footer, found))
            finally:
                threads.shutdown(cancel_futures=True)
        return cls.of_files(files)

    @classmethod
    def of_files(cls, files: Sequence[SourceFile]) -> Source:
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
        return cls(tuple(files), rows, file_index, index)

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
    footer = Footer(tail, size, path)
    digest = hashlib.blake2b(tail[len(tail) - needed :], digest_size=16).digest()
    name = "/".join((*found.folders, os.path.basename(path)))
    return SourceFile(path, size, status.st_mtime_ns, footer, digest, keys, name)


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
