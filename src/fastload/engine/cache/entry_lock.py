"""The lock of an entry: one of all processes writes the entry."""

from __future__ import annotations

import contextlib
import fcntl
import os
from typing import TYPE_CHECKING

from fastload.errors import FastloadError

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["EntryLock", "NoRoomError", "part_of"]

# Directories that disappear between two steps do so because another process prunes them.
_TRIES = 8


class NoRoomError(FastloadError):
    """A block can't be kept."""


def part_of(entry: str) -> str:
    """Return the name of the file to which an entry is written before the entry appears."""
    return f".{entry}.part"


class EntryLock:
    """The right to write an entry, held by one of all processes at a time.

    The kernel holds the lock on the file that is written to, so a process that dies gives the
    lock up.

    Attributes:
        descriptor: of that file, which is empty at first.
    """

    def __init__(self, path: str, part: str, descriptor: int) -> None:
        self._path = path
        self._part = part
        self.descriptor = descriptor
        self._published = False

    @classmethod
    def of(cls, path: str) -> Self | None:
        """Try to lock the entry at `path` for writing.

        Returns None if another process holds the lock or the entry exists. Raises OSError.
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
                    # A process that died has left bytes. ext4 begins to write a file that was
                    # truncated to disk as soon as the file is closed, so a new one is not.
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
        """Make the entry appear. Raises OSError."""
        os.rename(self._part, self._path)
        self._published = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        """Give the lock up, and remove an entry that was not published."""
        if not self._published:
            with contextlib.suppress(OSError):
                os.unlink(self._part)
        # A fork's child may hold the descriptor, too.
        with contextlib.suppress(OSError):
            fcntl.flock(self.descriptor, fcntl.LOCK_UN)
        os.close(self.descriptor)
