"""Finds the rows that filters and a split keep, files and row groups in parallel."""

from __future__ import annotations

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from fastload.errors import CorruptFileError
from fastload.plan.kept_rows import FileRows, pack_rows
from fastload.plan.read_plan import RowGroups
from fastload.rows.arrow_scan import FileScan, check_unchanged, naming
from fastload.rows.core_finder import ConditionFinder
from fastload.rows.filter_reader import FilterReader
from fastload.rows.page_pruning import rows_of_pages
from fastload.rows.row_test import RowTest
from fastload.runtime.cores import available_cores
from fastload.runtime.progress_line import Progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from concurrent.futures import Future

    from numpy.typing import NDArray

    from fastload.rows.filter_schema import FilterSchema
    from fastload.rows.predicate import Predicate
    from fastload.source.source import Source

__all__ = ["Found", "RowFinder"]

_T = TypeVar("_T")

# Files whose footers are in memory at a time, and after which counts are kept.
_FILES_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class Found:
    """The rows of one file that stay.

    file: its index.
    corrupt: row groups that can't be read, of which no row stays, and the causes.
    """

    file: int
    rows: FileRows
    corrupt: dict[int, str]


class RowFinder:
    """Looks for the rows of files.

    Args:
        source: the files.
        schema: of their columns.
        predicate: what rows have to pass.
        skip: no row stays of a row group that can't be read, which is an error else.
    """

    def __init__(
        self, source: Source, schema: FilterSchema, predicate: Predicate, *, skip: bool
    ) -> None:
        self._source = source
        self._skip = skip
        self._schema = schema
        self._predicate = predicate
        self._conditions = ConditionFinder.of(source, schema, predicate)
        self._reader = None
        if self._conditions is None:
            self._test = RowTest(schema, predicate)
            self._reader = FilterReader.of(source, schema, predicate)
        self._threads = ThreadPoolExecutor(available_cores(), "fastload-filter")

    def files(self, indices: Sequence[int]) -> Iterator[Found]:
        """The rows of each of the files of those indices.

        Raises `SourceChangedError`, `StorageError`, `CorruptFileError`, or `ValueError` for
        values that the filters can't be asked of, naming file and row group.
        """
        progress = Progress("filtered", len(self._source.files), "files")
        done = len(self._source.files) - len(indices)
        for first in range(0, len(indices), _FILES_AT_ONCE):
            batch = indices[first : first + _FILES_AT_ONCE]
            for index, (rows, corrupt) in zip(batch, self._find(batch), strict=True):
                check_unchanged(self._source.files[index])
                yield Found(index, rows, corrupt)
                done += 1
                progress.show(done)

    def close(self) -> None:
        """Ends the threads. Idempotent."""
        self._threads.shutdown(cancel_futures=True)

    def _find(self, indices: Sequence[int]) -> Iterator[tuple[FileRows, dict[int, str]]]:
        """The rows of each of the files, and why row groups can't be read."""
        if self._conditions is not None:
            yield from self._conditions.find(indices, skip=self._skip)
            return
        scans = list(self._threads.map(self._scan_of, indices))
        results = self._results(indices, scans)
        for scan in scans:
            yield _rows_of(scan, results)

    def _scan_of(self, index: int) -> FileScan:
        return FileScan(
            self._source.files[index], self._schema, self._predicate, self._source.storage
        )

    def _results(self, indices: Sequence[int], scans: Sequence[FileScan]) -> Iterator[_Result]:
        """What stays of each row group of each scan."""
        if self._reader is None:
            return self._by_pyarrow(scans)
        if not self._skip:
            return self._by_core(indices, scans)
        try:
            return iter(list(self._by_core(indices, scans)))
        except CorruptFileError:
            return self._by_pyarrow(scans)  # which tells row group by row group

    def _by_pyarrow(self, scans: Sequence[FileScan]) -> Iterator[_Result]:
        tasks = [(scan, group) for scan in scans for group in scan.groups]
        yield from self._threads.map(self._select, tasks)

    def _select(self, task: tuple[FileScan, int]) -> _Result:
        scan, group = task
        try:
            return _packed(scan.select(group))
        except CorruptFileError as error:
            if not self._skip:
                raise
            return str(error)

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


_Kept = tuple[int, "NDArray[np.uint8] | None"]  # rows that stay, and their bits
_Result = _Kept | str  # or why the row group can't be read


def _rows_of(scan: FileScan, results: Iterator[_Result]) -> tuple[FileRows, dict[int, str]]:
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
