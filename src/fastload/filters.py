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
from fastload.filter_scan import FileScan
from fastload.row_selection import FileRows, pack_rows
from fastload.selection_cache import SelectionCache

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    """

    source: Source
    schema: FilterSchema
    predicate: Predicate
    files: tuple[FileRows, ...]

    @property
    def counts(self) -> Int64s:
        """Rows of each row group of all files that stay: int64 (row groups,)."""
        return np.concatenate([np.zeros(0, np.int64), *(file.counts for file in self.files)])

    def __reduce__(self) -> tuple[Any, ...]:
        arguments = (self.source, self.schema, self.predicate)
        if any(file.mapped for file in self.files):
            return select_rows, arguments
        return RowSelection, (*arguments, self.files)


def select_rows(source: Source, schema: FilterSchema, predicate: Predicate) -> RowSelection:
    """Finds the rows that stay: in the cache, else in the files.

    Raises `SourceChangedError`, `StorageError`, `CorruptFileError`, or `ValueError` for values
    that the filters can't be asked of, naming file and row group.
    """
    cache = SelectionCache()
    found: dict[int, FileRows] = {}
    keys = [_key(file, schema, predicate) for file in source.files]
    _load(cache, keys, found)
    if len(found) < len(keys):
        with cache.lock(predicate.digest.hex()):
            _load(cache, keys, found)
            _count(source.files, schema, predicate, cache, keys, found)
    return RowSelection(source, schema, predicate, tuple(found[i] for i in range(len(keys))))


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


def _count(
    files: Sequence[SourceFile],
    schema: FilterSchema,
    predicate: Predicate,
    cache: SelectionCache,
    keys: Sequence[str],
    found: dict[int, FileRows],
) -> None:
    """Adds the files that were not found."""
    missing = iter([index for index in range(len(files)) if index not in found])
    progress = _Progress(len(files))
    threads = ThreadPoolExecutor(available_cores(), "fastload-filter")
    try:
        while batch := list(islice(missing, _FILES_AT_ONCE)):
            scans = list(
                threads.map(lambda index: FileScan(files[index], schema, predicate), batch)
            )
            tasks = [(scan, group) for scan in scans for group in scan.groups]
            results = iter(threads.map(lambda task: task[0].select(task[1]), tasks))
            for index, scan in zip(batch, scans, strict=True):
                kept: list[NDArray[np.uint8] | None] = [None] * len(scan.rows)
                counts = [0] * len(scan.rows)
                for group in scan.groups:
                    counts[group], kept[group] = next(results)
                scan.check_unchanged()
                found[index] = cache.store(keys[index], pack_rows(counts, kept))
                progress.show(len(found))
    finally:
        threads.shutdown(cancel_futures=True)


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
