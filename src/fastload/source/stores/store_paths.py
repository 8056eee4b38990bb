"""The files of a store that a URL or a path names, in canonical order."""

from __future__ import annotations

import glob
import re
from typing import TYPE_CHECKING

from fastload.errors import SourceNotFoundError
from fastload.source.files import NOT_FOUND, FoundFile
from fastload.source.local_paths import FOLDER_MARK, HIDDEN
from fastload.source.stores.hub.hub_paths import HUB, without_commit
from fastload.source.stores.store import HTTP, shown
from fastload.source.table_formats import (
    DELTA_LOG,
    HUDI_LOG,
    METADATA,
    Roots,
    delta_error,
    hudi_error,
    iceberg_error,
    is_iceberg,
    refuse_listed,
)

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
        # A file or directory may have a name that looks like a glob.
        path, directory = path if is_url else path.rstrip("/"), _is_directory(path)
        listed = () if is_url or not directory else await client.ls(kind, path)
        file = None if listed else await client.info(kind, path)
        if file is NOT_FOUND:
            expected = "files that match the glob" if is_glob else "a file or directory"
            raise SourceNotFoundError(f"Expected {expected}, found none - at {shown(kind, path)}")
        if file is not None:
            return [FoundFile(shown(kind, file.path), (), kind, file)]
        listed = listed or await client.ls(kind, path)
        await _refuse_above(client, kind, path)
        refuse_listed(_names_below(listed, path), shown(kind, path))
        found = _below(listed, path, _HIDDEN_NAME)
        if kind == HUB:
            found = _parquet_files(found, path)
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
    """Return the files below a directory that count, with the folders in between."""
    return [
        (file, tuple(name.split("/")[:-1]))
        for file, name in zip(files, _names_below(files, directory), strict=True)
        if not name.endswith(FOLDER_MARK) and (hidden is None or not hidden.search(name))
    ]


def _parquet_files(found: _Found, path: str) -> _Found:
    """Return the Parquet files of a directory of a repository, which holds other files too."""
    files = [each for each in found if each[0].path.lower().endswith(".parquet")]
    if not files:
        repo = without_commit(path).rstrip("/")
        raise SourceNotFoundError(
            "Expected a directory with names that end in .parquet, found none; the Hub keeps a "
            f"Parquet version of many datasets: {HUB}://{repo}@refs/convert/parquet - at "
            f"{shown(HUB, path)}"
        )
    return files


async def _find_glob(client: StoreClient, kind: str, pattern: str) -> _Found:
    """Return the files that match a glob; none if a file or directory has the glob as its name."""
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
    await _refuse_above(client, kind, directory)
    listed = await client.ls(kind, directory)
    own = "/".join(names[fixed:])
    if any(f"{name}/".startswith(f"{own}/") for name in _names_below(listed, directory)):
        return []
    files = _below(listed, directory, hidden)
    matches = re.compile(f"{glob_translate(wanted)}|{glob_translate(f'{wanted}/**')}")
    start = len(directory) + 1 if directory else 0
    found = [each for each in files if matches.match(each[0].path[start:])]
    _refuse_found(found, listed, directory, kind)
    return found


def _names_below(files: Sequence[StoredFile], directory: str) -> list[str]:
    start = len(directory) + 1 if directory else 0
    return [file.path[start:] for file in files]


def _refuse_found(found: _Found, listed: Sequence[StoredFile], directory: str, kind: str) -> None:
    """Raise an error if a file that matches a glob lies in a table that the listing shows."""
    tops = {folders[0] if folders else "" for _, folders in found}
    # Other tables beside the files that match don't matter.
    near = [
        name
        for name in _names_below(listed, directory)
        if "" in tops or name.partition("/")[0] in (*tops, DELTA_LOG, HUDI_LOG, METADATA)
    ]
    refuse_listed(near, shown(kind, directory))


async def _refuse_above(client: StoreClient, kind: str, directory: str) -> None:
    """Raise an error if the directory is a partition or the data of a table."""
    roots = Roots(directory)
    for log, refused in ((DELTA_LOG, delta_error), (HUDI_LOG, hudi_error)):
        if roots.delta and await client.info(kind, f"{roots.delta}/{log}") is None:
            raise refused(shown(kind, roots.delta))
    if roots.iceberg:
        files = await client.ls(kind, f"{roots.iceberg}/{METADATA}")
        if is_iceberg(file.path for file in files):
            raise iceberg_error(shown(kind, roots.iceberg))
