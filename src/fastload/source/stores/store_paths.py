"""The files of a store that a URL or a path names, in canonical order."""

from __future__ import annotations

import glob
import re
from typing import TYPE_CHECKING

from fastload.errors import SourceNotFoundError
from fastload.source.files import NOT_FOUND, FoundFile
from fastload.source.local_paths import HIDDEN
from fastload.source.stores.store import HTTP, shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastload.source.files import StoredFile
    from fastload.source.stores.client import StoreClient

__all__ = ["find_remote"]


async def find_remote(client: StoreClient, kind: str, path: str) -> list[FoundFile]:
    """Return the files of a path in a store, at least one, by the same rules as for local paths.

    Args:
        client: client that reads the store.
        kind: kind of the files.
        path: a file, a directory or a glob in the store.

    Raises:
        SourceNotFoundError: no file was found; the error names the path.
        StorageError: the store could not be read.
    """
    is_url = kind in HTTP  # web servers have no listings
    is_glob = glob.has_magic(path) and not is_url
    found = await _find_glob(client, kind, path) if is_glob else []
    if not found:
        # A glob that matches nothing may be the name of a file.
        path, directory = path if is_url else path.rstrip("/"), _is_directory(path)
        listed = () if is_url or not directory else await client.ls(kind, path)
        file = None if listed else await client.info(kind, path)
        if file is NOT_FOUND:
            expected = "files that match the glob" if is_glob else "a file or directory"
            raise SourceNotFoundError(f"Expected {expected}, found none - at {shown(kind, path)}")
        if file is not None:
            return [FoundFile(shown(kind, file.path), (), kind, file)]
        listed = listed or await client.ls(kind, path)
        found = _below(listed, path, _HIDDEN_NAME)
        if not found:
            raise SourceNotFoundError(
                "Expected a directory with files (names that start with _ or . don't count), "
                f"found none - at {shown(kind, path)}"
            )
    return [
        FoundFile(shown(kind, file.path), folders, kind, file)
        for file, folders in sorted(found, key=lambda each: each[0].path)
    ]


def _is_directory(path: str) -> bool:
    """Return whether the name of a path suggests a directory, so that it is listed first."""
    return path.endswith("/") or "." not in path.rpartition("/")[2]


_Found = list[tuple["StoredFile", tuple[str, ...]]]
_HIDDEN_NAME = re.compile(r"(?:^|/)[_.]")


def _below(files: Sequence[StoredFile], directory: str, hidden: re.Pattern[str] | None) -> _Found:
    """Return the files below a directory that are not hidden, with the folders in between."""
    start = len(directory) + 1 if directory else 0
    return [
        (file, tuple(file.path[start:].split("/")[:-1]))
        for file in files
        if hidden is None or not hidden.search(file.path[start:])
    ]


async def _find_glob(client: StoreClient, kind: str, pattern: str) -> _Found:
    from fsspec.utils import glob_translate

    # Local globs take `**` as `*` where it is not a whole name; fsspec would raise an error.
    names = pattern.rstrip("/").split("/")
    parts = [name if name == "**" else re.sub(r"\*+", "*", name) for name in names]
    fixed = next(i for i, part in enumerate(parts) if glob.has_magic(part))
    directory, wanted = "/".join(parts[:fixed]), "/".join(parts[fixed:])
    # A pattern that spells out the mark of hidden names matches hidden files.
    marks = [m for m in HIDDEN if not any(part.startswith(m) for part in parts[fixed:])]
    hidden = re.compile(rf"(?:^|/)[{re.escape(''.join(marks))}]") if marks else None
    # All files below are listed, because the pattern may match a directory.
    files = _below(await client.ls(kind, directory), directory, hidden)
    matches = re.compile(f"{glob_translate(wanted)}|{glob_translate(f'{wanted}/**')}")
    start = len(directory) + 1 if directory else 0
    return [each for each in files if matches.match(each[0].path[start:])]
