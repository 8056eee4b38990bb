"""The argument `cache`, and the directory that it names."""

from __future__ import annotations

import contextlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from fastload.errors import CacheError
from fastload.runtime.sizes import parse_bytes
from fastload.runtime.user_warnings import warn

__all__ = [
    "DECODED",
    "RAW",
    "Cache",
    "cache_of",
    "open_directory",
    "tell_once",
    "tiers_of",
]

RAW = "raw-1"
"""What the directory of byte ranges is called; another number is another format's."""
DECODED = "decoded-1"
"""The name of the directory of decoded row groups."""

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


@dataclass(frozen=True, slots=True)
class Cache:
    """What is kept on local disk between epochs and runs; the `cache` of `FastParquetDataset`.

    All processes of a user on a node share a directory. Damaged entries are dropped and fetched
    anew. When the disk is full, or can't be written to, nothing more is kept, with one warning.

    directory: made if it is not there, for this user alone.
    max_bytes: on disk, as bytes or a size such as "100GB"; what was not used for longest makes
        room. None = as many as there is room for.
    raw: keep the byte ranges that are read of remote files, by file and version.
    decoded: keep blocks of the rows that `preprocess` has made of row groups, by the files'
        versions, the columns, the rows that filters keep, and the code of `preprocess` with all
        that it refers to. They are Arrow IPC files. Of local files, too.
    version: says that the code of the functions in `preprocess` is the same as long as this is,
        where it can't be told.

    Raises `TypeError` or `ValueError` when an argument is not what it should be.
    """

    directory: str | os.PathLike[str]
    max_bytes: int | str | None = None
    raw: bool = True
    decoded: bool = True
    version: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.directory, str | os.PathLike):
            raise TypeError(f"Expected directory of Cache as a path, got {self.directory!r}")
        if self.max_bytes is not None:
            parse_bytes(self.max_bytes, "max_bytes of Cache")
        for name, tier in (("raw", self.raw), ("decoded", self.decoded)):
            if not isinstance(tier, bool):
                raise TypeError(f"Expected {name} of Cache to be a bool, got {tier!r}")
        if self.version is not None and not isinstance(self.version, str):
            raise TypeError(f"Expected version of Cache as str, got {self.version!r}")

    @property
    def path(self) -> Path:
        """The directory, absolute: worker processes may have another one to start from."""
        return Path(os.path.abspath(os.fspath(self.directory)))

    @property
    def limit_bytes(self) -> int | None:
        """`max_bytes` as a number."""
        return None if self.max_bytes is None else parse_bytes(self.max_bytes)


def cache_of(argument: str | os.PathLike[str] | Cache | None) -> Cache | None:
    """The argument `cache` of a dataset. Raises `TypeError` for what is none."""
    if argument is None or isinstance(argument, Cache):
        return argument
    if not isinstance(argument, str | os.PathLike):
        raise TypeError(f"Expected cache as a directory or fastload.Cache, got {argument!r}")
    return Cache(argument)


def tiers_of(cache: Cache) -> list[Path]:
    """The directories that share `max_bytes`, those that are not there too."""
    return [cache.path / RAW, cache.path / DECODED]


_told: set[Path] = set()


def tell_once(cache: Cache, text: str) -> None:
    """Warns that less is kept than was asked for: once in a process for each directory."""
    if cache.path in _told:
        return
    _told.add(cache.path)
    # Raised as an error it would be one of a thread that nobody looks at.
    with contextlib.suppress(UserWarning):
        warn(text)


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
