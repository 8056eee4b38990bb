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
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from fastload.rows.filter_schema import FilterSchema
    from fastload.rows.predicate import Predicate
    from fastload.source.files import SourceFile
    from fastload.source.stores.stores import Stores
    from fastload.source.tables.table import Keys, TableColumns

__all__ = ["TableReader", "TableRowScan"]

_Path = tuple[str, ...]


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
        self._arrow = columns.arrow
        keys: dict[_Path, Keys] = {path: keys for keys, path in columns.paths.items()}
        self._keys = keys
        self._schema = arrow_schema(file.footer)
        self._key_of = _keys_by_name(self._schema, columns)
        self._constants = dict(file.constants)

    def read(self, group: int, names: Iterable[str]) -> Any:
        """Return columns of a row group as an Arrow table.

        Args:
            group: the index of the row group.
            names: the names of the columns in the table.
        """
        names = list(names)
        stored = {name: self._find(name) for name in names}
        wanted = [index for index in stored.values() if index is not None]
        with contextlib.closing(self._opened()) as opened:
            parquet = pq.ParquetFile(opened)
            fields = [self._schema.field(index).name for index in wanted]
            read = parquet.read_row_group(group, columns=fields, use_threads=False)
        rows = self._file.footer.row_group_rows[group]
        if wanted and read.num_rows != rows:
            raise CorruptFileError(f"Expected {rows} rows, got {read.num_rows} rows")
        arrays = []
        for name, index in stored.items():
            arrow = self._arrow.field(name).type
            if index is None:
                scalar = self._constants.get((name,), pa.scalar(None, arrow))
                arrays.append(pa.repeat(scalar.cast(arrow), rows))
                continue
            field = self._schema.field(index)
            array = pa.concat_arrays(read.column(field.name).chunks or [pa.array([], field.type)])
            arrays.append(self._aligned(array, arrow, (name,), (field.name,)))
        schema = pa.schema([self._arrow.field(name) for name in names])
        if not names:
            return pa.table({"": pa.nulls(rows)})
        return pa.Table.from_arrays(arrays, schema=schema)

    def _find(self, name: str) -> int | None:
        """Return the index of a column in the file; None if the file lacks the column."""
        key = self._keys[(name,)][-1]
        found = (i for i, f in enumerate(self._schema) if self._key_of((f.name,), f) == key)
        return next(found, None)

    def _aligned(self, array: Any, arrow: Any, path: _Path, names: _Path) -> Any:
        """Return an array of the file as the table's type; fields of structs by their keys."""
        if isinstance(array.type, pa.BaseExtensionType):
            array = array.storage
        if isinstance(arrow, pa.BaseExtensionType):
            arrow = arrow.storage_type
        if array.type == arrow:
            return array
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
                scalar = self._constants.get(inner, pa.scalar(None, field.type))
                children.append(pa.repeat(scalar.cast(field.type), len(array)))
            else:
                children.append(self._aligned(found[1], field.type, inner, (*names, found[0])))
        return pa.StructArray.from_arrays(children, fields=list(arrow), mask=array.is_null())

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
        kept = np.ones(self.rows[group], np.bool_)
        if self._test.by_number:
            kept &= self._test.of_numbers(self._file.name, self._starts[group], self.rows[group])
        if not self._test.expressions:
            return kept
        check_unchanged(self._file)
        with naming(f"{self.path}, row group {group}"):
            read = self._reader.read(group, self._names)
            found = pads.dataset(read).to_table(columns=self._test.expressions).combine_chunks()
            kept &= self._test.of_arrays([_whole(column) for column in found.columns])
        check_unchanged(self._file)
        return kept


def _whole(column: Any) -> Any:
    return pa.concat_arrays(column.chunks or [pa.array([], column.type)])


def _keys_by_name(schema: Any, columns: TableColumns) -> Callable[[_Path, Any], str | int | None]:
    """Return the function that returns the key of a field, by its path in the file."""
    if not columns.by_id:
        return lambda names, _: names[-1]
    has_ids = any(isinstance(field_key(field), int) for field in schema)
    if has_ids or columns.names is None:
        return lambda _, field: field_key(field)
    by_name: Mapping[_Path, Keys] = columns.names
    return lambda names, _: by_name[names][-1] if names in by_name else None
