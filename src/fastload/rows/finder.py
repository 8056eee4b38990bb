"""Search for the rows that stay, over files and row groups in parallel.

The rows that stay are those that filters and a split keep and that a table has not deleted.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fastload.errors import CorruptFileError, UnsupportedTypeError
from fastload.rows.arrow_scan import ArrowRowScan, check_unchanged
from fastload.rows.core_finder import CoreRowFinder, rows_of_groups
from fastload.rows.tables.deleted_rows import DeletedRows
from fastload.rows.tables.scan import TableRowScan
from fastload.runtime.cores import available_cores
from fastload.runtime.progress import ProgressLine

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from fastload.plan.kept_rows import FileRows
    from fastload.rows.core_finder import GroupRows
    from fastload.rows.filter_schema import FilterSchema
    from fastload.rows.predicate import Predicate
    from fastload.source.source import Source

__all__ = ["RowFinder"]

# The number of files whose footers are in memory at a time. After them, their rows are cached.
_FILES_AT_ONCE = 64
# The most rows of a row group of which some stay, as in the core.
_MOST_ROWS = 2**31 - 1


@dataclass(frozen=True, slots=True)
class FileRowsFound:
    """The rows of one file that stay.

    Attributes:
        file: the index of the file.
        rows: the rows that stay.
        corrupt: for each row group that can't be read, and of which no row stays, the cause.
    """

    file: int
    rows: FileRows
    corrupt: dict[int, str]


class RowFinder:
    """Finds the rows of files that a predicate keeps.

    Args:
        source: the files.
        schema: the columns of all files.
        predicate: the filters and the split.
        skip: keep no row of a row group that can't be read, instead of raising an error.
    """

    def __init__(
        self, source: Source, schema: FilterSchema, predicate: Predicate, *, skip: bool
    ) -> None:
        self._source = source
        self._skip = skip
        self._schema = schema
        self._predicate = predicate
        self._conditions = CoreRowFinder.of(source, schema, predicate)
        self._pruning = (
            None if self._conditions else CoreRowFinder.of(source, schema, predicate, partial=True)
        )
        self._by_statistics = schema.trusts_statistics(predicate)
        self._deleted = DeletedRows(source) if source.has_deletes else None
        self._threads = ThreadPoolExecutor(available_cores(), "fastload-filter")

    def files(self, indices: Sequence[int]) -> Iterator[FileRowsFound]:
        """Find the rows that stay, file by file. Errors name the file and the row group.

        Args:
            indices: the indices of the files.

        Yields:
            The rows of a file.

        Raises:
            SourceChangedError: a file has changed since its footer was read.
            StorageError: a file can't be read.
            CorruptFileError: a row group is corrupt, and `skip` is False.
            ValueError: the filters can't be evaluated on a value.
        """
        progress = ProgressLine("filtered", len(self._source.files), "files")
        done = len(self._source.files) - len(indices)
        for first in range(0, len(indices), _FILES_AT_ONCE):
            batch = indices[first : first + _FILES_AT_ONCE]
            for index, (rows, corrupt) in zip(batch, self._find(batch), strict=True):
                if self._deleted is not None:
                    rows = self._left(index, rows, corrupt)
                check_unchanged(self._source.files[index])
                yield FileRowsFound(index, rows, corrupt)
                done += 1
                progress.show(done)

    def close(self) -> None:
        """End the threads. Idempotent."""
        self._threads.shutdown(cancel_futures=True)

    def _find(self, indices: Sequence[int]) -> Iterator[tuple[FileRows, dict[int, str]]]:
        """Yield the rows of each file, and for each row group that can't be read the cause."""
        if self._conditions is not None:
            yield from self._conditions.find(indices, skip=self._skip)
            return
        scans = list(self._threads.map(self._scan_of, indices))
        self._prune(indices, scans)
        tasks = [(scan, group) for scan in scans for group in scan.groups]
        results = self._threads.map(self._select, tasks)
        for scan in scans:
            # The results of the other scans stay in the iterator: zip asks for a group first.
            found = dict(zip(scan.groups, results, strict=False))
            yield rows_of_groups([found.get(g, (0, None)) for g in range(len(scan.rows))])

    def _left(self, index: int, rows: FileRows, corrupt: dict[int, str]) -> FileRows:
        """Return the rows of a file that stay and are not deleted.

        Args:
            index: the index of the file.
            rows: the rows that stay.
            corrupt: receives the causes of row groups that can't be read.
        """
        assert self._deleted is not None
        deletes = self._deleted.of_file(index)
        if not deletes:
            return rows
        sizes = self._source.files[index].footer.row_group_rows

        def of_group(group: int) -> GroupRows | str:
            if not rows.counts[group]:
                return 0, None
            try:
                left = deletes.left(group)
            except CorruptFileError as error:
                if not self._skip:
                    raise
                return str(error)
            return _packed(left & rows.of_group(group, sizes[group]))

        left, causes = rows_of_groups(list(self._threads.map(of_group, range(len(sizes)))))
        corrupt.update(causes)
        return left

    def _scan_of(self, index: int) -> ArrowRowScan | TableRowScan:
        source = self._source
        if source.table is not None:
            file, columns = source.files[index], source.table.columns
            return TableRowScan(file, self._schema, self._predicate, source.storage, columns)
        return ArrowRowScan(
            source.files[index],
            self._schema,
            self._predicate,
            source.storage,
            by_statistics=self._by_statistics,
        )

    def _prune(self, indices: Sequence[int], scans: Sequence[ArrowRowScan | TableRowScan]) -> None:
        """Take row groups that the core rules out from the scans."""
        if self._pruning is None:
            return
        tasks = [(i, g) for i, scan in zip(indices, scans, strict=True) for g in scan.groups]
        may_pass = iter(self._pruning.may_pass(tasks))
        for scan in scans:
            scan.groups = [group for group in scan.groups if next(may_pass)]

    def _select(self, task: tuple[ArrowRowScan | TableRowScan, int]) -> GroupRows | str:
        scan, group = task
        # Before memory is allocated for so many rows.
        if scan.rows[group] > _MOST_ROWS:
            raise UnsupportedTypeError(
                f"Expected at most {_MOST_ROWS} rows in a row group, got {scan.rows[group]} - at "
                f"{scan.path}, row group {group}"
            )
        try:
            return _packed(scan.select(group))
        except CorruptFileError as error:
            if not self._skip:
                raise
            return str(error)


def _packed(kept: NDArray[np.bool_]) -> GroupRows:
    """Return the number of rows that stay, and a bit for each row; no bits if all or none stay."""
    count = int(np.count_nonzero(kept))
    if count in (0, len(kept)):
        return count, None
    return count, np.packbits(kept, bitorder="little")
