"""Evaluation of filters and a split on one file, by pyarrow."""

from __future__ import annotations

import contextlib
import os
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as pads
from pyarrow.fs import LocalFileSystem

from fastload.errors import (
    CorruptFileError,
    FastloadError,
    SourceChangedError,
    StorageError,
)
from fastload.rows.filter_schema import not_excluded
from fastload.rows.row_test import RowTest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from fastload.rows.filter_schema import FilterSchema
    from fastload.rows.predicate import Predicate
    from fastload.source.files import SourceFile
    from fastload.source.stores.stores import Stores

__all__ = ["ArrowRowScan", "check_unchanged", "naming"]

# The number of rows of a row group that are decoded, and on which filters are evaluated, at once.
_BATCH_ROWS = 1 << 17


class ArrowRowScan:
    """Prunes the row groups of one file, and finds the rows that stay in the others.

    Args:
        file: the file.
        schema: the columns of all files.
        predicate: the filters and the split.
        storage: the stores, for a file that is not local.
        by_statistics: leave out row groups whose statistics exclude every row.

    Attributes:
        path: the path of the file.
        rows: the number of rows in each row group.
        groups: the indices of the row groups that may have rows that stay, in order.
    """

    def __init__(
        self,
        file: SourceFile,
        schema: FilterSchema,
        predicate: Predicate,
        storage: Stores,
        *,
        by_statistics: bool,
    ) -> None:
        self._file = file
        self._storage = storage
        self._schema = schema
        self._predicate = predicate
        self._by_statistics = by_statistics
        self._test = RowTest(schema, predicate)
        self.path = file.path
        self.rows = file.footer.row_group_rows
        self._starts = np.cumsum([0, *self.rows]).tolist()
        self._fragments: dict[int, Any] = dict(self._prune())
        self.groups = list(self._fragments)

    def _prune(self) -> Iterator[tuple[int, Any]]:
        split = self._predicate.split
        if split is not None and split.start == split.stop:
            return
        if self._predicate.filters is None and (split is None or split.columns is None):
            for group, rows in enumerate(self.rows):
                if rows:
                    yield group, None
            return
        check_unchanged(self._file)
        with naming(self._file.path):
            fragment = self._fragment(partition_expression=self._schema.guarantee(self._file))
            pruned_by = self._predicate.filters if self._by_statistics else None
            if pruned_by is None and not self._may_pass_by_keys():
                return
            for part in fragment.split_by_row_group(pruned_by, self._schema.arrow):
                group = part.row_groups[0].id
                if self.rows[group]:
                    yield group, part

    def _fragment(self, int96: str = "ns", **options: Any) -> Any:
        # Only for remote files: reading a local file ahead gains nothing.
        scan = pads.ParquetFragmentScanOptions(pre_buffer=self._file.stored is not None)
        kind = pads.ParquetFileFormat(
            default_fragment_scan_options=scan, coerce_int96_timestamp_unit=int96
        )
        return kind.make_fragment(*self._opened(), **options)

    def _may_pass_by_keys(self) -> bool:
        """Return False if the file's hive keys exclude every row."""
        filters, keys = self._predicate.filters, self._schema.guarantee(self._file)
        if filters is None or not self._file.keys:
            return True
        return bool(not_excluded([keys], self._schema.arrow, filters))

    def _opened(self) -> tuple[Any, ...]:
        if self._file.stored is not None:
            return (self._storage.open(self._file),)
        try:
            self._file.path.encode()
        except UnicodeEncodeError:  # pyarrow takes no such path
            return (pa.OSFile(os.fsencode(self._file.path)),)
        return self._file.path, LocalFileSystem()

    def select(self, group: int) -> NDArray[np.bool_]:
        """Find the rows of a row group that stay.

        Args:
            group: the index of the row group.

        Returns:
            True for each row that stays, bool (rows,).

        Raises:
            CorruptFileError: the row group is damaged. The error names the column, unless the
                filters name fields of structs.
            SourceChangedError: the file has changed.
            StorageError: the file can't be read.
            TypeError, ValueError: the filters can't be evaluated on a value.
        """
        return self._storage.again(self._file, group, partial(self._select, group))

    def _select(self, group: int) -> NDArray[np.bool_]:
        fragment = self._fragments[group]
        if fragment is None:
            return self._of_numbers(group)
        location = f"{self.path}, row group {group}"
        try:
            self._check_int96(location, group)
            with naming(location):
                found = self._scan(fragment, group)
        except CorruptFileError:
            check_unchanged(self._file)
            # Each column is decoded by itself, so that the error names the first damaged one.
            for name in self._schema.names_in(self._predicate):
                with naming(f"{location}, column `{name}`"):
                    self._read_column(fragment, name)
            raise
        check_unchanged(self._file)  # the file may have changed while it was read
        return found

    def _check_int96(self, location: str, group: int) -> None:
        """Raise ValueError if a filter meets an INT96 timestamp that pyarrow would wrap."""
        leaves = self._file.footer.leaves
        stored = {leaf.names[0] for leaf in leaves if leaf.physical_type == "INT96"}
        for name in stored.intersection(self._schema.names_in(self._predicate) or stored):
            with naming(f"{location}, column `{name}`"):
                whole = self._fragment("us", row_groups=[group])
                narrow = pa.schema([self._fragments[group].physical_schema.field(name)])
                for batch in whole.to_batches(columns=[name], batch_size=_BATCH_ROWS):
                    try:
                        pa.Table.from_batches([batch]).cast(narrow)
                    except pa.ArrowInvalid as error:
                        advice = "filters and split need a file with timestamps in microseconds"
                        raise pa.ArrowInvalid(f"{error} ({advice})") from None

    def _of_numbers(self, group: int) -> NDArray[np.bool_]:
        return self._test.of_numbers(self._file.name, self._starts[group], self.rows[group])

    def _scan(self, fragment: Any, group: int) -> NDArray[np.bool_]:
        kept = self._of_numbers(group)
        at = 0
        for batch in self._batches(fragment, self._test.expressions):
            stop = at + len(batch)
            if stop > len(kept):
                break
            kept[at:stop] &= self._test.of_arrays(batch.columns)
            at = stop
        if at != len(kept):
            raise CorruptFileError(
                f"Expected {len(kept)} rows, got another number of rows - at {self.path}, "
                f"row group {group}"
            )
        return kept

    def _read_column(self, fragment: Any, name: str) -> None:
        """Decode one column of a row group; raises pyarrow's error if the column is damaged."""
        for _ in self._batches(fragment, [name]):
            pass

    def _batches(self, fragment: Any, columns: Any) -> Iterator[Any]:
        scanner = fragment.scanner(
            schema=self._schema.arrow,
            columns=columns,
            batch_size=_BATCH_ROWS,
            batch_readahead=1,
            fragment_readahead=1,
            use_threads=False,
        )
        return iter(scanner.to_batches())


def check_unchanged(file: SourceFile) -> None:
    """Raise an error if a local file has changed since its footer was read.

    Args:
        file: the file. A remote file is not checked.

    Raises:
        SourceChangedError: the size or the time of the file is another one, or the file no
            longer exists.
        StorageError: the file can't be looked at.
    """
    if file.stored is not None:
        return  # each read of a remote file checks its version
    try:
        status = os.stat(file.path)
    except FileNotFoundError:
        raise SourceChangedError(
            f"Expected the file whose footer was read, found none - at {file.path}"
        ) from None
    except OSError as error:
        raise StorageError(f"Can't look at the file: {error.strerror} - at {file.path}") from error
    if (status.st_size, status.st_mtime_ns) != (file.size, file.mtime_ns):
        raise SourceChangedError(
            f"Expected the file of {file.size} bytes whose footer was read, got a changed file of "
            f"{status.st_size} bytes - at {file.path}"
        )


@contextlib.contextmanager
def naming(location: str, doing: str = "evaluate the filters") -> Iterator[None]:
    """Convert pyarrow's errors in the body of the `with` to errors that name a location.

    Args:
        location: the file, or the file and the row group.
        doing: what the body does.

    Raises:
        CorruptFileError, StorageError, TypeError, ValueError: pyarrow raised an error.
    """
    try:
        yield
    except FastloadError:
        raise
    except (OSError, pa.ArrowException) as error:
        line = str(error).partition("\n")[0]
        raise _kind(error)(f"Can't {doing}: {line} - at {location}") from error


def _kind(error: Exception) -> type[Exception]:
    # pyarrow raises an OSError without a number for malformed bytes.
    if isinstance(error, OSError):
        return CorruptFileError if error.errno is None else StorageError
    types = (pa.ArrowTypeError, pa.ArrowNotImplementedError)
    return TypeError if isinstance(error, types) else ValueError
