"""Search for the rows that stay, over files and row groups in parallel.

The rows that stay are those that filters and a split keep and that a table has not deleted.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import torch

from fastload.engine.engine import column_specs
from fastload.errors import CorruptFileError, FastloadError, UnsupportedTypeError
from fastload.plan.kept_rows import FileRows, pack_rows
from fastload.rows.arrow_scan import ArrowRowScan, check_unchanged
from fastload.rows.conditions import RowConditions, is_short_decimal
from fastload.rows.deleted_rows import DeletedRows
from fastload.rows.table_scan import TableRowScan
from fastload.runtime.cores import available_cores
from fastload.runtime.native import core
from fastload.runtime.progress import ProgressLine
from fastload.schema.columns import Codes, Column
from fastload.schema.leaf_types import NUMBERS
from fastload.schema.projection import plan_columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray
    from typing_extensions import Self

    from fastload.rows.filter_schema import FilterSchema
    from fastload.rows.predicate import Predicate
    from fastload.schema.fields import Field
    from fastload.schema.projection import Projection
    from fastload.source.source import Source

    GroupRows = tuple[int, NDArray[np.uint8] | None]

__all__ = ["CoreRowFinder", "RowFinder"]

# The number of files whose footers are in memory at a time. After them, their rows are cached.
_FILES_AT_ONCE = 64
# The most rows of a row group of which some stay, as in the core.
_MOST_ROWS = 2**31 - 1
_REMOTE_THREADS = 32


class CoreRowFinder:
    """Finds the rows of files that pass conditions.

    Args:
        source: the files.
        conditions: the conditions.
        projection: the columns of the conditions; the name of an output is the index of a column
            in `conditions.names`.
        decodes: read columns. If False, all rows of a row group count as found, unless statistics,
            Bloom filters or hive keys say that none passes.
    """

    def __init__(
        self,
        source: Source,
        conditions: RowConditions,
        projection: Projection,
        *,
        decodes: bool = True,
    ) -> None:
        self._source = source
        self._files = source.files
        outputs = {output.name: output.columns[0] for output in projection.outputs}
        remote = source.storage.serve(source.files, data=False)
        # More threads than cores for a store, since most of them wait for requests.
        threads = available_cores() if remote is None else _REMOTE_THREADS
        self._core = core.RowFinder(
            files=[file.for_core for file in source.files],
            columns=column_specs(projection.columns),
            tests=[(outputs[str(i)], ranges, nulls) for i, ranges, nulls in conditions.tests],
            program=conditions.program,
            threads=threads,
            remote=remote,
            decodes=decodes,
        )

    @classmethod
    def of(
        cls,
        source: Source,
        schema: FilterSchema,
        predicate: Predicate,
        *,
        partial: bool = False,
    ) -> Self | None:
        """Make a finder for a predicate.

        Args:
            source: the files.
            schema: the columns of all files.
            predicate: the filters and the split.
            partial: make a finder that rules out row groups, by the parts of the filters that the
                core can evaluate and that every row has to pass. It is for `may_pass` alone.

        Returns:
            The finder, or None if the core can't evaluate the predicate, or no such part of it.
        """
        if predicate.filters is None or (predicate.split is not None and not partial):
            return None
        conditions = RowConditions.of(predicate.filters, schema.arrow, partial=partial)
        if conditions is None:
            return None
        projection = _projection(source, schema, conditions)
        return cls(source, conditions, projection, decodes=not partial) if projection else None

    def may_pass(self, tasks: Sequence[tuple[int, int]]) -> list[bool]:
        """Return for each row group whether a row may pass, without reading columns.

        Args:
            tasks: for each row group the index of its file and its index in the file.
        """
        # The count of rows, or the cause why the row group can't be read, which reading it shows.
        return [
            isinstance(result, str) or result[0] > 0 for result in self._found(tasks, skip=True)
        ]

    def find(
        self, indices: Sequence[int], *, skip: bool
    ) -> Iterator[tuple[FileRows, dict[int, str]]]:
        """Find the rows that pass, file by file.

        Args:
            indices: the indices of the files.
            skip: keep no row of a row group that can't be read, instead of raising an error.

        Yields:
            The rows of a file, and for each row group that can't be read the cause.
        """
        counts = [len(self._files[index].footer.row_group_rows) for index in indices]
        tasks = [(i, g) for i, count in zip(indices, counts, strict=True) for g in range(count)]
        found = iter(self._found(tasks, skip=skip))
        for count in counts:
            yield rows_of_groups(list(islice(found, count)))

    def _found(self, tasks: Sequence[tuple[int, int]], *, skip: bool) -> list[GroupRows | str]:
        """Return what the core finds; read corrupt row groups of stores once more."""
        if not self._source.remote:
            return self._core.find(list(tasks), skip=skip)
        found = self._core.find(list(tasks), skip=True)
        corrupt = [number for number, result in enumerate(found) if isinstance(result, str)]
        for number in corrupt:
            file, group = tasks[number]
            self._source.storage.forget_row_group(self._files[file], group)
        again = self._core.find([tasks[number] for number in corrupt], skip=skip)
        for number, result in zip(corrupt, again, strict=True):
            found[number] = result
        return found


def rows_of_groups(results: Sequence[GroupRows | str]) -> tuple[FileRows, dict[int, str]]:
    """Return the rows of a file that stay, and for each row group that can't be read the cause.

    Args:
        results: for each row group of the file, the number of rows that stay and a bit for each
            row (None if all or none stay), or the cause why the row group can't be read.
    """
    causes = {group: result for group, result in enumerate(results) if isinstance(result, str)}
    kept = [(0, None) if isinstance(result, str) else result for result in results]
    return pack_rows([count for count, _ in kept], [bits for _, bits in kept]), causes


def _projection(
    source: Source, schema: FilterSchema, conditions: RowConditions
) -> Projection | None:
    """Return a projection of the columns of conditions, where output `i` is the i-th column.

    Returns None if the tensors of a column would hold other values than Arrow's arrays do.
    """
    types = [schema.arrow.field(name).type for name in conditions.names]
    columns = {
        str(index): _column(name, arrow, words)
        for index, (name, arrow, words) in enumerate(
            zip(conditions.names, types, conditions.words, strict=True)
        )
    }
    try:
        projection = plan_columns(source, columns)
    except (FastloadError, TypeError, ValueError):
        return None
    fields = projection.schema
    same = all(
        words or _has_numbers_of(arrow, fields[str(i)])
        for i, (arrow, words) in enumerate(zip(types, conditions.words, strict=True))
    )
    return projection if same else None


def _column(name: str, arrow: Any, words: Sequence[str] | Sequence[bytes]) -> Column | Codes:
    if words:
        return Codes(name, words)
    if is_short_decimal(arrow):
        return Column(name, dtype=torch.int64, fill=0, valid=True)
    return Column(name, fill=False if pa.types.is_boolean(arrow) else 0, valid=True)


def _has_numbers_of(arrow: Any, field: Field) -> bool:
    """Return True if tensors of a field hold the same numbers as Arrow's arrays of a type."""
    if field.depth or field.shape or field.ragged:
        return False
    if pa.types.is_timestamp(arrow):
        return bool(field.dtype == torch.int64 and field.unit == arrow.unit)
    if is_short_decimal(arrow):
        return bool(field.dtype == torch.int64)
    dtype = torch.int32 if arrow == pa.date32() else NUMBERS.get(arrow)
    return bool(dtype == field.dtype)


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
