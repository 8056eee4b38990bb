"""Directories that only their user may write to, and how a file appears in one."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import stat
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from fastload.errors import CacheError
from fastload.runtime.user_warnings import warn

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "UNFINISHED",
    "CacheDirectory",
    "cache_home",
    "mark_used",
    "open_directory",
    "open_private",
    "publish",
    "remove_abandoned",
    "remove_abandoned_once",
    "remove_unused_once",
    "try_lock",
    "unlock",
]

UNFINISHED = ".new-"
"""What the names of files begin with that `publish` has not renamed yet."""

# Nobody writes a file for so long.
_ABANDONED_S = 24 * 3600.0
# Files that no process has asked for in so long are removed; their last use is noted once a day.
_UNUSED_S = 30 * 24 * 3600.0
_NOTED_S = 24 * 3600.0
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def open_private(path: Path) -> Path:
    """Make a directory if it is missing, and check that only this user may write to it.

    Raises:
        CacheError: the directory is another user's, or others may write to it. What they put
            there would be read as data.
        OSError: the directory can't be made.
    """
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = os.lstat(path)
    _check_owner(path, status)
    if not stat.S_ISDIR(status.st_mode) or status.st_mode & _OTHERS_WRITE:
        raise CacheError(
            "Expected a directory that only its user may write to, got one with mode "
            f"{stat.filemode(status.st_mode)} - at {path}"
        )
    return path


def open_directory(cache: Path, name: str) -> Path:
    """Make and check a directory in the directory of a cache, which must belong to this user.

    Raises:
        CacheError, OSError: as `open_private`, for either directory.
    """
    cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    _check_owner(cache, os.stat(cache))
    return open_private(cache / name)


def _check_owner(path: Path, status: os.stat_result) -> None:
    if status.st_uid != os.geteuid():
        raise CacheError(
            f"Expected a cache directory of user {os.geteuid()}, got one of user {status.st_uid}: "
            f"name a directory below it, which fastload makes - at {path}"
        )


class CacheDirectory:
    """A directory in $FASTLOAD_CACHE_DIR, else in the user's cache directory.

    Args:
        name: of the directory.
        what: the directory keeps, for the warning.
        instead: what happens where nothing can be kept, for the warning.
        home: the directory to use instead of $FASTLOAD_CACHE_DIR and the user's.

    Attributes:
        path: None if nothing is kept, because there is no such directory or it failed.
    """

    def __init__(self, name: str, what: str, instead: str, home: Path | None = None) -> None:
        named = os.environ.get("FASTLOAD_CACHE_DIR")
        home = home or cache_home()
        self._what = what
        self._instead = instead
        self.path: Path | None = home / name if home else None
        try:
            if self.path:
                open_private(self.path)
        except CacheError as error:
            self.give_up(error)
        except OSError as error:
            # A user who names a directory wants to know that it can't be used.
            self.give_up(error, silent=not named)

    def give_up(self, error: OSError | CacheError, *, silent: bool = False) -> None:
        """Keep nothing from now on, and warn unless `silent`."""
        if not silent:
            if isinstance(error, OSError):
                cause = f"{error.strerror} - at {self.path}"
            else:
                cause = str(error)
            warn(f"Can't keep {self._what}: {cause}; {self._instead}")
        self.path = None


def cache_home() -> Path | None:
    """Return $FASTLOAD_CACHE_DIR, else the user's cache directory, or None if there is none.

    The path is absolute, because the process may change its working directory later.
    """
    named = os.environ.get("FASTLOAD_CACHE_DIR")
    return Path(named).absolute() if named else _user_directory()


@contextlib.contextmanager
def publish(path: Path) -> Iterator[BinaryIO]:
    """Yield a new file that appears at `path` in one step, once the with block has ended.

    If the block raises, the file is removed and `path` stays as it is. Raises OSError.
    """
    descriptor, name = tempfile.mkstemp(prefix=UNFINISHED, dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def remove_abandoned(directory: Path) -> None:
    """Remove the files in a directory that killed processes left unfinished in `publish`."""
    for path in directory.glob(f"{UNFINISHED}*"):
        with contextlib.suppress(OSError):  # its writer may finish it just now
            if path.stat().st_mtime < time.time() - _ABANDONED_S:
                path.unlink()


@functools.cache
def remove_abandoned_once(directory: Path) -> None:
    """Do what `remove_abandoned` does, at the first call of this process for a directory."""
    remove_abandoned(directory)


def mark_used(file: int | Path) -> None:
    """Note that a file is in use, as its time of modification, at most once a day.

    Args:
        file: a descriptor or a path.
    """
    with contextlib.suppress(OSError):  # the file may be gone, or lie on a read-only disk
        if os.stat(file).st_mtime < time.time() - _NOTED_S:
            os.utime(file)


@functools.cache
def remove_unused_once(directory: Path, pattern: str) -> None:
    """Remove files that no process has used for 30 days, at the first call of this process.

    Args:
        directory: where the files are, or their directories.
        pattern: the names of the files, as for `Path.glob`.
    """
    for path in directory.glob(pattern):
        with contextlib.suppress(OSError):  # another process may remove it just now
            if path.stat().st_mtime < time.time() - _UNUSED_S:
                path.unlink()


def try_lock(descriptor: int) -> bool:
    """Try to lock an open file; return False if another process holds the lock.

    Where the file system has no locks, the result is True in every process.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass  # two processes may do the same work twice
    return True


def unlock(descriptor: int) -> None:
    """Release the lock of an open file, and close the file."""
    # A forked child may hold the descriptor, too, so closing it would not release the lock.
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


def _user_directory() -> Path | None:
    named = os.environ.get("XDG_CACHE_HOME", "")
    # The specification has relative paths ignored.
    if named and Path(named).is_absolute():
        return Path(named) / "fastload"
    try:
        return Path.home() / ".cache" / "fastload"
    except RuntimeError:
        return None
