"""The files of a snapshot of an Iceberg table, and the files that list their deleted rows."""

from __future__ import annotations

import os
import struct
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from fastload.errors import StorageError, UnsupportedTypeError
from fastload.source.files import DeleteFile
from fastload.source.tables.table import Bounds, TableFile, plain_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastload.source.files import Constants
    from fastload.source.tables.table import TableColumns

__all__ = ["IcebergFiles"]

_THREADS = 8
# The field id of the column `file_path` in files of position deletes.
_FILE_PATH_ID = 2147483546

_Path = tuple[str, ...]


class _Delete(NamedTuple):
    """A file that lists deleted rows, and what decides which data files it belongs to.

    Attributes:
        file: the file.
        sequence: the sequence number of the file.
        target: the only data file whose rows are listed; None = unknown.
    """

    file: DeleteFile
    sequence: int
    target: str | None = None


class IcebergFiles:
    """Lists the data files of a snapshot.

    Args:
        table: pyiceberg's table.
        snapshot: pyiceberg's snapshot.
        schema: pyiceberg's schema of the snapshot.
        columns: the columns of the table.
    """

    def __init__(self, table: Any, snapshot: Any, schema: Any, columns: TableColumns) -> None:
        self._table = table
        self._snapshot = snapshot
        self._schema = schema
        self._columns = columns
        self._specs = table.specs()
        # The paths of columns outside of lists, by field id.
        self._path_of: dict[int, _Path] = {
            keys[-1]: path
            for keys, path in columns.paths.items()
            if isinstance(keys[-1], int) and columns.type_of(path) is not None
        }
        # Bounds of floats say nothing about NaN.
        self._bounded = {
            number: (schema.find_type(number), arrow)
            for number, path in self._path_of.items()
            if not pa.types.is_floating(arrow := columns.type_of(path))
        }
        self._defaults = dict(self._find_defaults())
        self._all: list[_Delete] = []  # equality deletes that hold in every partition
        self._of_partition: defaultdict[Any, list[_Delete]] = defaultdict(list)

    def data_files(self) -> Iterator[TableFile]:
        """Yield the data files, in the order of the manifests.

        Raises:
            OSError: a manifest can't be read; StorageError if a manifest is damaged.
            UnsupportedTypeError: a file is not Parquet, or equality deletes name a column that
                the table no longer has.
        """
        data = []
        for entry in self._entries():
            if entry.data_file.content.name == "DATA":
                data.append(entry)
            else:
                self._add_delete(entry)
        for entry in data:
            yield self._file(entry)

    def _entries(self) -> list[Any]:
        reads = self._table.io
        try:
            manifests = self._snapshot.manifests(reads)
            with ThreadPoolExecutor(_THREADS, "fastload-manifest") as threads:
                found = threads.map(lambda each: each.fetch_manifest_entry(reads), manifests)
                return [entry for some in found for entry in some]
        except OSError:
            raise
        except Exception as error:
            raise StorageError(
                f"Can't read the manifests of the table: {type(error).__name__}: {error} - at "
                f"{self._columns.location}"
            ) from error

    def _add_delete(self, entry: Any) -> None:
        file = entry.data_file
        sequence = entry.sequence_number or 0
        spec = self._specs[file.spec_id]
        path = plain_path(file.file_path)
        if file.content.name == "EQUALITY_DELETES":
            self._check_format(file, "PARQUET")
            delete = DeleteFile(path, tuple(map(self._compared, file.equality_ids or ())))
            found = _Delete(delete, sequence - 1)  # rows of the same commit stay
            if spec.is_unpartitioned():
                self._all.append(found)
            else:
                self._of_partition[_partition(file)].append(found)
            return
        self._check_format(file, "PARQUET", "PUFFIN")
        vector = file.file_format.name == "PUFFIN"
        listed = _Delete(DeleteFile(path, (), vector), sequence, _target(file))
        self._of_partition[_partition(file)].append(listed)

    def _compared(self, number: int) -> _Path:
        if number not in self._path_of:
            raise UnsupportedTypeError(
                "Expected equality deletes by columns that the table still has, got the field id "
                f"{number}: rewrite the data files first - at {self._columns.location}"
            )
        return self._path_of[number]

    def _check_format(self, file: Any, *formats: str) -> None:
        if file.file_format.name not in formats:
            raise UnsupportedTypeError(
                f"Expected files of the format Parquet, got {file.file_format.name} - at "
                f"{file.file_path}"
            )

    def _file(self, entry: Any) -> TableFile:
        file = entry.data_file
        self._check_format(file, "PARQUET")
        sequence = entry.sequence_number or 0
        candidates = self._all + self._of_partition[_partition(file)]
        deletes = tuple(
            delete.file
            for delete in candidates
            if sequence <= delete.sequence and delete.target in (None, file.file_path)
        )
        path = plain_path(file.file_path)
        root = plain_path(self._table.location()).rstrip("/") + "/"
        name = path[len(root) :] if path.startswith(root) else os.path.basename(path)
        constants = self._constants(file)
        return TableFile(path, file.file_path, name, constants, tuple(self._bounds(file)), deletes)

    def _find_defaults(self) -> Iterator[tuple[_Path, Any]]:
        """Yield the columns that have a value where older files lack them, with this value."""
        for number, path in self._path_of.items():
            default = getattr(self._schema.find_field(number), "initial_default", None)
            if default is not None:
                yield path, _scalar(default, self._columns.type_of(path))

    def _constants(self, file: Any) -> Constants:
        """Return the values that rows have in columns that the file lacks."""
        found = dict(self._defaults)
        for index, part in enumerate(self._specs[file.spec_id].fields):
            path = self._path_of.get(part.source_id)
            if path is not None and str(part.transform) == "identity":
                found[path] = _scalar(file.partition[index], self._columns.type_of(path))
        return tuple(found.items())

    def _bounds(self, file: Any) -> Iterator[Bounds]:
        lower, upper = file.lower_bounds or {}, file.upper_bounds or {}
        counts = file.null_value_counts or {}
        for number, path in self._path_of.items():
            least = most = None
            if number in self._bounded:
                kind, arrow = self._bounded[number]
                least, most = (_bound(each.get(number), kind, arrow) for each in (lower, upper))
            yield from Bounds.of(path, least, most, counts.get(number), file.record_count)


def _bound(data: bytes | None, kind: Any, arrow: Any) -> Any:
    if data is None:
        return None
    try:
        # Four bytes of a long were written before the column was widened.
        if pa.types.is_integer(arrow) and len(data) in (4, arrow.bit_width // 8):
            return pa.scalar(int.from_bytes(data, "little", signed=True), arrow)
        from pyiceberg.conversions import from_bytes

        return _scalar(from_bytes(kind, data), arrow)
    except (struct.error, TypeError, ValueError, pa.ArrowException):
        return None


def _scalar(value: Any, arrow: Any) -> Any:
    """Return a value as pyiceberg has it as an Arrow scalar; times may be integers."""
    if isinstance(arrow, pa.BaseExtensionType):
        arrow = arrow.storage_type
    if hasattr(value, "bytes") and not isinstance(value, bytes):  # a UUID
        value = value.bytes
    if pa.types.is_temporal(arrow) and isinstance(value, int):
        stored = pa.int32() if arrow.bit_width == 32 else pa.int64()
        return pa.array([value], stored).view(arrow)[0]
    return pa.scalar(value, arrow)


def _partition(file: Any) -> tuple[int, Any]:
    return file.spec_id, file.partition


def _target(file: Any) -> str | None:
    """Return the only data file whose rows a file of position deletes lists; None = unknown."""
    lower, upper = (each or {} for each in (file.lower_bounds, file.upper_bounds))
    least, most = lower.get(_FILE_PATH_ID), upper.get(_FILE_PATH_ID)
    return least.decode() if least is not None and least == most else None
