"""Files of a source: as they were found, and as they were when their footers were read."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fastload.runtime.native import core

__all__ = ["NOT_FOUND", "FoundFile", "Keys", "PathLike", "SourceFile", "StoredFile"]

PathLike = str | os.PathLike[str]

Keys = tuple[tuple[str, str | None], ...]
"""The keys of one file with their values, outermost directory first; None = null."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file as a store lists it.

    path: in the store, such as "bucket/name".
    size: bytes.
    version: what changes when the file does (a generation, an ETag, a time); "" = unknown.
    """

    path: str
    size: int
    version: str = ""


NOT_FOUND = StoredFile("", -1)
"""In place of a file that is not there."""


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file that a source stands for.

    folders: the names of the directories between the directory given and the file, outermost
        first; for a glob, from its first wildcard on. () for a file given by itself.
    kind: of its store, and `stored` what that says of it; none for a local file.
    """

    path: str
    folders: tuple[str, ...] = ()
    kind: str = ""
    stored: StoredFile | None = None


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file as it was when its footer was read.

    path: as given or found, to open and to show.
    size: bytes.
    mtime_ns: modification time in ns since the epoch; with `size` it tells a later change. -1
        of a file in a store.
    digest: of the footer's bytes, 16 bytes.
    keys: the hive keys in the names of its directories, with their values.
    name: its path below the directory given, or from the first wildcard of a glob on, with
        "/"; of a file given by itself its name without directories.
    kind: of the store that it lies in, and `stored` what that says of it; none of a local file.
    """

    path: str
    size: int
    mtime_ns: int
    footer: core.Footer
    digest: bytes
    keys: Keys = ()
    name: str = ""
    kind: str = ""
    stored: StoredFile | None = None
