"""The argument `cache` of a dataset, and the directory that the argument names."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from fastload.runtime.units import parse_bytes
from fastload.runtime.user_warnings import warn

__all__ = [
    "PREPARED",
    "RAW",
    "Cache",
    "cache_of",
    "tell_once",
    "tiers_of",
]

RAW = "raw-1"
"""The name of the directory of byte ranges; another format has another number."""
PREPARED = "prepared-1"
"""The name of the directory of prepared rows; another format has another number."""


@dataclass(frozen=True, slots=True)
class Cache:
    """A cache on local disk, kept between epochs and runs, for `cache` of `FastParquetDataset`.

    All processes of a user on a node share the directory. Damaged entries are removed and
    fetched again. When the disk is full, or can't be written to, one warning says so, and no
    further entries are kept.

    Example:
        cache = Cache("cache", max_bytes="500GB")
        FastParquetDataset("gs://bucket/train", columns=["f1"], cache=cache)

    Args:
        directory: the directory of the cache; made, for this user alone, if it does not exist.
        max_bytes: limit of the cache on disk, as bytes or a size such as "100GB". The least
            recently used entries are removed to make room. None = no limit but the disk.
        raw: keep the byte ranges that are read from remote files, by file and version.
        prepared: keep the rows after `preprocess`, of remote and local files, as Parquet files. The
            rows are found again by the versions of the files, the columns, the rows that filters
            keep, `verify_crc` of `IO`, and the code of `preprocess` with everything it refers to.
        key: a name for the version of the code in `preprocess`, for code that can't be compared.
            Prepared rows are used as long as `key` stays the same.

    Raises:
        TypeError: an argument has a wrong type.
        ValueError: `directory` is empty, or `max_bytes` is not a positive size.
    """

    directory: str | os.PathLike[str]
    max_bytes: int | str | None = None
    raw: bool = True
    prepared: bool = True
    key: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.directory, str | os.PathLike):
            raise TypeError(f"Expected directory of Cache as a path, got {self.directory!r}")
        if not os.fspath(self.directory):
            raise ValueError("Expected directory of Cache as a path, got an empty str")
        if self.max_bytes is not None:
            parse_bytes(self.max_bytes, "max_bytes of Cache")
        for name, tier in (("raw", self.raw), ("prepared", self.prepared)):
            if not isinstance(tier, bool):
                raise TypeError(f"Expected {name} of Cache to be a bool, got {tier!r}")
        if self.key is not None and not isinstance(self.key, str):
            raise TypeError(f"Expected key of Cache as str, got {self.key!r}")

    @property
    def path(self) -> Path:
        """The absolute path of the directory."""
        return Path(os.path.abspath(os.fspath(self.directory)))

    @property
    def limit_bytes(self) -> int | None:
        """Convert `max_bytes` to a number of bytes; None = no limit."""
        return None if self.max_bytes is None else parse_bytes(self.max_bytes)


def cache_of(argument: str | os.PathLike[str] | Cache | None) -> Cache | None:
    """Convert the argument `cache` of a dataset to a `Cache`, whose directory is absolute.

    The process may change its working directory later, and a worker may have another one.

    Raises:
        TypeError: the argument is neither a path nor a `Cache`.
    """
    if argument is None:
        return None
    if not isinstance(argument, str | os.PathLike | Cache):
        raise TypeError(f"Expected cache as a directory or fastload.Cache, got {argument!r}")
    cache = argument if isinstance(argument, Cache) else Cache(argument)
    return replace(cache, directory=cache.path)


def tiers_of(cache: Cache) -> list[Path]:
    """Return the directories that share `max_bytes`, whether they exist or not."""
    return [cache.path / RAW, cache.path / PREPARED]


_warned: set[Path] = set()


def tell_once(cache: Cache, text: str, *, raises: bool = False) -> None:
    """Warn that a cache can't keep what it was asked to: once a process for each directory.

    Args:
        cache: the cache.
        text: the warning.
        raises: True if a warning that Python's filters turn into an error may be raised. False
            prints such a warning, because the error would end a thread without a message, or a
            pass that can go on.

    Raises:
        UserWarning: Python's filters turn the warning into an error, and `raises` is True.
    """
    if cache.path in _warned:
        return
    try:
        warn(text)
    except UserWarning as error:
        if raises:
            raise
        print(f"{type(error).__name__}: {text}", file=sys.stderr, flush=True)
    _warned.add(cache.path)
