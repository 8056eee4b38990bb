"""From filters and a split to the rows of each row group that stay.

pyarrow prunes row groups by statistics and hive keys; of the others the exact rows are found
from the columns that filters and split name, row groups in parallel.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from fastload.budget import available_cores
from fastload.filter_reader import FilterReader
from fastload.filter_scan import FileScan, naming
from fastload.page_pruning import rows_of_pages
from fastload.plan import RowGroups
from fastload.row_selection import FileRows, pack_rows
from fastload.row_test import RowTest
from fastload.selection_cache import SelectionCache

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from concurrent.futures import Future

    from numpy.typing import NDArray

    from fastload.filter_schema import FilterSchema
    from fastload.intervals import Int64s
    from fastload.predicate import Predicate
    from fastload.source import Source, SourceFile

__all__ = ["RowSelection", "select_rows"]

_T = TypeVar("_T")

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
            missing = [index for index in range(len(keys)) if index not in found]
            with contextlib.closing(_Counting(source, schema, predicate)) as counting:
                for index, rows in counting.files(missing):
                    found[index] = cache.store(keys[index], rows)
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


class _Counting:
    """Finds the rows that stay of files, in parallel."""

    def __init__(self, source: Source, schema: FilterSchema, predicate: Predicate) -> None:
        self._source = source
        self._schema = schema
        self._predicate = predicate
        self._test = RowTest(schema, predicate)
        self._reader = FilterReader.of(source, schema, predicate)
        self._threads = ThreadPoolExecutor(available_cores(), "fastload-filter")

    def files(self, indices: Sequence[int]) -> Iterator[tuple[int, FileRows]]:
        """The rows of each of the files of those indices."""
        progress = _Progress(len(self._source.files))
        done = len(self._source.files) - len(indices)
        for first in range(0, len(indices), _FILES_AT_ONCE):
            batch = indices[first : first + _FILES_AT_ONCE]
            scans = list(self._threads.map(self._scan_of, batch))
            masks = self._by_core(batch, scans) if self._reader else self._by_pyarrow(scans)
            for index, scan in zip(batch, scans, strict=True):
                kept: list[NDArray[np.uint8] | None] = [None] * len(scan.rows)
                counts = [0] * len(scan.rows)
                for group in scan.groups:
                    counts[group], kept[group] = next(masks)
                scan.check_unchanged()
                yield index, pack_rows(counts, kept)
                done += 1
                progress.show(done)

    def close(self) -> None:
        self._threads.shutdown(cancel_futures=True)

    def _scan_of(self, index: int) -> FileScan:
        return FileScan(self._source.files[index], self._schema, self._predicate)

    def _by_pyarrow(self, scans: Sequence[FileScan]) -> Iterator[_Kept]:
        tasks = [(scan, group) for scan in scans for group in scan.groups]
        yield from self._threads.map(lambda task: _packed(task[0].select(task[1])), tasks)

    def _by_core(self, indices: Sequence[int], scans: Sequence[FileScan]) -> Iterator[_Kept]:
        """What the columns say of batches that run over row groups, cut into these."""
        assert self._reader is not None
        pages = list(self._threads.map(self._pages_of, indices, scans))
        counts = [
            [int(left[g].sum()) if g in left else scan.rows[g] for g in scan.groups]
            for scan, left in zip(scans, pages, strict=True)
        ]
        tables = self._reader.batches(
            RowGroups(
                np.array([count for found in counts for count in found], np.int64),
                np.repeat(np.array(indices, np.int64), [len(found) for found in counts]),
                np.array([group for scan in scans for group in scan.groups], np.int64),
            ),
            self._candidates(indices, scans, pages) if any(pages) else (),
        )
        masks = _ahead(self._threads, self._test.of_table, tables)
        rest = np.zeros(0, np.bool_)
        for scan, left, found in zip(scans, pages, counts, strict=True):
            for group, count in zip(scan.groups, found, strict=True):
                parts = [rest]
                lacking = count - len(rest)
                with naming(f"{scan.path}, row group {group}"):
                    while lacking > 0:
                        parts.append(next(masks))
                        lacking -= len(parts[-1])
                mask = np.concatenate(parts)
                mask, rest = mask[:count], mask[count:]
                kept = scan.of_numbers(group)
                if group in left:
                    kept &= left[group]
                    kept[left[group]] &= mask
                else:
                    kept &= mask
                yield _packed(kept)

    def _pages_of(self, index: int, scan: FileScan) -> dict[int, NDArray[np.bool_]]:
        """By row group, the rows of those of its pages that may have some that stay."""
        filters = self._predicate.filters
        if filters is None or self._reader is None:
            return {}
        file, schema = self._source.files[index], self._schema.arrow
        return rows_of_pages(file, self._reader.names, filters, schema, scan.groups)

    def _candidates(
        self,
        indices: Sequence[int],
        scans: Sequence[FileScan],
        pages: Sequence[dict[int, NDArray[np.bool_]]],
    ) -> list[FileRows]:
        """By file of the source, the rows to read."""
        rows = [pack_rows((), ())] * len(self._source.files)
        for index, scan, left in zip(indices, scans, pages, strict=True):
            packed = [_packed(left[g]) if g in left else (n, None) for g, n in enumerate(scan.rows)]
            rows[index] = pack_rows(*zip(*packed, strict=True))
        return rows


_Kept = tuple[int, "NDArray[np.uint8] | None"]


def _packed(kept: NDArray[np.bool_]) -> _Kept:
    """How many rows stay, and a bit of each; None = all, or none."""
    count = int(np.count_nonzero(kept))
    if count in (0, len(kept)):
        return count, None
    return count, np.packbits(kept, bitorder="little")


def _ahead(
    threads: ThreadPoolExecutor, function: Callable[[Any], _T], items: Iterable[Any]
) -> Iterator[_T]:
    """The function's results, in order; a few are worked on at a time."""
    futures: deque[Future[_T]] = deque()
    for item in items:
        futures.append(threads.submit(function, item))
        if len(futures) > available_cores():
            yield futures.popleft().result()
    while futures:
        yield futures.popleft().result()


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
