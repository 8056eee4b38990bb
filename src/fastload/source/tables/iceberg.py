"""Iceberg tables, whose metadata pyiceberg reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fastload.errors import (
    FastloadError,
    SourceNotFoundError,
    StorageError,
    UnsupportedTypeError,
)
from fastload.source.table_formats import described
from fastload.source.tables.iceberg_files import IcebergFiles
from fastload.source.tables.table import Table, TableColumns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastload.source.stores.stores import Stores
    from fastload.source.tables.table import ColumnKeys

__all__ = ["Iceberg"]

# pyiceberg's properties of S3, in the words of fsspec.
_S3 = {
    "s3.access-key-id": "key",
    "s3.secret-access-key": "secret",
    "s3.session-token": "token",
    "s3.endpoint": "endpoint_url",
    "s3.profile-name": "profile",
}


@dataclass(frozen=True)
class Iceberg:
    """A snapshot of an Iceberg table, as the source of a dataset.

    The dataset has the rows that this snapshot of the table has. pyiceberg reads the table's
    metadata (`pip install fastload[iceberg]`), fastload reads the files.

    Example:
        catalog = {"uri": "sqlite:///catalog.db"}
        ds = FastParquetDataset(Iceberg("shop.events", catalog=catalog), columns=["price"])
        ds.num_rows  # the rows of the latest snapshot

    Args:
        table: The name of the table, `"database.table"`, or the path or URL of a
            `*.metadata.json` file.
        snapshot_id: The number of the snapshot; None means the latest, when the dataset is made.
        catalog: The catalog of the table: a catalog of pyiceberg, the name of one in pyiceberg's
            configuration, a dict of its properties, or None for the default catalog. A SQL
            catalog finds tables under its own name, which is "default" unless the dict has
            another `"name"`.
    """

    table: str
    snapshot_id: int | None = None
    catalog: Any = field(default=None, repr=False)

    def __post_init__(self) -> None:
        table, snapshot_id = self.table, self.snapshot_id
        if not isinstance(table, str):
            raise TypeError(
                f'Expected table as a name such as "database.table", got {described(table)}'
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
                "Iceberg needs the package pyiceberg: pip install 'fastload[iceberg]'"
            ) from None
        missing = (
            errors.NoSuchTableError,
            errors.NoSuchNamespaceError,
            errors.NoSuchIdentifierError,
            FileNotFoundError,
        )
        try:
            loaded = self._load()
            storage.take_options(_options_of(loaded.io.properties))
            return self._planned(loaded)
        except FastloadError:
            raise
        except missing as error:
            raise SourceNotFoundError(
                f"Expected an Iceberg table, found none: {error}{self._name_hint()} - at "
                f"{self.table}"
            ) from error
        except (errors.RESTError, errors.ResolveError, errors.ValidationError, OSError) as error:
            raise StorageError(
                f"Can't read the metadata of the table: {error} - at {self.table}"
            ) from error

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
        files = tuple(IcebergFiles(table, snapshot, schema, columns).data_files())
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
