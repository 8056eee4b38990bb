"""Tables of other formats, whose folders must not be read as plain Parquet files.

A Delta, Iceberg or Hudi table keeps files of removed rows, and only its log says which files count.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from fastload.errors import UnsupportedTypeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = [
    "DELTA_LOG",
    "HUDI_LOG",
    "METADATA",
    "PREPARING",
    "Roots",
    "delta_error",
    "described",
    "hudi_error",
    "iceberg_error",
    "is_iceberg",
    "refuse_listed",
    "refuse_local",
    "refuse_walked",
]

DELTA_LOG = "_delta_log"
HUDI_LOG = ".hoodie"
METADATA = "metadata"
PREPARING = "_fastload_preparing"
"""The directory in a folder of prepared rows, some of which are still missing."""
_DATA = "data"
# What to write for a table of a library.
_AS_TABLES = {
    "deltalake": "write fastload.Delta(table.table_uri, version=table.version())",
    "pyiceberg": 'write fastload.Iceberg(".".join(table.name()), catalog=table.catalog)',
}
# The log of a Hudi table, or the mark that Hudi leaves in each partition.
_HUDI = re.compile(rf"/{re.escape(HUDI_LOG)}(?:/|_partition_metadata)")
_ICEBERG = re.compile(r"(?:(.*)/)?metadata/[^/]*\.metadata\.json")


def described(value: object) -> str:
    """Return what a user passed in place of a path, with what to write for a library's object.

    The libraries are not imported, and objects are not printed, because that may take long.
    """
    kind = type(value)
    library = kind.__module__.partition(".")[0]
    if library in _AS_TABLES:
        return f"{kind.__name__} of {library}: {_AS_TABLES[library]}"
    if library == "builtins":
        return f"{kind.__name__}: {value!r}"
    return f"{kind.__name__}: write rows in memory to a Parquet file, and pass its path"


def delta_error(path: str) -> UnsupportedTypeError:
    """Make the error for the folder of a Delta table."""
    return UnsupportedTypeError(
        "Expected a folder of Parquet files alone, got a Delta table, which keeps files of removed "
        f"rows too: pass `fastload.Delta({path!r})` as the source - at {path}"
    )


def iceberg_error(path: str) -> UnsupportedTypeError:
    """Make the error for the folder of an Iceberg table."""
    return UnsupportedTypeError(
        "Expected a folder of Parquet files alone, got an Iceberg table, which keeps files of "
        "removed rows too: pass `fastload.Iceberg('database.table', catalog=...)` as the source, "
        f"with the table's name in its catalog - at {path}"
    )


def hudi_error(path: str) -> UnsupportedTypeError:
    """Make the error for the folder of a Hudi table."""
    return UnsupportedTypeError(
        "Expected a folder of Parquet files alone, got a Hudi table, which keeps files of older "
        "rows too: pass the list of the files of its latest snapshot as the source, as the package "
        f"hudi lists them - at {path}"
    )


def preparing_error(path: str) -> UnsupportedTypeError:
    """Make the error for a folder of prepared rows, some of which are still missing."""
    return UnsupportedTypeError(
        "Expected a folder whose rows are all there, got one that `fastload.prepare` has begun "
        f"and not ended: call it again, and it goes on where it was - at {path}"
    )


class Roots:
    """The folders at or above a directory that may be the root of its table.

    Partitions (`key=value`) lie in the root of a Delta table, and in the folder `data` of an
    Iceberg table.

    Args:
        directory: path of the directory, with "/".

    Attributes:
        delta: the folder above the partitions; None if the directory is not a partition.
        iceberg: the folder above the folder `data`; None if there is no such folder.
    """

    def __init__(self, directory: str) -> None:
        root = directory
        while "=" in root.rpartition("/")[2]:
            root = root.rpartition("/")[0]
        parent, _, name = root.rpartition("/")
        self.delta = root if root != directory else None
        self.iceberg = parent if name == _DATA else None


def is_iceberg(metadata: Iterable[str]) -> bool:
    """Return whether the names of the files in a folder `metadata` are those of Iceberg."""
    return any(name.endswith(".metadata.json") for name in metadata)


def refuse_listed(paths: Iterable[str], shown: str) -> None:
    """Raise an error if the files below a directory are those of a table.

    Args:
        paths: paths of all files, below the directory, with "/".
        shown: path or URL of the directory.

    Raises:
        UnsupportedTypeError: the directory is or contains a Delta, Iceberg or Hudi table.
    """
    tables: set[str] = set()
    data: set[str] = set()
    for path in paths:
        if f"/{DELTA_LOG}/" in f"/{path}":
            raise delta_error(_join(shown, f"/{path}".partition(f"/{DELTA_LOG}/")[0]))
        if f"/{PREPARING}/" in f"/{path}":
            raise preparing_error(_join(shown, f"/{path}".partition(f"/{PREPARING}/")[0]))
        if (found := _HUDI.search(f"/{path}")) is not None:
            raise hudi_error(_join(shown, f"/{path}"[: found.start()]))
        if (found := _ICEBERG.fullmatch(path)) is not None:
            tables.add(found[1] or "")
        data.update(_above_data(path))
    for table in sorted(tables & data):
        raise iceberg_error(_join(shown, table))


def refuse_local(directory: str) -> None:
    """Raise an error if a local directory lies in a table, as a partition or its data.

    Raises:
        UnsupportedTypeError: the directory belongs to a Delta, Iceberg or Hudi table.
    """
    above, below = os.path.abspath(directory), ""
    while above != below:  # the partitions of Hudi have any names
        if os.path.isdir(os.path.join(above, HUDI_LOG)):
            raise hudi_error(above)
        above, below = os.path.dirname(above), above
    roots = Roots(os.path.abspath(directory))
    if roots.delta is not None and os.path.isdir(os.path.join(roots.delta, DELTA_LOG)):
        raise delta_error(roots.delta)
    if roots.iceberg is not None:
        refuse_walked(roots.iceberg, [_DATA, METADATA])


def refuse_walked(parent: str, directories: Iterable[str]) -> None:
    """Raise an error if a local directory, which contains `directories`, is a table.

    Raises:
        UnsupportedTypeError: the directory is a Delta, Iceberg or Hudi table, or a folder of
            prepared rows, some of which are missing.
    """
    if HUDI_LOG in directories:
        raise hudi_error(parent)
    if DELTA_LOG in directories:
        raise delta_error(parent)
    if PREPARING in directories:
        raise preparing_error(parent)
    if _DATA in directories and METADATA in directories:
        try:
            names = os.listdir(os.path.join(parent, METADATA))
        except OSError:
            return
        if is_iceberg(names):
            raise iceberg_error(parent)


def _above_data(path: str) -> Iterator[str]:
    """Yield the folders that contain a folder `data` in which the file at `path` lies."""
    start = 0 if path.startswith(f"{_DATA}/") else path.find(f"/{_DATA}/")
    while start >= 0:
        yield path[:start]
        start = path.find(f"/{_DATA}/", start + 1)


def _join(shown: str, path: str) -> str:
    path = path.strip("/")
    return f"{shown.rstrip('/')}/{path}" if path else shown
