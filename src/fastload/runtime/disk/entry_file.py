"""How one process at a time writes an entry of a cache, which appears as a whole."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from typing import TYPE_CHECKING, BinaryIO

from fastload.runtime.disk.private_directory import unlock

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["EntryFile", "is_entry"]

# How often to try again if the directory disappears, because another process prunes it.
_TRIES = 8


def is_entry(path: str) -> bool:
    """Return True if an entry is there. Remove whatever else has its name: a link, a pipe."""
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return False
    if stat.S_ISREG(mode):
        return True
    with contextlib.suppress(OSError):
        os.unlink(path)
    return False


class EntryFile:
    """The right to write one entry, which one process at a time holds, and the entry's file.

    The right is an flock of the file that is written, so the system takes the right back if the
    process dies. The entry appears as a whole, when `publish` renames the file.

    Args:
        path: the path of the entry.
        descriptor: the open, locked and empty file that is written.
    """

    def __init__(self, path: str, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor
        self._published = False

    @classmethod
    def claim(cls, path: str) -> Self | None:
        """Try to get the right to write an entry.

        Args:
            path: the path of the entry. Its directory is made if it is missing.

        Returns:
            The file, or None if another process has the right or the entry exists.

        Raises:
            OSError: the file can't be opened, locked or truncated.
        """
        part = _part_of(path)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        for _ in range(_TRIES):
            try:
                descriptor = os.open(part, flags, 0o600)
            except FileNotFoundError:
                os.makedirs(os.path.dirname(part), mode=0o700, exist_ok=True)
                continue
            with contextlib.ExitStack() as stack:
                stack.callback(os.close, descriptor)
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    mine = os.path.samestat(os.fstat(descriptor), os.lstat(part))
                except BlockingIOError:
                    return None
                except FileNotFoundError:
                    mine = False
                if not mine:
                    continue  # the process that held the lock has renamed or removed the file
                if is_entry(path):
                    os.unlink(part)
                    return None
                _empty(descriptor)  # after a process that died
                stack.pop_all()
                return cls(path, descriptor)
        raise FileNotFoundError(None, "the directory disappears", os.path.dirname(part))

    def opened(self) -> BinaryIO:
        """Return the file, empty and open for writing. Closing it keeps the right."""
        _empty(self._descriptor)  # after a try that failed
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        return os.fdopen(os.dup(self._descriptor), "wb")

    def beat(self) -> None:
        """Tell other processes that this one goes on."""
        with contextlib.suppress(OSError):
            os.utime(self._descriptor)

    @staticmethod
    def beat_of(path: str) -> int:
        """Return when the process that writes an entry told last that it goes on, in ns."""
        try:
            return os.stat(_part_of(path)).st_mtime_ns
        except OSError:
            return -1

    def publish(self) -> None:
        """Let the entry appear. Raises OSError."""
        os.rename(_part_of(self._path), self._path)
        self._published = True

    def close(self) -> None:
        """Give the right back, and remove the file if it was not published."""
        if not self._published:
            with contextlib.suppress(OSError):
                os.unlink(_part_of(self._path))
        unlock(self._descriptor)


def _empty(descriptor: int) -> None:
    # ext4 writes a file that was truncated to disk as soon as the file is closed.
    if os.fstat(descriptor).st_size:
        os.ftruncate(descriptor, 0)


def _part_of(path: str) -> str:
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.part")
