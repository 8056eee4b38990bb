"""One version of a table, whichever format it has: its columns, its files, its deleted rows."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from fastload.errors import SchemaError, UnsupportedTypeError
from fastload.runtime.native import core

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from fastload.source.files import Constants, DeleteFile

__all__ = [
    "Bounds",
    "ColumnKeys",
    "Table",
    "TableColumns",
    "TableFile",
    "arrow_schema",
    "field_key",
    "paths_named",
    "plain_path",
    "type_at",
]

Path = tuple[str, ...]
"""The names of a column in the table: of the structs around it, outermost first, and its own."""

ColumnKeys = tuple[str | int, ...]
"""What a file calls a column of the table: a name or a field id for each name of its path."""

_FIELD_ID = b"PARQUET:field_id"


@dataclass(frozen=True, slots=True)
class Bounds:
    """The facts that a table's metadata states about the values of one column in a file.

    Attributes:
        path: path of the column.
        least: a value that no value is less than, as an Arrow scalar; None = unknown.
        most: a value that no value is greater than, as an Arrow scalar; None = unknown.
        nulls: False if the file has no null, True if the file has only nulls; None = unknown.
    """

    path: Path
    least: Any = None
    most: Any = None
    nulls: bool | None = None

    @classmethod
    def of(
        cls, path: Path, least: Any, most: Any, null_count: int | None, rows: int | None
    ) -> Iterator[Bounds]:
        """Yield the facts about a column with `null_count` nulls in `rows` rows, if any are known.

        None = unknown, for each argument.
        """
        nulls = None
        if null_count is not None and rows is not None:
            nulls = False if null_count == 0 else True if null_count == rows else None
        if (least is not None and most is not None) or nulls is not None:
            yield cls(path, least, most, nulls)


@dataclass(frozen=True, slots=True)
class TableFile:
    """A data file, as the metadata of its table lists it.

    Attributes:
        path: path or URL of the file, to open and to show.
        uri: the file's path as delete files and deletion vectors name it; "" for a table that has
            no such lists.
        name: path of the file below the table, with "/".
        constants: values of columns that are the same for all rows: partition values, and the
            defaults of columns that were added. A column in the file prevails.
        bounds: what the metadata says about the values of columns.
        deletes: files that list deleted rows of this file.
    """

    path: str
    uri: str
    name: str
    constants: Constants = ()
    bounds: tuple[Bounds, ...] = field(default=(), repr=False)
    deletes: tuple[DeleteFile, ...] = ()


class Vectors(Protocol):
    """The deletion vectors of a Delta table."""

    def read(self) -> Mapping[str, NDArray[Any]]:
        """Return for each file with a vector, by its `uri`, True for each row that is left.

        A vector may be shorter than the file; the rows behind the vector are left.
        """


@dataclass(frozen=True, slots=True)
class TableColumns:
    """The columns of a table, and what its files call them.

    Attributes:
        location: URL or name of the table, for messages.
        arrow: the columns as an Arrow schema.
        footer: footer of an empty file with these columns.
        paths: path of each column, and of each struct and list, by its keys.
        by_id: keys are field ids instead of names.
        names: keys by the names in files without field ids; None = such files raise an error.
    """

    location: str
    arrow: Any
    footer: core.Footer
    paths: Mapping[ColumnKeys, Path]
    by_id: bool = False
    names: Mapping[Path, ColumnKeys] | None = None

    @classmethod
    def of(
        cls,
        location: str,
        arrow: Any,
        paths: Mapping[ColumnKeys, Path],
        *,
        by_id: bool = False,
        names: Mapping[Path, ColumnKeys] | None = None,
    ) -> TableColumns:
        """Return the columns of a table with an Arrow schema.

        Raises:
            UnsupportedTypeError: Parquet has no counterpart of a type.
        """
        # Imported only here, so that `import fastload` does not wait for it.
        import pyarrow.parquet as pq

        arrow = pa.schema([_plain(field) for field in arrow])
        opened = io.BytesIO()
        try:
            pq.write_table(arrow.empty_table(), opened)
        except pa.ArrowException as error:
            raise UnsupportedTypeError(
                f"Expected columns that Parquet can hold, got {error} - at {location}"
            ) from None
        data = opened.getvalue()
        needed = core.Footer.tail_bytes(data, len(data), location.encode())
        footer = core.Footer(data[-needed:], len(data), location.encode())
        return cls(location, arrow, footer, paths, by_id, names)

    def type_of(self, path: Path) -> Any:
        """Return the Arrow type of a column outside of lists; None for others and for structs."""
        arrow = type_at(self.arrow, path)
        return None if arrow is None or pa.types.is_nested(arrow) else arrow

    def find(self, footer: core.Footer, path: str) -> list[tuple[Path | None, list[Path]]]:
        """Return the path in the table of each leaf of a file, and of the structs around it.

        The path is None for a leaf of no column. Such a leaf may be in a struct of the table.

        Args:
            footer: the footer of the file.
            path: path of the file, for messages.

        Raises:
            SchemaError: the columns of the file have no field ids, and the table has no names for
                such files.
        """
        return [self._place(keys) for keys in self._keys(footer, path)]

    def _place(self, keys: ColumnKeys) -> tuple[Path | None, list[Path]]:
        around = (self.paths.get(keys[:depth]) for depth in range(1, len(keys)))
        return self.paths.get(keys), [found for found in around if found is not None]

    def _keys(self, footer: core.Footer, path: str) -> Iterable[ColumnKeys]:
        if not self.by_id:
            return [leaf.names for leaf in footer.leaves]
        keys = list(_leaf_keys(arrow_schema(footer)))
        if any(isinstance(key, int) for each in keys for key in each):
            return keys
        if self.names is None:
            raise SchemaError(
                "Expected columns with field ids, or a name mapping of the table, got a file "
                f"without ids - at {path}"
            )
        return [self.names.get(leaf.names, ()) for leaf in footer.leaves]


@dataclass(frozen=True, slots=True)
class Table:
    """One version of a table.

    Attributes:
        columns: the columns.
        version: the version as messages call it, such as "version 12".
        identity: a text that differs for each version of each table.
        files: the data files, in the order of the metadata.
        vectors: the deletion vectors of a Delta table; None = the table has none.
    """

    columns: TableColumns
    version: str
    identity: str
    files: tuple[TableFile, ...] = field(repr=False)
    vectors: Vectors | None = None


def arrow_schema(footer: core.Footer) -> Any:
    """Return the Arrow schema of a file's columns, with field ids, without opening the file."""
    import pyarrow.parquet as pq

    return pq.read_schema(pa.BufferReader(b"PAR1" + footer.schema.tail))


def type_at(schema: Any, path: Sequence[str]) -> Any:
    """Return the type of a column of an Arrow schema, or of a struct's field; None without one."""
    try:
        arrow = schema.field(path[0]).type
        for name in path[1:]:
            arrow = arrow.field(name).type
    except (KeyError, AttributeError, TypeError):
        return None
    return arrow


def paths_named(fields: Iterable[Any], name: str) -> list[Path]:
    """Return the paths of a column of this name, and of fields of structs with this dotted name.

    Args:
        fields: an Arrow schema or a struct type.
        name: the name. Names of columns and fields may have dots themselves.
    """
    found: list[Path] = []
    for entry in fields:
        if entry.name == name:
            found.append((name,))
        elif name.startswith(f"{entry.name}.") and pa.types.is_struct(entry.type):
            below = paths_named(entry.type, name[len(entry.name) + 1 :])
            found += [(entry.name, *path) for path in below]
    return found


def field_key(field: Any) -> str | int:
    """Return the field id of a field of an Arrow schema; its name if the field has no id."""
    number = (field.metadata or {}).get(_FIELD_ID)
    return field.name if number is None else int(number)


def plain_path(path: str) -> str:
    """Return the path of a local file that may be a URL, without escapes; other URLs unchanged."""
    return re.sub(r"^file:/+", "/", path, flags=re.IGNORECASE)


def _leaf_keys(schema: Any) -> Iterator[ColumnKeys]:
    for entry in schema:
        yield from _keys_below(entry.type, (field_key(entry),))


def _keys_below(arrow: Any, keys: ColumnKeys) -> Iterator[ColumnKeys]:
    if isinstance(arrow, pa.BaseExtensionType):
        arrow = arrow.storage_type
    if pa.types.is_struct(arrow):
        for entry in arrow:
            yield from _keys_below(entry.type, (*keys, field_key(entry)))
    elif pa.types.is_map(arrow):
        yield from _keys_below(arrow.key_type, (*keys, "key"))
        yield from _keys_below(arrow.item_type, (*keys, "value"))
    elif (
        pa.types.is_list(arrow)
        or pa.types.is_large_list(arrow)
        or pa.types.is_fixed_size_list(arrow)
    ):
        yield from _keys_below(arrow.value_type, keys)
    else:
        yield keys


def _plain(field: Any) -> Any:
    """Return a field that may be null, without metadata."""
    return pa.field(field.name, field.type)
