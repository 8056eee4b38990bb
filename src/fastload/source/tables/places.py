"""Where the files of a table may lie, whose metadata may come from someone else.

Metadata names files by paths and URLs. It must not choose which files of this machine, or of
another server, are read as rows.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from fastload.errors import StorageError
from fastload.source.local_paths import url_of
from fastload.source.stores.obstore_options import AZURE, GCS, S3
from fastload.source.tables.table import plain_path

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["check_plain", "is_below", "is_near", "refused"]

_BUCKETS = (S3, GCS)  # schemes of one store, where the user's keys serve every bucket


def is_near(url: str, home: str) -> bool:
    """Return whether a URL lies in the same store as another URL: the bucket may differ."""
    found, own = url_of(url), url_of(home)
    if found is None or own is None:
        return False
    if any(found[0] in schemes and own[0] in schemes for schemes in _BUCKETS):
        return True
    hosts = [each[1].partition("/")[0].lower() for each in (found, own)]
    if found[0] in AZURE and own[0] in AZURE:  # the name of a container, and maybe "@host"
        host, own_host = (each.partition("@")[2] for each in hosts)
        return host in ("", own_host)
    return found[0] == own[0] and hosts[0] == hosts[1]


def is_below(path: str, directories: Iterable[str]) -> bool:
    """Return whether a local path lies below one of some local directories."""
    path = posixpath.normpath(path)
    return any(path.startswith(posixpath.normpath(each).rstrip("/") + "/") for each in directories)


def check_plain(entry: str, table: str) -> None:
    """Raise an error if what the metadata of a table names can't be a file.

    Raises:
        StorageError: the path is empty or has a null byte.
    """
    if not entry or "\0" in entry:
        raise StorageError(
            f"Expected paths of files in the table's metadata, got {entry!r} - at {table}"
        )


def refused(what: str, entry: str, expected: str, table: str) -> StorageError:
    """Make the error for a file that lies where the table must not name files.

    Args:
        what: what kind of file it is, such as "data files".
        entry: the path or URL of the file.
        expected: where the table may name such files.
        table: URL or name of the table.
    """
    place = "" if url_of(plain_path(entry)) else ", a path of this machine"
    return StorageError(f"Expected {what} {expected}, got `{entry}`{place} - at {table}")
