"""Delta tables, whose log deltalake reads."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa

from fastload.errors import (
    FastloadError,
    SourceNotFoundError,
    StorageError,
    UnsupportedTypeError,
)
from fastload.source.local_paths import find_files, local_path, url_of
from fastload.source.stores.store import HTTP
from fastload.source.table_formats import described
from fastload.source.tables.places import check_plain, is_below, is_near, refused
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
# The start of a path or URL in the log that is not relative to the directory of the table.
_WHOLE = re.compile(r"/|file:|[a-z][a-z0-9+.-]*:/", re.IGNORECASE)
# What may stand before the encoded name of a deletion vector, which is relative to the table.
_PREFIX = re.compile(r"(?!/)[\w/=-]*")
_ENCODED = 20  # characters of this name
# Commits and checkpoints of a log.
_LOGGED = re.compile(r".*/(\d{20})\.(checkpoint\b)?.*\b(?:json|parquet)", re.DOTALL)
_VECTOR_COLUMNS = [
    "add.deletionVector.storageType", "add.deletionVector.pathOrInlineDv", "sidecar.path",
]  # fmt: skip
# Writers may cut bounds of timestamps, which are in microseconds, to milliseconds.
_CUT_US = 1000


@dataclass(frozen=True)
class Delta:
    """A version of a Delta table, as the source of a dataset.

    The dataset has the rows that this version of the table has. deltalake reads the table's log
    (`pip install deltalake`), fastload reads the files.

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
        files = tuple(_files(log, _Places(log, uri), columns, physical))
        features = log.protocol().reader_features or ()
        return Table(
            columns,
            f"version {version}",
            f"delta {log.metadata().id} {version}",
            files,
            _DeltaVectors(uri, version, options, storage)
            if "deletionVectors" in features
            else None,
        )


@dataclass(frozen=True)
class _DeltaVectors:
    """The deletion vectors of a version of a table, which deltalake reads when they are needed."""

    uri: str
    version: int
    options: dict[str, str] | None
    storage: Stores

    def __repr__(self) -> str:  # options may hold credentials
        return f"_DeltaVectors({self.uri!r}, {self.version})"

    def read(self) -> dict[str, NDArray[np.bool_]]:
        """Return for each file with a vector, by its `uri`, True for each row that is left."""
        log = _opened(self.uri, self.version, self.options)
        found: dict[str, NDArray[np.bool_]] = {}
        places = _Places(log, self.uri)
        try:
            for kind, entry in _vector_entries(self.uri, self.version, self.storage):
                places.check_vector(kind, entry)
            vectors = pa.table(log.deletion_vectors())
        except FastloadError:
            raise
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
        raise ImportError("Delta needs the package deltalake: pip install deltalake") from None
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
    except BaseException as error:
        # What Rust's panics become is no Exception, and can't be imported.
        if type(error).__name__ != "PanicException":
            raise
        if "fork" not in str(error).lower():
            raise StorageError(f"Can't read the Delta log: {_line(error)} - at {uri}") from error
        raise StorageError(
            "Expected a process that was not forked from one that has used deltalake, got a forked "
            "one: open the table before the fork, or write DataLoader(..., "
            f'multiprocessing_context="forkserver") - at {uri}'
        ) from None


def _line(error: BaseException) -> str:
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


class _Places:
    """The files that the log of a table may name.

    Names are relative to the directory of the table, and those of a clone are whole paths or URLs
    of another table's files. A table in a store names files of this store, never of this machine.

    Args:
        log: deltalake's table.
        uri: URL or path of the directory of the table.
    """

    def __init__(self, log: Any, uri: str) -> None:
        self._log = log
        self._uri = uri

    @property
    def uri(self) -> str:
        """URL or path of the directory of the table."""
        return self._uri

    @cached_property
    def _is_clone(self) -> bool:
        return any(commit.get("operation") == "CLONE" for commit in self._log.history())

    def check(self, name: str, what: str = "data files") -> None:
        """Raise an error if a table must not name a file.

        Args:
            name: path or URL of the file in the log, without escapes.
            what: what kind of file it is, for the error.

        Raises:
            StorageError: the file lies on this machine, and the table in a store; or in another
                store; or outside of the directory of a table on this machine that is no clone.
        """
        check_plain(name, self._uri)
        whole = _WHOLE.match(name) is not None
        if not whole and ".." not in name.split("/"):
            return
        place = _within(self._uri, name)
        if url_of(self._uri) is not None:
            if ".." in name.split("/") or not is_near(place, self._uri):
                expected = "in the store of the table" if whole else "below the table"
                raise refused(what, name, expected, self._uri)
        elif url_of(place) is not None or not is_below(
            place, (self._uri, plain_path(_root(self._log)))
        ):
            scheme = (url_of(place) or ("",))[0]
            if scheme in HTTP or not self._is_clone:
                raise refused(
                    what,
                    name,
                    "below the table (a clone may name others, if its log has the operation CLONE)",
                    self._uri,
                )

    def check_vector(self, kind: str, entry: str) -> None:
        """Raise an error if a table must not name the file of a deletion vector.

        Args:
            kind: how the log stores the vector: "u", "p", or "i" for one in the log itself.
            entry: what the log says of its place.

        Raises:
            StorageError: as `check`.
        """
        what = "deletion vectors"
        if kind == "u" and not _PREFIX.fullmatch(entry[:-_ENCODED]):
            raise refused(what, entry[:-_ENCODED], "below the table", self._uri)
        if kind == "p":
            name = unquote(entry)
            if not _WHOLE.match(name):
                raise refused(what, name, "as whole URLs", self._uri)
            self.check(name, what)


def _vector_entries(uri: str, version: int, storage: Stores) -> Iterator[tuple[str, str]]:
    """Yield how and where each deletion vector of a version is stored, which deltalake hides.

    Vectors that a later commit replaced are yielded too.
    """
    import pyarrow.parquet as pq

    directory = f"{uri.rstrip('/')}/_delta_log"
    listed = find_files(directory, storage.find)
    logged = [(found, each) for each in listed if (found := _LOGGED.fullmatch(each.path))]
    logged = [(found, each) for found, each in logged if int(found[1]) <= version]
    start = max((int(found[1]) for found, _ in logged if found[2]), default=-1)
    files = [each for found, each in logged if int(found[1]) >= start + (not found[2])]
    while files:
        file = files.pop()
        data = storage.read_whole(file)
        if file.path.endswith(".parquet"):
            opened = pq.ParquetFile(pa.BufferReader(data))
            actions = opened.read(columns=_VECTOR_COLUMNS).to_pylist()
        else:
            actions = [json.loads(line) for line in data.splitlines() if line.strip()]
        for action in actions:
            if (vector := (action.get("add") or {}).get("deletionVector") or {}).get("storageType"):
                yield vector["storageType"], vector["pathOrInlineDv"]
            if side := (action.get("sidecar") or {}).get("path"):
                files += storage.locate([f"{directory}/_sidecars/{side}"])


def _files(
    log: Any,
    places: _Places,
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
        places.check(name)
        constants = tuple(
            ((name,), _scalar(values[row], columns.arrow.field(name).type))
            for name, values in partitions.items()
        )
        bounds = _bounds(statistics, row, records[row].as_py() if records is not None else None)
        place, own = _within(places.uri, name), _within(root, name)
        yield TableFile(place, own, name, constants, tuple(bounds))


def _root(log: Any) -> str:
    """Return the directory of a table as its vectors name it: without links, unlike the user's."""
    return unquote(log.table_uri)


def _within(directory: str, name: str) -> str:
    """Return the path or URL of a file, whose name in the log may be a path or URL itself.

    A path that begins with "/" is one of the bucket of a table in a store.
    """
    url = url_of(directory)
    if not _WHOLE.match(name):
        name = f"{directory.rstrip('/')}/{name}"
    elif name.startswith("/") and not name.startswith("//") and url is not None:
        name = f"{url[0]}://{url[1].partition('/')[0]}{name}"
    return plain_path(name)


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
