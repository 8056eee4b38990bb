"""Deleted rows of a table's files: deletion vectors, position deletes and equality deletes."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fastload.errors import CorruptFileError, FastloadError, SourceNotFoundError, StorageError
from fastload.rows.arrow_scan import naming
from fastload.rows.table_scan import TableAligner, TableReader, whole
from fastload.source.tables.iceberg import puffin_positions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from fastload.source.files import DeleteFile, FoundFile, SourceFile
    from fastload.source.source import Source

__all__ = ["DeletedRows"]

_DOING = "read the deleted rows"

T = TypeVar("T")
_Path = tuple[str, ...]


class DeletedRows:
    """Finds the rows of a table's files that are not deleted; reads each list of rows once.

    Args:
        source: the files of the table.
    """

    def __init__(self, source: Source) -> None:
        assert source.table is not None
        self._source = source
        self._columns = source.table.columns
        self._vectors_of = source.table.vectors
        self._vectors: Mapping[str, NDArray[np.bool_]] | None = None
        self._positions: dict[str, Mapping[str, NDArray[np.int64]]] = {}
        self._keys: dict[DeleteFile, Any] = {}
        self._lock = threading.Lock()

    def of_file(self, index: int) -> FileDeletes:
        """Return the deleted rows of a file, whose lists are read now unless they were before.

        Args:
            index: the index of the file.

        Raises:
            CorruptFileError: a list of deleted rows is damaged. Every error names the file.
            SourceNotFoundError: a list of deleted rows does not exist.
            StorageError: a list of deleted rows can't be read.
        """
        file = self._source.files[index]
        with self._lock:
            live = self._live(file)
            equal: dict[tuple[_Path, ...], list[Any]] = {}
            for delete in file.deletes:
                if delete.equal:
                    equal.setdefault(delete.equal, []).append(self._keys_in(delete))
        keys = {paths: pa.concat_tables(tables) for paths, tables in equal.items()}
        reader = TableReader(file, self._columns, self._source.storage) if keys else None
        return FileDeletes(file.footer.row_group_rows, live, keys, reader)

    def _live(self, file: SourceFile) -> NDArray[np.bool_] | None:
        """Return True for each row of a file that no list of positions deletes; None = all rows."""
        rows = file.footer.num_rows
        live = np.ones(rows, np.bool_)
        if self._vectors_of is not None:
            if self._vectors is None:
                self._vectors = self._vectors_of.read()
            vector = self._vectors.get(file.uri, live[:0])
            _check_rows(len(vector), file)
            live[: len(vector)] = vector
        for delete in file.deletes:
            if not delete.equal:
                positions = self._positions_in(delete).get(file.uri, np.zeros(0, np.int64))
                if len(positions):
                    _check_rows(int(positions.max()) + 1, file)
                live[positions] = False
        return None if live.all() else live

    def _positions_in(self, delete: DeleteFile) -> Mapping[str, NDArray[np.int64]]:
        """Return the positions that a file lists, by the `uri` of the data file."""
        if delete.path not in self._positions:

            def parse(data: bytes) -> Mapping[str, NDArray[np.int64]]:
                try:
                    return puffin_positions(data) if delete.vector else _positions(data)
                except (ValueError, KeyError) as error:
                    raise CorruptFileError(
                        f"Expected positions of deleted rows, got {error} - at {delete.path}"
                    ) from error

            self._positions[delete.path] = self._read(delete, parse)
        return self._positions[delete.path]

    def _keys_in(self, delete: DeleteFile) -> Any:
        """Return the values that name deleted rows, as an Arrow table of the columns to compare."""
        if delete not in self._keys:

            def parse(data: bytes) -> Any:
                read = pq.read_table(pa.BufferReader(data))
                aligner = TableAligner(read.schema, self._columns)
                names = _names(delete.equal)
                if missing := [name for name in names if aligner.find(name) is None]:
                    raise CorruptFileError(
                        f"Expected the columns whose values name deleted rows, found no column "
                        f"`{missing[0]}` - at {delete.path}"
                    )
                return aligner.aligned(read, names, read.num_rows)

            self._keys[delete] = _values(self._read(delete, parse), delete.equal)
        return self._keys[delete]

    def _read(self, delete: DeleteFile, parse: Callable[[bytes], T]) -> T:
        """Return what `parse` makes of the bytes of a file that lists deleted rows."""
        storage = self._source.storage
        (found,) = storage.locate([delete.path])

        def parsed() -> T:
            data = self._bytes(delete, found)
            with naming(delete.path, _DOING):
                return parse(data)

        return storage.again(found, None, parsed)

    def _bytes(self, delete: DeleteFile, found: FoundFile) -> bytes:
        try:
            return self._source.storage.read_whole(found)
        except FastloadError:
            raise
        except FileNotFoundError:
            raise SourceNotFoundError(
                f"Expected a file that lists deleted rows, found none - at {delete.path}"
            ) from None
        except OSError as error:
            raise StorageError(
                f"Can't read the deleted rows: {error.strerror} - at {delete.path}"
            ) from error


class FileDeletes:
    """The deleted rows of one file.

    Args:
        rows: the number of rows in each row group.
        live: True for each row of the file that no list of positions deletes; None = all rows.
        keys: for columns, the values that name deleted rows, as an Arrow table.
        reader: reads these columns of the file.
    """

    def __init__(
        self,
        rows: Sequence[int],
        live: NDArray[np.bool_] | None,
        keys: Mapping[tuple[_Path, ...], Any],
        reader: TableReader | None,
    ) -> None:
        self._starts = np.cumsum([0, *rows]).tolist()
        self._live = live
        self._keys = keys
        self._reader = reader

    def __bool__(self) -> bool:
        return self._live is not None or bool(self._keys)

    def left(self, group: int) -> NDArray[np.bool_]:
        """Return True for each row of a row group that is not deleted.

        Args:
            group: the index of the row group.

        Raises:
            CorruptFileError, SourceChangedError, StorageError: as `TableReader.read`.
        """
        start, stop = self._starts[group], self._starts[group + 1]
        left = np.ones(stop - start, np.bool_)
        if self._live is not None:
            left &= self._live[start:stop]
        if self._reader is not None and left.any():
            names = _names([path for paths in self._keys for path in paths])
            read = self._reader.read(group, names)
            for paths, keys in self._keys.items():
                left &= ~_is_in(_values(read, paths), keys)
        return left


def _check_rows(least: int, file: SourceFile) -> None:
    rows = file.footer.num_rows
    if least > rows:
        raise CorruptFileError(
            f"Expected deleted rows among {rows} rows, got a deleted row {least - 1} - at "
            f"{file.path}"
        )


def _positions(data: bytes) -> dict[str, NDArray[np.int64]]:
    """Return the positions in a Parquet file of position deletes, by the path of the data file.

    Raises:
        KeyError, ValueError: the file lacks a column, or has a null or a negative position.
    """
    read = pq.read_table(pa.BufferReader(data), columns=["file_path", "pos"])
    if any(column.null_count for column in read.columns):
        raise ValueError("a null")
    paths = whole(read["file_path"].cast(pa.string())).dictionary_encode()
    rows = read["pos"].cast(pa.int64()).to_numpy()
    if len(rows) and rows.min() < 0:
        raise ValueError(f"{rows.min()}")
    codes = paths.indices.to_numpy()
    order = np.argsort(codes, kind="stable")
    ends = np.searchsorted(codes[order], np.arange(len(paths.dictionary) + 1))
    return {
        path: rows[order[ends[code] : ends[code + 1]]]
        for code, path in enumerate(paths.dictionary.to_pylist())
    }


def _names(paths: Sequence[_Path]) -> list[str]:
    """Return the names of the columns that contain the columns at `paths`."""
    return list(dict.fromkeys(path[0] for path in paths))


def _values(read: Any, paths: Sequence[_Path]) -> Any:
    """Return the columns at `paths` as an Arrow table."""
    arrays = []
    for path in paths:
        array = whole(read[path[0]])
        for name in path[1:]:
            array = pc.struct_field(array, name)
        arrays.append(array.storage if isinstance(array.type, pa.BaseExtensionType) else array)
    return pa.table(arrays, names=[".".join(path) for path in paths])


def _is_in(rows: Any, keys: Any) -> NDArray[np.bool_]:
    """Return True for each row that equals one of the keys; a null equals a null."""
    codes = np.zeros(len(rows) + len(keys), np.int64)
    for name in rows.column_names:
        both = pa.concat_arrays([whole(rows[name]), whole(keys[name])])
        found = both.dictionary_encode(null_encoding="encode").indices.to_numpy()
        # The codes stay small, so that products of them fit int64.
        codes = np.unique(codes * (int(found.max(initial=0)) + 1) + found, return_inverse=True)[1]
    return np.isin(codes[: len(rows)], codes[len(rows) :])
