"""The right to fill an entry of the decoded tier."""

from __future__ import annotations

import contextlib
import fcntl
import os
from typing import TYPE_CHECKING

from fastload.errors import FastloadError

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["BlockClaim", "NoRoomError", "part_of"]

# Directories that disappear between two steps do so because another process prunes them.
_TRIES = 8


class NoRoomError(FastloadError):
    """A block can't be kept."""


def part_of(entry: str) -> str:
    """The name of the file that an entry of a name is written to."""
    return f".{entry}.part"


class BlockClaim:
    """The right to fill an entry, held by one of all processes at a time.

    It is a lock of the kernel's on the file that is written to, which a process that dies gives up.

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
        """That to the entry of a path; None if another has it, or it is there. Raises OSError."""
        folder, name = os.path.split(path)
        part = os.path.join(folder, part_of(name))
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        for _ in range(_TRIES):
            try:
                descriptor = os.open(part, flags, 0o600)
            except FileNotFoundError:
                os.makedirs(folder, mode=0o700, exist_ok=True)
                continue
            claim = cls(path, part, descriptor)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # Who had it may have renamed or removed the file meanwhile.
                status = os.fstat(descriptor)
                mine = os.path.samestat(status, os.lstat(part))
                if mine and not os.path.lexists(path):
                    # What a process that died has left. ext4 begins to write a file that was
                    # truncated to disk as soon as it is closed.
                    if status.st_size:
                        os.ftruncate(descriptor, 0)
                    return claim
            except BlockingIOError:
                os.close(descriptor)
                return None
            except FileNotFoundError:
                mine = False
            except OSError:
                os.close(descriptor)
                raise
            if mine:
                with claim:  # the entry is there
                    return None
            os.close(descriptor)
        raise FileNotFoundError(None, "the directory disappears", folder)

    def publish(self) -> None:
        """Has the entry appear. Raises OSError."""
        os.rename(self._part, self._path)
        self._published = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        """Gives it up."""
        if not self._published:
            with contextlib.suppress(OSError):
                os.unlink(self._part)
        # A fork's child may hold the descriptor, too.
        with contextlib.suppress(OSError):
            fcntl.flock(self.descriptor, fcntl.LOCK_UN)
        os.close(self.descriptor)
