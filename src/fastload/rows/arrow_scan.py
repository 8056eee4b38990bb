"""The exact rows of one file that filters and a split keep."""

from __future__ import annotations

import contextlib
import os
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
from fastload.rows.row_test import RowTest
from fastload.source.stores.file_object import RemoteFile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from fastload.rows.filter_schema import FilterSchema
    from fastload.rows.predicate import Predicate
    from fastload.source.files import SourceFile
    from fastload.source.stores.stores import Stores

__all__ = ["ArrowRowScan", "check_unchanged", "naming"]

# Of what is decoded at once of a row group; filters are evaluated on so many rows.
_BATCH_ROWS = 1 << 17


class ArrowRowScan:
    """The row groups of one file that pruning leaves, and the exact rows of each.

    Args:
        file: it.
        schema: of its columns and the others'.
        predicate: what rows have to pass.
        storage: of a file that is not local.
        by_statistics: the statistics of row groups may leave some out.

    Attributes:
        path: of the file.
        rows: of each row group.
        groups: the row groups that may have rows that stay, in order.
    """

    def __init__(
        self,
        file: SourceFile,
        schema: FilterSchema,
        predicate: Predicate,
        storage: Stores | None = None,
        *,
        by_statistics: bool = True,
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
            # Each thread waits for what it reads: to read ahead of a disk gains nothing.
            options = pads.ParquetFragmentScanOptions(pre_buffer=self._file.stored is not None)
            fragment = pads.ParquetFileFormat(default_fragment_scan_options=options).make_fragment(
                *self._opened(),
                partition_expression=self._schema.guarantee(self._file),
            )
            pruned_by = self._predicate.filters if self._by_statistics else None
            if pruned_by is None and not self._may_pass_by_keys():
                return
            for part in fragment.split_by_row_group(pruned_by, self._schema.arrow):
                group = part.row_groups[0].id
                if self.rows[group]:
                    yield group, part

    def _may_pass_by_keys(self) -> bool:
        """Return whether the hive keys of the file leave it open that a row passes the filters."""
        filters, keys = self._predicate.filters, self._schema.guarantee(self._file)
        if filters is None or not self._file.keys:
            return True
        # pyarrow prunes a fragment, which is never read, by what is known of its rows.
        form, system = pads.IpcFileFormat(), LocalFileSystem()
        fragment = form.make_fragment("keys", system, partition_expression=keys)
        dataset = pads.FileSystemDataset([fragment], self._schema.arrow, form, system)
        return any(True for _ in dataset.get_fragments(filters))

    def _opened(self) -> tuple[Any, ...]:
        if self._storage is None or self._file.stored is None:
            return self._file.path, LocalFileSystem()
        return (pa.PythonFile(RemoteFile(self._storage, self._file), mode="r"),)

    def select(self, group: int) -> NDArray[np.bool_]:
        """Which rows of a row group stay."""
        fragment = self._fragments[group]
        if fragment is None:
            return self.of_numbers(group)
        with naming(f"{self.path}, row group {group}"):
            return self._scan(fragment, group)

    def of_numbers(self, group: int) -> NDArray[np.bool_]:
        """Which rows of a row group stay by their numbers."""
        if not self._test.by_number:
            return np.ones(self.rows[group], np.bool_)
        return self._test.of_numbers(self._file.name, self._starts[group], self.rows[group])

    def _scan(self, fragment: Any, group: int) -> NDArray[np.bool_]:
        scanner = fragment.scanner(
            schema=self._schema.arrow,
            columns=self._test.expressions,
            batch_size=_BATCH_ROWS,
            batch_readahead=1,
            fragment_readahead=1,
            use_threads=False,
        )
        kept = self.of_numbers(group)
        at = 0
        for batch in scanner.to_batches():
            stop = at + len(batch)
            if stop > len(kept):
                break
            kept[at:stop] &= self._test.of_arrays(batch.columns)
            at = stop
        if at != len(kept):
            raise CorruptFileError(
                f"Expected {len(kept)} rows, got others - at {self.path}, row group {group}"
            )
        return kept


def check_unchanged(file: SourceFile) -> None:
    """Raises `SourceChangedError` if a local file is no longer that of the footer."""
    if file.stored is not None:
        return  # each read of it tells
    try:
        status = os.stat(file.path)
    except OSError as error:
        raise StorageError(f"Can't look at the file: {error.strerror} - at {file.path}") from error
    if (status.st_size, status.st_mtime_ns) != (file.size, file.mtime_ns):
        raise SourceChangedError(
            f"Expected the file as it was when its footer was read, of {file.size} "
            f"bytes, got {status.st_size} bytes and another time - at {file.path}"
        )


@contextlib.contextmanager
def naming(place: str) -> Iterator[None]:
    """Names the place in what pyarrow raises; other errors have theirs."""
    try:
        yield
    except FastloadError:
        raise
    except (OSError, pa.ArrowException) as error:
        line = str(error).partition("\n")[0]
        raise _kind(error)(f"Can't evaluate the filters: {line} - at {place}") from error


def _kind(error: Exception) -> type[Exception]:
    # pyarrow raises an OSError without a number for bytes that are not as they should be.
    if isinstance(error, OSError):
        return CorruptFileError if error.errno is None else StorageError
    types = (pa.ArrowTypeError, pa.ArrowNotImplementedError)
    return TypeError if isinstance(error, types) else ValueError
