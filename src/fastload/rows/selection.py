"""Selection of the rows that filters and a split keep and that are not deleted, cached on disk.

pyarrow prunes row groups by statistics and hive keys. In the remaining row groups, the rows are
found by reading the columns that the filters and the split name, row groups in parallel.

The processes of a node share the selections on disk. An entry holds the rows of one file. It starts
with a head of 32 bytes: magic, number of row groups, number of bytes of bits, and the CRC-32 of the
rest. The rest is the counts and the offsets of a `FileRows`, as int64, and its bits. An entry is
published by an atomic rename and never changes, and no part of an entry is ever executed.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import struct
import time
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fastload.plan.kept_rows import FileRows
from fastload.plan.sequence import RowGroups
from fastload.runtime.digest import digest
from fastload.runtime.disk.private_directory import (
    CacheDirectory,
    mark_used,
    publish,
    remove_abandoned_once,
    remove_unused_once,
    try_lock,
    unlock,
)
from fastload.source.stores.raw_tier import has_version
from fastload.source.stores.store import FILESYSTEM

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from fastload.plan.intervals import Int64s
    from fastload.rows.filter_schema import FilterSchema
    from fastload.rows.predicate import Predicate
    from fastload.rows.skip_report import SkipReport
    from fastload.source.source import Source

__all__ = ["EpochRows", "key_of_file"]

# The version of the way rows are found. Entries of another version are ignored.
_VERSION = "3"
_MAGIC = b"FLROWS01"
_HEAD = struct.Struct("<8sqqII")
# A smaller entry is read rather than mapped, because a process may have only 65,530 mappings.
_MAPPED_BYTES = 1 << 20
_READ_BYTES = 1 << 20
_LOCKS = 64
_POLL_S = 0.05


class EpochRows:
    """The rows of an epoch: all rows, or the rows that stay.

    Args:
        source: the files.
        filters: the columns that filters may ask for, and the filters and the split, if there are
            any or rows are deleted; None = all rows.
        report: receives the row groups whose filter columns can't be read; None = such a row group
            is an error.

    Attributes:
        row_groups: the row groups of all files, with the number of rows that stay.
    """

    def __init__(
        self,
        source: Source,
        filters: tuple[FilterSchema, Predicate] | None,
        report: SkipReport | None,
    ) -> None:
        # The selection is kept whole, because its pickle leaves out rows that the cache holds.
        self._selection: RowSelection | None = None
        rows, stored = source.row_group_rows, None
        if filters is not None:
            self._selection = select_rows(source, *filters, report is not None)
            rows, stored = self._selection.counts, rows if report is None else None
            if report is not None:
                for index, group, cause in self._selection.corrupt:
                    path = source.files[index].path
                    report.add(index, path, group, cause, "`num_rows` does not count its rows")
        self.row_groups = RowGroups(rows, source.row_group_file, source.row_group_index, stored)

    @property
    def files(self) -> tuple[FileRows, ...]:
        """Rows that stay, for each file; () = all rows."""
        return () if self._selection is None else self._selection.files


@dataclass(frozen=True, slots=True, eq=False)
class RowSelection:
    """The rows of a source that a predicate keeps.

    If rows are mapped from the cache, a pickle does not contain the rows, and unpickling loads
    them from the cache.

    Attributes:
        source: the files.
        schema: the columns of all files.
        predicate: the filters and the split.
        files: for each file, the rows that stay.
        skip: no row stays of a row group that can't be read.
        corrupt: the row groups that can't be read: index of the file, index of the row group, and
            cause.
    """

    source: Source
    schema: FilterSchema
    predicate: Predicate
    files: tuple[FileRows, ...]
    skip: bool = False
    corrupt: tuple[tuple[int, int, str], ...] = ()

    @property
    def counts(self) -> Int64s:
        """Number of rows that stay in each row group of all files: int64 (row groups,)."""
        return np.concatenate([np.zeros(0, np.int64), *(file.counts for file in self.files)])

    def __reduce__(self) -> tuple[Any, ...]:
        arguments = (self.source, self.schema, self.predicate)
        if any(file.mapped for file in self.files):
            return select_rows, (*arguments, self.skip)
        return RowSelection, (*arguments, self.files, self.skip, self.corrupt)


def select_rows(
    source: Source, schema: FilterSchema, predicate: Predicate, skip: bool = False
) -> RowSelection:
    """Find the rows that stay: in the cache, or else in the files.

    Errors name the file and the row group.

    Args:
        source: the files.
        schema: the columns of all files.
        predicate: the filters and the split.
        skip: keep no row of a row group that can't be read, instead of raising an error. The rows
            of such a file are not cached.

    Raises:
        SourceChangedError: a file has changed since its footer was read.
        StorageError: a file can't be read.
        CorruptFileError: a row group is corrupt, and `skip` is False.
        ValueError: the filters can't be evaluated on a value.
    """
    cache = SelectionCache()
    found: dict[int, FileRows] = {}
    corrupt: list[tuple[int, int, str]] = []
    keys = _entry_keys(source, schema, predicate)
    _load(cache, keys, found)
    if len(found) < len(keys):
        with cache.lock(predicate.digest):
            _load(cache, keys, found)
            missing = [index for index in range(len(keys)) if index not in found]
            # Imported only here, so that datasets without filters don't wait for pyarrow's modules.
            from fastload.rows.finder import RowFinder

            finder = RowFinder(source, schema, predicate, skip=skip)
            with contextlib.closing(finder):
                for file in finder.files(missing):
                    found[file.file] = (
                        file.rows if file.corrupt else cache.store(keys[file.file], file.rows)
                    )
                    corrupt += [(file.file, g, cause) for g, cause in file.corrupt.items()]
    files = tuple(found[i] for i in range(len(keys)))
    return RowSelection(source, schema, predicate, files, skip, tuple(corrupt))


def _load(cache: SelectionCache, keys: Sequence[str], found: dict[int, FileRows]) -> None:
    for index, key in enumerate(keys):
        if index not in found:
            rows = cache.load(key)
            if rows is not None:
                found[index] = rows


def _entry_keys(source: Source, schema: FilterSchema, predicate: Predicate) -> list[str]:
    """Return the key of each file's entry in the cache."""
    asked = digest(_VERSION, predicate.digest, schema.arrow.serialize().to_pybytes())
    table = source.table
    if table is not None:
        # After columns are renamed, the same names stand for other columns of a file.
        paths, names = table.columns.paths, table.columns.names or {}
        asked = digest(asked, repr(sorted(map(repr, (*paths.items(), *names.items())))))
    if table is not None and table.vectors is not None:
        asked = digest(asked, table.identity)
    return [key_of_file(asked, source, number) for number in range(len(source.files))]


def key_of_file(asked: str, source: Source, number: int) -> str:
    """Return the key of what was found in one version of a file, by the digest of the question.

    The key is "", under which caches keep nothing, if the file has no reliable version, or its
    filesystem can't be told from others with the same paths.
    """
    file = source.files[number]
    if file.stored is not None and not has_version(file.kind, file.stored):
        return ""
    if file.kind == FILESYSTEM:
        place = source.storage.store_identity
        if place is None:
            return ""
        asked = digest(asked, place)
    path = os.path.abspath(file.path) if file.stored is None else file.path
    stored = "" if file.stored is None else file.stored.version
    version = (path, file.size, file.mtime_ns, file.digest, file.keys, file.name, stored)
    listed = [repr((file.constants, file.deletes))] if source.table is not None else []
    return digest(asked, repr(version), *listed)


class SelectionCache:
    """A directory of entries. Without a directory, and after the first failure, nothing is kept."""

    def __init__(self) -> None:
        self._home = CacheDirectory(
            "selections",
            "the counts of filtered rows",
            "they stay in memory and are counted again next time",
        )

    def load(self, key: str) -> FileRows | None:
        """Return the rows of an entry; None if no undamaged entry exists.

        A damaged entry is removed.

        Args:
            key: the key of the entry; "" = there is none.
        """
        if self._home.path is None or not key:
            return None
        path = self._path(key)
        try:
            with path.open("rb") as file:
                rows = _read(file.fileno())
                mark_used(file.fileno())
        except OSError:
            # There may be no entry, or no file descriptor or mapping left for a sound one.
            return None
        if rows is None:
            with contextlib.suppress(OSError):
                path.unlink()
        return rows

    def store(self, key: str, rows: FileRows) -> FileRows:
        """Write an entry.

        Args:
            key: the key of the entry; "" = write none.
            rows: the rows to keep.

        Returns:
            The same rows: mapped from the entry if they are large and the entry was written, else
            `rows`.
        """
        if self._home.path is None or not key:
            return rows
        path = self._path(key)
        body: list[Any] = [rows.counts.astype("<i8"), rows.offsets.astype("<i8"), rows.bits]
        crc = 0
        for array in body:
            crc = zlib.crc32(array, crc)
        head = _HEAD.pack(_MAGIC, len(rows.counts), len(rows.bits), crc, 0)
        try:
            path.parent.mkdir(mode=0o700, exist_ok=True)
            remove_abandoned_once(path.parent)
            remove_unused_once(self._home.path, "*/*.rows")
            with publish(path) as file:
                file.writelines([head, *body])
        except OSError as error:
            self._home.give_up(error)
            return rows
        # Map large rows from now on, so that processes share their memory.
        return self.load(key) or rows if len(rows.bits) >= _MAPPED_BYTES else rows

    @contextlib.contextmanager
    def lock(self, key: str) -> Iterator[None]:
        """Hold the lock of a key, so that other processes don't find the same rows meanwhile.

        The body of the `with` runs without a lock if the lock file can't be opened.

        Args:
            key: the key to lock.
        """
        descriptor = self._open_lock(key)
        try:
            while descriptor is not None and not try_lock(descriptor):
                time.sleep(_POLL_S)
            yield
        finally:
            if descriptor is not None:
                unlock(descriptor)

    def _open_lock(self, key: str) -> int | None:
        if self._home.path is None:
            return None
        path = self._home.path / f"lock-{int(key[:8], 16) % _LOCKS:02d}"
        try:
            return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:
            return None

    def _path(self, key: str) -> Path:
        assert self._home.path is not None
        return self._home.path / key[:2] / f"{key}.rows"


def _read(descriptor: int) -> FileRows | None:
    """Return the rows in an open file; None if the file is damaged."""
    size = os.fstat(descriptor).st_size
    head = os.pread(descriptor, _HEAD.size, 0)
    if len(head) < _HEAD.size:
        return None
    magic, groups, bits_bytes, crc, _ = _HEAD.unpack(head)
    if magic != _MAGIC or groups < 0 or bits_bytes < 0:
        return None
    if size != _HEAD.size + 16 * groups + bits_bytes or _crc(descriptor) != crc:
        return None
    mapped = bits_bytes >= _MAPPED_BYTES
    whole = (
        mmap.mmap(descriptor, size, access=mmap.ACCESS_READ)
        if mapped
        else os.pread(descriptor, size, 0)
    )
    counts, offsets = np.frombuffer(whole, "<i8", 2 * groups, _HEAD.size).reshape(2, groups)
    bits = np.frombuffer(whole, np.uint8, bits_bytes, _HEAD.size + 16 * groups)
    return FileRows(counts.copy(), offsets.copy(), bits, mapped)


def _crc(descriptor: int) -> int:
    crc = 0
    at = _HEAD.size
    # Read rather than mapped, so that the file does not count as this process's memory.
    while block := os.pread(descriptor, _READ_BYTES, at):
        crc = zlib.crc32(block, crc)
        at += len(block)
    return crc
