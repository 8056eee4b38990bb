"""Lock of an entry, by which one process at a time writes the entry."""

from __future__ import annotations

import contextlib
import fcntl
import os
from typing import TYPE_CHECKING

from fastload.errors import FastloadError

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["EntryLock", "NoRoomError", "part_of"]

# How often to try again if the directory disappears, because another process prunes it.
_TRIES = 8


class NoRoomError(FastloadError):
    """Raised if a block can't be kept."""


def part_of(entry: str) -> str:
    """Return the name of the file to which an entry is written before the entry appears."""
    return f".{entry}.part"


class EntryLock:
    """The right to write an entry, which one process at a time holds.

    The lock is an flock of the file that is written, so the system releases the lock if the
    process dies.

    Args:
        path: the path of the entry.
        part: the path of the file that is written, and renamed to `path` when it is complete.
        descriptor: the open file `part`.

    Attributes:
        descriptor: the open file that is written, which is empty at first.
    """

    def __init__(self, path: str, part: str, descriptor: int) -> None:
        self._path = path
        self._part = part
        self.descriptor = descriptor
        self._published = False

    @classmethod
    def of(cls, path: str) -> Self | None:
        """Try to lock the entry at `path` for writing.

        Args:
            path: the path of the entry.

        Returns:
            The lock, or None if another process holds the lock or the entry exists.

        Raises:
            OSError: the file can't be opened, locked or truncated.
        """
        folder, name = os.path.split(path)
        part = os.path.join(folder, part_of(name))
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        for _ in range(_TRIES):
            try:
                descriptor = os.open(part, flags, 0o600)
            except FileNotFoundError:
                os.makedirs(folder, mode=0o700, exist_ok=True)
                continue
            lock = cls(path, part, descriptor)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # The process that held the lock may have renamed or removed the file meanwhile.
                status = os.fstat(descriptor)
                mine = os.path.samestat(status, os.lstat(part))
                if mine and not os.path.lexists(path):
                    # A process that died may have left bytes. Only such a file is truncated,
                    # because ext4 writes truncated files to disk as soon as they are closed.
                    if status.st_size:
                        os.ftruncate(descriptor, 0)
                    return lock
            except BlockingIOError:
                os.close(descriptor)
                return None
            except FileNotFoundError:
                mine = False
            except OSError:
                os.close(descriptor)
                raise
            if mine:
                with lock:  # the entry exists
                    return None
            os.close(descriptor)
        raise FileNotFoundError(None, "the directory disappears", folder)

    def publish(self) -> None:
        """Rename the file to the entry. Raise OSError if that fails."""
        os.rename(self._part, self._path)
        self._published = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        """Release the lock, and remove the file if it was not published."""
        if not self._published:
            with contextlib.suppress(OSError):
                os.unlink(self._part)
        # A forked child may hold the descriptor, too, so closing it would not release the lock.
        with contextlib.suppress(OSError):
            fcntl.flock(self.descriptor, fcntl.LOCK_UN)
        os.close(self.descriptor)
