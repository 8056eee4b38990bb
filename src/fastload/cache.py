"""The argument `cache`, and the directory that it names."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fastload.budget import parse_bytes
from fastload.errors import CacheError

if TYPE_CHECKING:
    from fastload.paths import PathLike

__all__ = ["RAW", "Cache", "cache_of", "open_directory"]

RAW = "raw-1"
"""What the directory of byte ranges is called; another number is another format's."""

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


@dataclass(frozen=True, slots=True)
class Cache:
    """Where bytes of remote files are kept on local disk; the `cache` of `FastParquetDataset`.

    All processes of a user on a node share a directory. Damaged entries are dropped and fetched
    anew. When the disk is full, or can't be written to, nothing more is kept, with one warning.

    directory: made if it is not there, for this user alone.
    max_bytes: on disk, as bytes or a size such as "100GB"; what was not used for longest makes
        room. None = as many as there is room for.
    raw: keep the byte ranges that are read, by file and version.

    Raises `TypeError` or `ValueError` when an argument is not what it should be.
    """

    directory: PathLike
    max_bytes: int | str | None = None
    raw: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.directory, str | os.PathLike):
            raise TypeError(f"Expected directory of Cache as a path, got {self.directory!r}")
        if self.max_bytes is not None:
            parse_bytes(self.max_bytes, "max_bytes of Cache")
        if not isinstance(self.raw, bool):
            raise TypeError(f"Expected raw of Cache to be a bool, got {self.raw!r}")

    @property
    def path(self) -> Path:
        """The directory, absolute: worker processes may have another one to start from."""
        return Path(os.path.abspath(os.fspath(self.directory)))

    @property
    def limit_bytes(self) -> int | None:
        """`max_bytes` as a number."""
        return None if self.max_bytes is None else parse_bytes(self.max_bytes)


def cache_of(argument: PathLike | Cache | None) -> Cache | None:
    """The argument `cache` of a dataset. Raises `TypeError` for what is none."""
    if argument is None or isinstance(argument, Cache):
        return argument
    if not isinstance(argument, str | os.PathLike):
        raise TypeError(f"Expected cache as a directory or fastload.Cache, got {argument!r}")
    return Cache(argument)


def open_directory(cache: Cache, name: str) -> Path:
    """A directory in that of the cache, made if need be.

    Raises:
        CacheError: it, or what it lies in, is another user's, or others may write to it: what
            they put there would be read as data.
        OSError: it can't be made.
    """
    top = cache.path
    top.mkdir(mode=0o700, parents=True, exist_ok=True)
    _check_owner(top, os.stat(top))
    own = top / name
    own.mkdir(mode=0o700, exist_ok=True)
    status = os.lstat(own)
    _check_owner(own, status)
    if not stat.S_ISDIR(status.st_mode) or status.st_mode & _OTHERS_WRITE:
        raise CacheError(
            "Expected a directory that only its user may write to, got one with mode "
            f"{stat.filemode(status.st_mode)} - at {own}"
        )
    return own


def _check_owner(path: Path, status: os.stat_result) -> None:
    if status.st_uid != os.geteuid():
        raise CacheError(
            f"Expected a cache directory of user {os.geteuid()}, got one of user {status.st_uid} "
            f"- at {path}"
        )
