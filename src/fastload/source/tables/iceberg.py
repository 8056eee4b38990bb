"""Iceberg tables, whose metadata pyiceberg reads: their files, and the lists of deleted rows."""

from __future__ import annotations

import os
import re
import struct
import zlib
from collections import defaultdict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from fastload.errors import (
    CorruptFileError,
    FastloadError,
    SourceNotFoundError,
    StorageError,
    UnsupportedTypeError,
)
from fastload.source.files import DeleteFile
from fastload.source.local_paths import local_path, url_of
from fastload.source.stores.store import HTTP
from fastload.source.table_formats import METADATA, described
from fastload.source.tables.places import check_plain, is_near, refused
from fastload.source.tables.table import Bounds, Table, TableColumns, TableFile, plain_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from fastload.source.files import Constants
    from fastload.source.stores.stores import Stores
    from fastload.source.tables.table import ColumnKeys

__all__ = ["Iceberg", "puffin_positions"]

# pyiceberg's properties of S3, in the words of fsspec.
_S3 = {
    "s3.access-key-id": "key",
    "s3.secret-access-key": "secret",
    "s3.session-token": "token",
    "s3.endpoint": "endpoint_url",
    "s3.profile-name": "profile",
}
_THREADS = 8
# The properties that name directories of a table's files.
_PATHS = ("write.data.path", "write.metadata.path", "write.object-storage.path")
# The field id of the column `file_path` in files of position deletes.
_FILE_PATH_ID = 2147483546

_Path = tuple[str, ...]


@dataclass(frozen=True)
class Iceberg:
    """A snapshot of an Iceberg table, as the source of a dataset.

    The dataset has the rows that this snapshot of the table has. pyiceberg reads the table's
    metadata (`pip install pyiceberg`), fastload reads the files.

    Example:
        catalog = {"uri": "sqlite:///catalog.db"}
        ds = FastParquetDataset(Iceberg("shop.events", catalog=catalog), columns=["price"])
        ds.num_rows  # the rows of the latest snapshot

    Args:
        table: The name of the table, `"database.table"`, or the path or URL of a
            `*.metadata.json` file; or a `pyiceberg.table.Table`, which stands for its metadata
            file as it is now, and brings the properties of its store.
        snapshot_id: The number of the snapshot; None means the latest, when the dataset is made.
        catalog: The catalog of the table: a catalog of pyiceberg, the name of one in pyiceberg's
            configuration, a dict of its properties, or None for the default catalog. A SQL
            catalog finds tables under its own name, which is "default" unless the dict has
            another `"name"`.
    """

    table: str | Any
    snapshot_id: int | None = None
    catalog: Any = field(default=None, repr=False)

    def __post_init__(self) -> None:
        table, snapshot_id = self.table, self.snapshot_id
        location = getattr(table, "metadata_location", None)
        if isinstance(location, str) and hasattr(table, "io"):  # a Table of pyiceberg
            if self.catalog is not None:
                raise ValueError(
                    f"Expected no catalog beside a Table of pyiceberg, got {type(self.catalog)}: "
                    "leave catalog= out"
                )
            object.__setattr__(self, "table", location)
            object.__setattr__(self, "catalog", dict(table.io.properties))
        elif not isinstance(table, str):
            raise TypeError(
                'Expected table as a name such as "database.table", or a Table of pyiceberg, got '
                f"{described(table)}"
            )
        if snapshot_id is not None and type(snapshot_id) is not int:
            raise TypeError(f"Expected snapshot_id as int or None, got {snapshot_id!r}")

    def _open(self, storage: Stores) -> Table:
        """Read the metadata of the table; raises as `Delta._open`."""
        storage.check_serves_tables(self.table)
        try:
            import pyiceberg.exceptions as errors
        except ImportError:
            raise ImportError(
                "Iceberg needs the package pyiceberg: pip install pyiceberg"
            ) from None
        missing = (
            errors.NoSuchTableError,
            errors.NoSuchNamespaceError,
            errors.NoSuchIdentifierError,
            FileNotFoundError,
        )
        try:
            self._check_name()
            loaded = self._load()
            storage.take_options(_options_of(loaded.io.properties))
            return self._planned(loaded)
        except FastloadError:
            raise
        except (UnicodeError, EOFError, zlib.error) as error:
            raise CorruptFileError(
                f"Expected the metadata of an Iceberg table, got {type(error).__name__}: {error} "
                f"- at {self.table}"
            ) from error
        except missing as error:
            raise SourceNotFoundError(
                f"Expected an Iceberg table, found none: {error}{self._name_hint()} - at "
                f"{self.table}"
            ) from error
        except (errors.RESTError, errors.ResolveError, errors.ValidationError, OSError) as error:
            raise StorageError(
                f"Can't read the metadata of the table: {error} - at {self.table}"
            ) from error

    def _check_name(self) -> None:
        """Raise an error if the table is a path of something else than metadata.

        Raises:
            SourceNotFoundError: the path has a null byte.
            ValueError: the path may be that of a directory.
        """
        table = self.table
        if "\0" in table:
            raise SourceNotFoundError(f"Expected a table without null bytes, got {table!r}")
        if table.endswith(".metadata.json") or not (
            "://" in table
            or table.startswith(("/", "./", "../", "~"))
            or (self.catalog is None and os.path.isdir(table))
        ):
            return
        directory = local_path(table) if url_of(table) is None else table.rstrip("/")
        try:
            found = os.listdir(os.path.join(directory, METADATA))
        except OSError:
            found = []
        numbers = {
            name: int(number[0])
            for name in found
            if name.endswith(".metadata.json") and (number := re.search(r"\d+", name))
        }
        newest = max(numbers, key=lambda name: numbers[name], default="*.metadata.json")
        raise ValueError(
            "Expected the name of a table in its catalog, or the path of a *.metadata.json file, "
            f"got another path: write Iceberg({f'{directory}/{METADATA}/{newest}'!r}) - at {table}"
        )

    def _name_hint(self) -> str:
        if not isinstance(self.catalog, Mapping) or "name" in self.catalog:
            return ""
        return '; if another name than "default" made this catalog, add "name" to the dict'

    def _load(self) -> Any:
        from pyiceberg.catalog import load_catalog
        from pyiceberg.table import StaticTable

        if self.table.endswith(".metadata.json"):
            properties = self.catalog if isinstance(self.catalog, Mapping) else {}
            return StaticTable.from_metadata(self.table, {**properties})
        catalog = self.catalog
        if catalog is None or isinstance(catalog, (str, Mapping)):
            properties = {**catalog} if isinstance(catalog, Mapping) else {}
            name = properties.pop("name", None) if isinstance(catalog, Mapping) else catalog
            try:
                catalog = load_catalog(name, **properties)
            except ValueError as error:
                if not str(error).startswith("URI missing"):
                    raise
                which = f"the catalog {name!r}" if name else "the default catalog"
                got = "a dict without one" if isinstance(catalog, Mapping) else "none"
                raise ValueError(
                    f"Expected the address of {which}, got {got}: write Iceberg({self.table!r}, "
                    'catalog={"uri": ...}), or write the address in pyiceberg\'s configuration, '
                    f"as ~/.pyiceberg.yaml or $PYICEBERG_CATALOG__{(name or 'default').upper()}"
                    f"__URI - at {self.table}"
                ) from None
        return catalog.load_table(self.table)

    def _planned(self, table: Any) -> Table:
        snapshot = table.current_snapshot()
        schema = table.schema()
        if self.snapshot_id is not None:
            snapshot = table.snapshot_by_id(self.snapshot_id)
            if snapshot is None:
                known = ", ".join(str(each.snapshot_id) for each in table.snapshots()) or "none"
                raise SourceNotFoundError(
                    f"Expected a snapshot of the table, which has {known}, got "
                    f"{self.snapshot_id} - at {self.table}"
                )
            schema = table.schemas().get(snapshot.schema_id, schema)
        if snapshot is None:
            raise SourceNotFoundError(
                f"Expected a table with rows, got a table without snapshots - at {self.table}"
            )
        columns = _columns(table, schema, self.table)
        places = _Places.of(table.metadata_location, table.location(), table.properties, self.table)
        files = tuple(_IcebergFiles(table, snapshot, schema, columns, places).data_files())
        identity = f"iceberg {table.metadata.table_uuid} {snapshot.snapshot_id} {schema.schema_id}"
        return Table(columns, f"snapshot {snapshot.snapshot_id}", identity, files)


def _options_of(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return storage_options for the properties by which pyiceberg reads a store."""
    options: dict[str, Any] = {
        name: properties[key] for key, name in _S3.items() if properties.get(key)
    }
    if region := properties.get("s3.region") or properties.get("client.region"):
        options["client_kwargs"] = {"region_name": region}
    if str(properties.get("s3.anonymous", "")).lower() == "true":
        options["anon"] = True
    if host := properties.get("gcs.service.host"):
        options["endpoint_url"] = host
    return options


def _columns(table: Any, schema: Any, location: str) -> TableColumns:
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    try:
        arrow = schema_to_pyarrow(schema, include_field_ids=False)
    except (TypeError, ValueError, NotImplementedError) as error:
        raise UnsupportedTypeError(
            f"Expected columns that Arrow can hold, got {error} - at {location}"
        ) from None
    mapping = table.name_mapping()
    names = None if mapping is None else dict(_mapped(mapping, (), ()))
    return TableColumns.of(location, arrow, dict(_paths(schema)), by_id=True, names=names)


def _paths(schema: Any) -> Iterator[tuple[ColumnKeys, tuple[str, ...]]]:
    """Yield the keys and the path of each column, struct and list of an Iceberg schema."""
    from pyiceberg.types import ListType, MapType, StructType

    def below(
        kind: Any, keys: ColumnKeys, path: tuple[str, ...]
    ) -> Iterator[tuple[ColumnKeys, Any]]:
        if isinstance(kind, StructType):
            for entry in kind.fields:
                inner = (*keys, entry.field_id), (*path, entry.name)
                yield inner
                yield from below(entry.field_type, *inner)
        elif isinstance(kind, ListType):
            yield from below(kind.element_type, keys, path)
        elif isinstance(kind, MapType):
            for name, value in (("key", kind.key_type), ("value", kind.value_type)):
                yield (*keys, name), (*path, name)
                yield from below(value, (*keys, name), (*path, name))

    return below(schema.as_struct(), (), ())


def _mapped(
    fields: Any, names: tuple[str, ...], keys: ColumnKeys
) -> Iterator[tuple[tuple[str, ...], ColumnKeys]]:
    """Yield the names and the keys of each field of a name mapping.

    The elements of lists stand in the mapping as "element", but not among the names.
    """
    for entry in fields:
        for name in entry.names:
            inner = names if name == "element" and names else (*names, name)
            key = name if name in ("key", "value") and names else entry.field_id
            found = keys if inner == names else (*keys, key)
            if inner != names:
                yield inner, found
            yield from _mapped(entry.fields, inner, found)


def puffin_positions(data: bytes) -> dict[str, NDArray[np.int64]]:
    """Return the deleted positions that a Puffin file lists, by the path of the data file.

    Args:
        data: the bytes of the file.

    Raises:
        ValueError: the file is damaged.
    """
    from pyiceberg.table.deletion_vector import deletion_vectors_from_puffin_file
    from pyiceberg.table.puffin import PuffinFile

    return {
        vector.referenced_data_file: np.asarray(vector.to_vector(), np.int64)
        for vector in deletion_vectors_from_puffin_file(PuffinFile(data))
    }


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


@dataclass(frozen=True)
class _Places:
    """The files that the metadata of a table may name.

    Metadata on this machine, whose paths are whole, names any files of this machine, and files of
    the stores that its location and its properties name. What lies in a store names files of this
    store only, whose bucket may be another.

    Attributes:
        table: the name of the table, for messages.
        urls: URLs of the stores.
    """

    table: str
    urls: tuple[str, ...]

    @classmethod
    def of(cls, metadata: str, location: str, properties: Mapping[str, str], table: str) -> _Places:
        """Return the places of the files of a table.

        Args:
            metadata: path or URL of the metadata.
            location: the location that it states.
            properties: the properties of the table.
            table: the name of the table, for messages.
        """
        if url_of(plain_path(metadata)) is not None:
            return cls(table, (metadata,))
        homes = (location, *(properties.get(name) for name in _PATHS))
        urls = [(home, url_of(plain_path(home))) for home in homes if home]
        return cls(table, tuple(home for home, url in urls if url and url[0] not in HTTP))

    def check(self, entry: str, what: str, by: str) -> None:
        """Raise an error if the table must not name a file.

        Args:
            entry: path or URL of the file in the metadata.
            what: what kind of file it is, for the error.
            by: path or URL of the file that names it.

        Raises:
            StorageError: the file lies elsewhere.
        """
        check_plain(entry, self.table)
        path = plain_path(entry)
        if url_of(path) is None:
            if url_of(plain_path(by)) is not None:
                raise refused(what, entry, f"in the store of `{by}`, which names them", self.table)
        elif not any(is_near(path, url) for url in self.urls):
            raise refused(what, entry, "in the store of the table", self.table)


class _IcebergFiles:
    """Lists the data files of a snapshot.

    Args:
        table: pyiceberg's table.
        snapshot: pyiceberg's snapshot.
        schema: pyiceberg's schema of the snapshot.
        columns: the columns of the table.
        places: the files that the table may name.
    """

    def __init__(
        self, table: Any, snapshot: Any, schema: Any, columns: TableColumns, places: _Places
    ) -> None:
        self._table = table
        self._places = places
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
        reads, check = self._table.io, self._places.check
        try:
            listed = self._snapshot.manifest_list
            check(listed, "manifest lists", self._table.metadata_location)
            manifests = self._snapshot.manifests(reads)
            for each in manifests:
                check(each.manifest_path, "manifests", listed)
            with ThreadPoolExecutor(_THREADS, "fastload-manifest") as threads:
                found = threads.map(lambda each: each.fetch_manifest_entry(reads), manifests)
                entries = []
                for each, some in zip(manifests, found, strict=True):
                    what = "data files" if each.content.name == "DATA" else "delete files"
                    for entry in some:
                        check(entry.data_file.file_path, what, each.manifest_path)
                    entries += some
                return entries
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
    try:
        return least.decode() if least is not None and least == most else None
    except UnicodeDecodeError:
        return None
