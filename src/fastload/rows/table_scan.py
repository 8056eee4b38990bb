"""Evaluation of filters and a split on one file of a table, by pyarrow.

The columns of such a file may have other names than the columns of the table, or may be missing. So
each row group is read as a table with the columns of the table, and then tested.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq

from fastload.errors import CorruptFileError
from fastload.rows.arrow_scan import check_unchanged, naming
from fastload.rows.row_test import RowTest
from fastload.source.tables.table import arrow_schema, field_key

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from fastload.rows.filter_schema import FilterSchema
    from fastload.rows.predicate import Predicate
    from fastload.source.files import Constants, SourceFile
    from fastload.source.stores.stores import Stores
    from fastload.source.tables.table import ColumnKeys, TableColumns

__all__ = ["TableAligner", "TableReader", "TableRowScan", "whole"]

_Path = tuple[str, ...]


class TableAligner:
    """Converts columns as a file has them to the columns of its table.

    Args:
        schema: the Arrow schema of the file, with field ids.
        columns: the columns of the table.
        constants: values of columns that the file lacks.
    """

    def __init__(self, schema: Any, columns: TableColumns, constants: Constants = ()) -> None:
        self._schema = schema
        self._arrow = columns.arrow
        self._keys: dict[_Path, ColumnKeys] = {path: keys for keys, path in columns.paths.items()}
        self._key_of = _keys_by_name(schema, columns)
        self._constants = dict(constants)

    def find(self, name: str) -> str | None:
        """Return what the file calls a column of the table; None if the file lacks the column."""
        key = self._keys[(name,)][-1]
        return next((f.name for f in self._schema if self._key_of((f.name,), f) == key), None)

    def aligned(self, read: Any, names: Sequence[str], rows: int) -> Any:
        """Return columns of the table as an Arrow table.

        Args:
            read: an Arrow table with the columns that the file has of `names`.
            names: the names of the columns in the table.
            rows: the number of rows.
        """
        if not names:
            return pa.table({"": pa.nulls(rows)})
        arrays = []
        for name in names:
            arrow, stored = self._arrow.field(name).type, self.find(name)
            if stored is None:
                arrays.append(self._constant((name,), arrow, rows))
            else:
                array = whole(read.column(stored))
                arrays.append(self._as(array, arrow, (name,), (stored,)))
        return pa.Table.from_arrays(arrays, schema=pa.schema([self._arrow.field(n) for n in names]))

    def _constant(self, path: _Path, arrow: Any, rows: int) -> Any:
        scalar = self._constants.get(path)
        return pa.nulls(rows, arrow) if scalar is None else pa.repeat(scalar.cast(arrow), rows)

    def _as(self, array: Any, arrow: Any, path: _Path, names: _Path) -> Any:
        """Return an array of the file as the table's type; fields of structs by their keys."""
        if isinstance(array.type, pa.BaseExtensionType) and array.type != arrow:
            array = array.storage
        if array.type == arrow:
            return array
        if isinstance(arrow, pa.BaseExtensionType):
            return pa.ExtensionArray.from_storage(arrow, array.cast(arrow.storage_type))
        if not pa.types.is_struct(arrow) or not pa.types.is_struct(array.type):
            return array.cast(arrow, safe=False)
        below = {
            self._key_of((*names, field.name), field): (field.name, child)
            for field, child in zip(array.type, array.flatten(), strict=True)
        }
        children = []
        for field in arrow:
            inner = (*path, field.name)
            found = below.get(self._keys[inner][-1])
            if found is None:
                children.append(self._constant(inner, field.type, len(array)))
            else:
                children.append(self._as(found[1], field.type, inner, (*names, found[0])))
        return pa.StructArray.from_arrays(children, fields=list(arrow), mask=array.is_null())


class TableReader:
    """Reads row groups of one file as the columns of the table.

    Args:
        file: the file.
        columns: the columns of the table.
        storage: the stores, for a file that is not local.
    """

    def __init__(self, file: SourceFile, columns: TableColumns, storage: Stores) -> None:
        self._file = file
        self._storage = storage
        self._aligner = TableAligner(arrow_schema(file.footer), columns, file.constants)
        self._int96 = "ns" if "timestamp[ns" in str(columns.arrow) else "us"

    def read(self, group: int, names: Sequence[str]) -> Any:
        """Return columns of a row group as an Arrow table.

        Args:
            group: the index of the row group.
            names: the names of the columns in the table.

        Raises:
            CorruptFileError: the row group is damaged. Every error names the row group.
            StorageError: the file can't be read.
            SourceChangedError: the file has changed.
        """
        rows = self._file.footer.row_group_rows[group]
        stored = [name for name in map(self._aligner.find, names) if name is not None]
        if not stored:
            return self._aligner.aligned(None, names, rows)
        check_unchanged(self._file)
        location = f"{self._file.path}, row group {group}"

        def found() -> Any:
            with naming(location), contextlib.closing(self._opened()) as opened:
                # Nanoseconds do not reach all dates of an INT96 timestamp.
                parquet = pq.ParquetFile(opened, coerce_int96_timestamp_unit=self._int96)
                read = parquet.read_row_group(group, columns=stored, use_threads=False)
                if read.num_rows != rows:
                    raise CorruptFileError(
                        f"Expected {rows} rows, got {read.num_rows} rows - at {location}"
                    )
                return self._aligner.aligned(read, names, rows)

        columns = self._storage.again(self._file, group, found)
        check_unchanged(self._file)
        return columns

    def _opened(self) -> Any:
        if self._file.stored is not None:
            return self._storage.open(self._file)
        return pa.OSFile(os.fsencode(self._file.path))


class TableRowScan:
    """Finds the rows of one file of a table that stay; the counterpart of `ArrowRowScan`.

    Args:
        file: the file.
        schema: the columns of the table, for the predicate.
        predicate: the filters and the split.
        storage: the stores, for a file that is not local.
        columns: the columns of the table.

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
        columns: TableColumns,
    ) -> None:
        self._file = file
        self._predicate = predicate
        self._test = RowTest(schema, predicate)
        self._reader = TableReader(file, columns, storage)
        self._names: Sequence[str] = ()
        if self._test.expressions:
            self._names = schema.names_in(predicate) or columns.arrow.names
        self.path = file.path
        self.rows = file.footer.row_group_rows
        self._starts = np.cumsum([0, *self.rows]).tolist()
        split = predicate.split
        none = split is not None and split.start == split.stop
        self.groups = [] if none else [group for group, rows in enumerate(self.rows) if rows]

    def select(self, group: int) -> NDArray[np.bool_]:
        """Find the rows of a row group that stay; see `ArrowRowScan.select`."""
        kept = self._test.of_numbers(self._file.name, self._starts[group], self.rows[group])
        if not self._test.expressions:
            return kept
        read = self._reader.read(group, self._names)
        with naming(f"{self.path}, row group {group}"):
            found = pads.dataset(read).to_table(columns=self._test.expressions)
            kept &= self._test.of_arrays([whole(column) for column in found.columns])
        return kept


def whole(column: Any) -> Any:
    """Return a column of an Arrow table as one array."""
    return pa.concat_arrays(column.chunks or [pa.array([], column.type)])


def _keys_by_name(schema: Any, columns: TableColumns) -> Callable[[_Path, Any], str | int | None]:
    """Return the function that returns the key of a field, by its path in the file."""
    if not columns.by_id:
        return lambda names, _: names[-1]
    has_ids = any(isinstance(field_key(field), int) for field in schema)
    if has_ids or columns.names is None:
        return lambda _, field: field_key(field)
    by_name: Mapping[_Path, ColumnKeys] = columns.names
    return lambda names, _: by_name[names][-1] if names in by_name else None
