"""Delta tables, whose log deltalake reads."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa

from fastload.errors import SourceNotFoundError, StorageError, UnsupportedTypeError
from fastload.source.local_paths import local_path, url_of
from fastload.source.table_formats import described
from fastload.source.tables.table import Bounds, Table, TableColumns, TableFile, plain_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from fastload.source.files import PathLike
    from fastload.source.stores.stores import Stores
    from fastload.source.tables.table import ColumnKeys

__all__ = ["Delta"]

_FEATURES = {
    "appendOnly", "catalogManaged", "catalogOwned-preview", "checkConstraints", "clustering",
    "columnMapping", "deletionVectors", "domainMetadata", "generatedColumns", "icebergCompatV1",
    "icebergCompatV2", "identityColumns", "inCommitTimestamp", "invariants", "rowTracking",
    "timestampNtz", "typeWidening", "typeWidening-preview", "v2Checkpoint", "vacuumProtocolCheck",
}  # fmt: skip
# The start of a path or URL in the log that does not lie in the directory of the table.
_WHOLE = re.compile(r"(?:file:)?/|[A-Za-z][A-Za-z0-9+.-]*://")
# Writers may cut bounds of timestamps, which are in microseconds, to milliseconds.
_CUT_US = 1000


@dataclass(frozen=True)
class Delta:
    """A version of a Delta table, as the source of a dataset.

    The dataset has the rows that this version of the table has. deltalake reads the table's log
    (`pip install fastload[delta]`), fastload reads the files.

    Example:
        ds = FastParquetDataset(Delta("sales", version=0), columns=["price"])
        ds.num_rows  # the rows of version 0

    Args:
        uri: The directory of the table: a local path, or a gs://, s3:// or az:// URL. The
            dataset's `storage_options` also serve the log.
        version: The number of the version; None means the latest, when the dataset is made.
    """

    uri: PathLike
    version: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.uri, (str, os.PathLike)):
            raise TypeError(
                f"Expected uri as the path or URL of a table, got {described(self.uri)}"
            )
        version: object = self.version
        if version is not None and type(version) is not int:
            raise TypeError(f"Expected version as int or None, got {version!r}")
        if self.version is not None and self.version < 0:
            raise ValueError(f"Expected version to be at least 0, got {self.version}")

    def _open(self, storage: Stores) -> Table:
        """Read the log of the table.

        Raises:
            ImportError: the library that reads the metadata is not installed.
            SourceNotFoundError: the table or the version does not exist.
            StorageError: the metadata can't be read.
            UnsupportedTypeError: the table needs what fastload lacks.
        """
        uri = os.fspath(self.uri)
        if url_of(self.uri) is None:
            uri = local_path(self.uri)
        options = storage.options_for_libraries(uri)
        log = _opened(uri, self.version, options)
        _check_features(log, uri)
        schema = json.loads(log.schema().to_json())
        configuration = log.metadata().configuration
        mode = configuration.get("delta.columnMapping.mode", "none")
        columns = TableColumns.of(
            uri, pa.schema(log.schema().to_arrow()), dict(_paths(schema, mode)), by_id=mode == "id"
        )
        version = log.version()
        physical = {tuple(map(str, keys)): path for keys, path in _paths(schema, "name")}
        files = tuple(_files(log, uri, columns, physical))
        features = log.protocol().reader_features or ()
        return Table(
            columns,
            f"version {version}",
            f"delta {log.metadata().id} {version}",
            files,
            _DeltaVectors(uri, version, options) if "deletionVectors" in features else None,
        )


@dataclass(frozen=True)
class _DeltaVectors:
    """The deletion vectors of a version of a table, which deltalake reads when they are needed."""

    uri: str
    version: int
    options: dict[str, str] | None

    def __repr__(self) -> str:  # options may hold credentials
        return f"_DeltaVectors({self.uri!r}, {self.version})"

    def read(self) -> dict[str, NDArray[np.bool_]]:
        """Return for each file with a vector, by its `uri`, True for each row that is left."""
        log = _opened(self.uri, self.version, self.options)
        found: dict[str, NDArray[np.bool_]] = {}
        try:
            vectors = pa.table(log.deletion_vectors())
        except Exception as error:
            raise StorageError(
                f"Can't read the deletion vectors: {_line(error)} - at {self.uri}"
            ) from error
        for batch in vectors.to_batches():
            for path, left in zip(batch.column(0).to_pylist(), batch.column(1), strict=True):
                values = left.values.to_numpy(zero_copy_only=False)
                found[plain_path(unquote(path))] = np.asarray(values, np.bool_)
        listed = pa.table(log.get_add_actions(flatten=True))["path"].to_pylist()
        unknown = sorted(found.keys() - {_within(_root(log), unquote(path)) for path in listed})
        if unknown:
            raise StorageError(
                "Expected deletion vectors of the table's files, got one of the unknown file "
                f"{unknown[0]} - at {self.uri}"
            )
        return found


def _opened(uri: str, version: int | None, options: dict[str, str] | None) -> Any:
    try:
        import deltalake
        from deltalake.exceptions import DeltaError, TableNotFoundError
    except ImportError:
        raise ImportError(
            "Delta needs the package deltalake: pip install 'fastload[delta]'"
        ) from None
    try:
        return deltalake.DeltaTable(uri, version=version, storage_options=options)
    except TableNotFoundError as error:
        raise SourceNotFoundError(
            f"Expected a Delta table, found none: {_line(error)} - at {uri}"
        ) from None
    except (DeltaError, OSError) as error:
        text = str(error).lower()
        if version is not None and "version" in text and "unsupported" not in text:
            raise SourceNotFoundError(
                f"Expected version {version} of the Delta table, found none: {_line(error)} - at "
                f"{uri}"
            ) from None
        raise StorageError(f"Can't read the Delta log: {_line(error)} - at {uri}") from error


def _line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _check_features(log: Any, uri: str) -> None:
    unknown = sorted(set(log.protocol().reader_features or ()) - _FEATURES)
    if unknown:
        raise UnsupportedTypeError(
            f"Expected a Delta table whose reader features fastload has, got {', '.join(unknown)} "
            f"- at {uri}"
        )


def _paths(schema: Mapping[str, Any], mode: str) -> Iterator[tuple[ColumnKeys, tuple[str, ...]]]:
    """Yield the keys and the path of each column, struct and list of a Delta schema."""

    def below(
        kind: Any, keys: ColumnKeys, path: tuple[str, ...]
    ) -> Iterator[tuple[ColumnKeys, Any]]:
        if not isinstance(kind, dict):
            return
        if kind["type"] == "struct":
            for entry in kind["fields"]:
                key = _key(entry, mode)
                yield (*keys, key), (*path, entry["name"])
                yield from below(entry["type"], (*keys, key), (*path, entry["name"]))
        elif kind["type"] == "array":
            yield from below(kind["elementType"], keys, path)
        elif kind["type"] == "map":
            for name in ("key", "value"):
                yield (*keys, name), (*path, name)
                yield from below(kind[f"{name}Type"], (*keys, name), (*path, name))

    return below(schema, (), ())


def _key(entry: Mapping[str, Any], mode: str) -> str | int:
    metadata = entry.get("metadata") or {}
    if mode == "id":
        return int(metadata["delta.columnMapping.id"])
    name = metadata.get("delta.columnMapping.physicalName") if mode == "name" else None
    return str(name or entry["name"])


def _files(
    log: Any,
    uri: str,
    columns: TableColumns,
    physical: Mapping[tuple[str, ...], tuple[str, ...]],
) -> Iterator[TableFile]:
    added = pa.table(log.get_add_actions(flatten=True)).combine_chunks()
    names = log.metadata().partition_columns
    partitions = {name: added[f"partition.{name}"] for name in names}
    statistics = list(_statistics(added, columns, physical))
    root = _root(log)
    records = added["num_records"] if "num_records" in added.column_names else None
    for row, path in enumerate(added["path"].to_pylist()):
        name = unquote(path)
        constants = tuple(
            ((name,), _scalar(values[row], columns.arrow.field(name).type))
            for name, values in partitions.items()
        )
        bounds = _bounds(statistics, row, records[row].as_py() if records is not None else None)
        place, own = _within(uri, name), _within(root, name)
        yield TableFile(place, own, name, constants, tuple(bounds))


def _root(log: Any) -> str:
    """Return the directory of a table as its vectors name it: without links, unlike the user's."""
    return unquote(log.table_uri)


def _within(directory: str, name: str) -> str:
    """Return the path or URL of a file, whose name in the log may be a path or URL itself."""
    whole = name if _WHOLE.match(name) else f"{directory.rstrip('/')}/{name}"
    return plain_path(whole)


def _scalar(value: Any, arrow: Any) -> Any:
    return pa.scalar(None, arrow) if not value.is_valid else value.cast(arrow)


_Column = tuple[tuple[str, ...], Any, Any, Any, Any]


def _statistics(
    added: Any, columns: TableColumns, physical: Mapping[tuple[str, ...], tuple[str, ...]]
) -> Iterator[_Column]:
    """Yield path, type, least, most and null count of each column with statistics."""
    known = set(added.column_names)
    for names, path in physical.items():
        arrow = columns.type_of(path)
        dotted = ".".join(names)
        if arrow is None:
            continue
        found = [f"{kind}.{dotted}" for kind in ("min", "max", "null_count")]
        if known.intersection(found):
            least, most, nulls = (added[name] if name in known else None for name in found)
            yield path, arrow, least, most, nulls


def _bounds(statistics: Sequence[_Column], row: int, records: int | None) -> Iterator[Bounds]:
    for path, arrow, leasts, mosts, counts in statistics:
        least, most = (_bound(values, row, arrow) for values in (leasts, mosts))
        count = None if counts is None else counts[row].as_py()
        if most is not None and pa.types.is_timestamp(arrow):
            # Not as a datetime, which ends with the year 9999.
            most = pa.array([most.value + _CUT_US]).view(arrow)[0]
        yield from Bounds.of(path, least, most, count, records)


def _bound(values: Any, row: int, arrow: Any) -> Any:
    # Bounds of floats say nothing about NaN.
    if values is None or pa.types.is_floating(arrow) or not values[row].is_valid:
        return None
    try:
        return values[row].cast(arrow)
    except pa.ArrowException:
        return None
