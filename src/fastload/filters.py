"""From filters and a split to the rows of each row group that stay.

pyarrow prunes row groups by statistics and hive keys; of the others the exact rows are found
from the columns that filters and split name, row groups in parallel.
"""

from __future__ import annotations

import hashlib
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from fastload.budget import available_cores
from fastload.errors import CorruptFileError
from fastload.filter_scan import FileScan
from fastload.row_selection import FileRows, pack_rows
from fastload.selection_cache import SelectionCache

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from fastload.filter_schema import FilterSchema
    from fastload.intervals import Int64s
    from fastload.predicate import Predicate
    from fastload.source import Source, SourceFile

__all__ = ["RowSelection", "select_rows"]

# Files whose footers are in memory at a time, and after which counts are kept.
_FILES_AT_ONCE = 64
_PROGRESS_S = 5.0


@dataclass(frozen=True, slots=True, eq=False)
class RowSelection:
    """The rows of a source that a predicate keeps, by file.

    A pickle has what is mapped from the cache by its key only.

    skip: a row group that can't be read has no row that stays.
    corrupt: those, as index of the file, row group and cause.
    """

    source: Source
    schema: FilterSchema
    predicate: Predicate
    files: tuple[FileRows, ...]
    skip: bool = False
    corrupt: tuple[tuple[int, int, str], ...] = ()

    @property
    def counts(self) -> Int64s:
        """Rows of each row group of all files that stay: int64 (row groups,)."""
        return np.concatenate([np.zeros(0, np.int64), *(file.counts for file in self.files)])

    def __reduce__(self) -> tuple[Any, ...]:
        arguments = (self.source, self.schema, self.predicate)
        if any(file.mapped for file in self.files):
            return select_rows, (*arguments, self.skip)
        return RowSelection, (*arguments, self.files, self.skip, self.corrupt)


def select_rows(
    source: Source, schema: FilterSchema, predicate: Predicate, skip: bool = False
) -> RowSelection:
    """Finds the rows that stay: in the cache, else in the files.

    skip: no row stays of a row group that can't be read; such a file is not kept in the cache.

    Raises `SourceChangedError`, `StorageError`, `CorruptFileError`, or `ValueError` for values
    that the filters can't be asked of, naming file and row group.
    """
    cache = SelectionCache()
    found: dict[int, FileRows] = {}
    corrupt: list[tuple[int, int, str]] = []
    keys = [_key(file, schema, predicate) for file in source.files]
    _load(cache, keys, found)
    if len(found) < len(keys):
        with cache.lock(predicate.digest.hex()):
            _load(cache, keys, found)
            count = _Count(source.files, schema, predicate, skip)
            corrupt = count.add_missing(cache, keys, found)
    files = tuple(found[i] for i in range(len(keys)))
    return RowSelection(source, schema, predicate, files, skip, tuple(corrupt))


def _load(cache: SelectionCache, keys: Sequence[str], found: dict[int, FileRows]) -> None:
    for index, key in enumerate(keys):
        if index not in found:
            rows = cache.load(key)
            if rows is not None:
                found[index] = rows


def _key(file: SourceFile, schema: FilterSchema, predicate: Predicate) -> str:
    digest = hashlib.blake2b(predicate.digest, digest_size=16)
    digest.update(schema.arrow.serialize())
    path = os.path.abspath(file.path)
    version = (path, file.size, file.mtime_ns, file.digest, file.keys, file.name)
    digest.update(repr(version).encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


_Kept = tuple[int, "NDArray[np.uint8] | None"]  # rows that stay, and their bits


class _Count:
    """Finds the rows that stay in files; skip: as `select_rows`."""

    def __init__(
        self, files: Sequence[SourceFile], schema: FilterSchema, predicate: Predicate, skip: bool
    ) -> None:
        self._files = files
        self._schema = schema
        self._predicate = predicate
        self._skip = skip

    def add_missing(
        self, cache: SelectionCache, keys: Sequence[str], found: dict[int, FileRows]
    ) -> list[tuple[int, int, str]]:
        """Adds the files that were not found; returns file, row group and cause of the corrupt."""
        missing = iter([index for index in range(len(self._files)) if index not in found])
        progress = _Progress(len(self._files))
        corrupt = []
        threads = ThreadPoolExecutor(available_cores(), "fastload-filter")
        try:
            while batch := list(islice(missing, _FILES_AT_ONCE)):
                scans = list(threads.map(self._scan, batch))
                tasks = [(scan, group) for scan in scans for group in scan.groups]
                results = iter(threads.map(self._select, tasks))
                for index, scan in zip(batch, scans, strict=True):
                    rows, causes = _rows_of(scan, results)
                    scan.check_unchanged()
                    found[index] = rows if causes else cache.store(keys[index], rows)
                    corrupt += [(index, group, cause) for group, cause in causes.items()]
                    progress.show(len(found))
        finally:
            threads.shutdown(cancel_futures=True)
        return corrupt

    def _scan(self, index: int) -> FileScan:
        return FileScan(self._files[index], self._schema, self._predicate)

    def _select(self, task: tuple[FileScan, int]) -> _Kept | str:
        scan, group = task
        try:
            return scan.select(group)
        except CorruptFileError as error:
            if not self._skip:
                raise
            return str(error)


def _rows_of(scan: FileScan, results: Iterator[_Kept | str]) -> tuple[FileRows, dict[int, str]]:
    """The rows of a file that stay, and why row groups can't be read."""
    kept: list[NDArray[np.uint8] | None] = [None] * len(scan.rows)
    counts = [0] * len(scan.rows)
    causes = {}
    for group in scan.groups:
        result = next(results)
        if isinstance(result, str):
            causes[group] = result
        else:
            counts[group], kept[group] = result
    return pack_rows(counts, kept), causes


class _Progress:
    """A line on stderr now and then, for counts that take long."""

    def __init__(self, files: int) -> None:
        self._files = files
        self._start = self._next = time.monotonic()
        self._next += _PROGRESS_S

    def show(self, done: int) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _PROGRESS_S
        print(
            f"fastload: filtered {done} of {self._files} files in {now - self._start:.0f} s",
            file=sys.stderr,
            flush=True,
        )
