"""The files of a source, as they were found, and as they were when their footers were read."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastload.runtime.native import core

__all__ = [
    "NOT_FOUND",
    "Constants",
    "DeleteFile",
    "FoundFile",
    "HiveKeys",
    "PathLike",
    "SourceFile",
    "StoredFile",
]

PathLike = str | os.PathLike[str]

HiveKeys = tuple[tuple[str, str | None], ...]
"""The Hive keys of one file with their values, outermost directory first; None = null."""

Constants = tuple[tuple[tuple[str, ...], Any], ...]
"""Paths of columns with the value that all rows of one file have, as an Arrow scalar."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file as a store lists it.

    Attributes:
        path: path in the store, such as "bucket/name".
        size: bytes of the file.
        version: a text that changes when the file does (a generation, an ETag, a time); "" =
            unknown.
    """

    path: str
    size: int
    version: str = ""


NOT_FOUND = StoredFile("", -1)
"""The stored file that stands for a file that does not exist."""


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file that was found for a path, directory or glob of a source.

    Attributes:
        path: path or URL of the file, to open and to show.
        folders: names of the directories between the directory of the source and the file,
            outermost first; for a glob, the directories from the first wildcard on. () for a
            file that the source names itself.
        kind: kind of the store that holds the file, such as "gs"; "" for a local file.
        stored: the file as its store lists it; None for a local file.
    """

    path: str
    folders: tuple[str, ...] = ()
    kind: str = ""
    stored: StoredFile | None = None


@dataclass(frozen=True, slots=True)
class DeleteFile:
    """A file of an Iceberg table that lists deleted rows of data files.

    Attributes:
        path: path or URL of the file.
        equal: paths of the columns whose values name the deleted rows; () = the file lists
            positions.
        vector: the file is a Puffin file of deletion vectors instead of a Parquet file.
    """

    path: str
    equal: tuple[tuple[str, ...], ...] = ()
    vector: bool = False


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file as it was when its footer was read.

    Attributes:
        path: path or URL of the file, to open and to show.
        size: bytes of the file.
        mtime_ns: modification time in ns since 1970, which shows with `size` whether the file
            has changed since; -1 for a file in a store.
        footer: the parsed footer.
        digest: 16 bytes, the digest of the footer's bytes.
        keys: Hive keys in the names of the file's directories, with their values.
        name: path of the file with "/", below the directory of the source or from the first
            wildcard of a glob on; for a file that the source names itself, the name without
            directories.
        kind: kind of the store that holds the file, such as "gs"; "" for a local file.
        stored: the file as its store lists it; None for a local file.
        inode: inode of a local file, which shows whether the file was replaced; 0 = unknown.
        constants: values of columns that the file lacks, as the metadata of its table has them.
        uri: path of the file as its table's lists of deleted rows name it; "" without such lists.
        deletes: files of the table that list deleted rows of this file.
    """

    path: str
    size: int
    mtime_ns: int
    footer: core.Footer
    digest: bytes
    keys: HiveKeys = ()
    name: str = ""
    kind: str = ""
    stored: StoredFile | None = None
    inode: int = 0
    constants: Constants = ()
    uri: str = ""
    deletes: tuple[DeleteFile, ...] = ()

    @property
    def for_core(self) -> tuple[bytes, int, int, core.Footer]:
        """The file as the core takes it: path, modification time, inode and footer."""
        return os.fsencode(self.path), self.mtime_ns, self.inode, self.footer
