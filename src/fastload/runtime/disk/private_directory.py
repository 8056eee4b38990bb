"""The directory of what is kept between runs, and how a file appears there."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastload.runtime.user_warnings import warn

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["CacheDirectory", "cache_home", "publish", "try_lock"]

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


class CacheDirectory:
    """A directory of $FASTLOAD_CACHE_DIR, else of the user's cache directory.

    Args:
        name: of it there.
        what: it keeps, and `instead` what happens where it can't, for the warning.
        home: in place of those directories.

    Attributes:
        path: None where nothing is kept: there is none, or it failed.
    """

    def __init__(self, name: str, what: str, instead: str, home: Path | None = None) -> None:
        named = os.environ.get("FASTLOAD_CACHE_DIR")
        home = home or cache_home()
        self._what = what
        self._instead = instead
        self.path: Path | None = home / name if home else None
        try:
            if self.path:
                self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._check_owner(self.path)
        except OSError as error:
            # Who names a directory wants to know that it can't be used.
            self.give_up(error, silent=not named)

    def _check_owner(self, path: Path) -> None:
        """What others put there would be believed."""
        status = os.lstat(path)
        alone = stat.S_ISDIR(status.st_mode) and not status.st_mode & _OTHERS_WRITE
        if status.st_uid != os.geteuid() or not alone:
            reason = "Expected a directory that only its user may write to"
            self.give_up(PermissionError(errno.EPERM, reason))

    def give_up(self, error: OSError, *, silent: bool = False) -> None:
        """Keep nothing from now on, and warn unless `silent`."""
        if not silent:
            warn(f"Can't keep {self._what}: {error.strerror} - at {self.path}; {self._instead}")
        self.path = None


def cache_home() -> Path | None:
    """$FASTLOAD_CACHE_DIR, else the directory of this user's caches; None if there is none."""
    named = os.environ.get("FASTLOAD_CACHE_DIR")
    return Path(named) if named else _user_directory()


def publish(path: Path, parts: Iterable[Any]) -> None:
    """Has a file of those bytes appear in one step. Raises OSError."""
    descriptor, name = tempfile.mkstemp(prefix=".new-", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            for part in parts:
                file.write(part)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def try_lock(descriptor: int) -> bool:
    """Return whether an open file is this process's now; it is too where files have no locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass  # to do the same work twice is allowed
    return True


def _user_directory() -> Path | None:
    named = os.environ.get("XDG_CACHE_HOME", "")
    # The specification has relative paths ignored.
    if named and Path(named).is_absolute():
        return Path(named) / "fastload"
    try:
        return Path.home() / ".cache" / "fastload"
    except RuntimeError:
        return None
