"""Store of blocks on local disk, which the processes of a node share."""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING

import pyarrow as pa

from fastload.engine.cache.arrow_format import UncacheableError
from fastload.runtime.disk.cache import DECODED
from fastload.runtime.disk.entries import describe
from fastload.runtime.disk.tier import CacheTier
from fastload.runtime.native import core
from fastload.source.stores.store import shown

if TYPE_CHECKING:
    from fastload.source.files import SourceFile

__all__ = ["BlockStore"]

# An entry that is opened is marked as just used, unless its mark is younger than this.
_USED_S = 10.0


class BlockStore(CacheTier):
    """The blocks of one cache: the decoded tier."""

    _name = DECODED
    _instead = "read and decoded"

    def path(self, name: str) -> str:
        """Return the path of an entry."""
        return os.path.join(self.directory, name)

    def part_path(self, name: str) -> str:
        """Return the path of the file that becomes an entry once the file is complete."""
        folder, entry = os.path.split(self.path(name))
        return os.path.join(folder, f".{entry}.part")

    def touch_if_exists(self, name: str) -> bool:
        """Return whether the entry exists, and mark the entry as just used (for LRU eviction)."""
        path = self.path(name)
        try:
            if time.time() - os.stat(path).st_mtime > _USED_S:
                os.utime(path)
        except FileNotFoundError:
            return False
        except OSError:
            pass  # the directory is read-only, or opening the entry raises the error
        return True

    def why_unusable(self, name: str) -> str:
        """Return why an entry that exists can't be used, for a message."""
        path = self.path(name)
        try:
            os.close(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW))
        except OSError as error:
            return f"{error.strerror} - at {path}"
        return f"Expected a readable block, got a damaged one - at {path}"

    def part_written_ns(self, name: str) -> int:
        """Return the time of the last write to an entry that is not published yet.

        Returns:
            The time in ns since the epoch, or -1 if no process writes the entry.
        """
        try:
            return os.stat(self.part_path(name)).st_mtime_ns
        except OSError:
            return -1

    def schema(self, name: str) -> tuple[pa.Schema, int] | None:
        """Return the schema of an entry and the bytes of the entry's file.

        Returns:
            The schema and the bytes, or None if the entry is absent or damaged.
        """
        path = self.path(name)
        if not self.touch_if_exists(name) or not core.check_block(path, name):
            return None
        with contextlib.suppress(OSError), pa.memory_map(path) as file:
            return pa.ipc.open_file(file).schema, file.size()
        return None

    def remove(self, name: str) -> None:
        """Remove a damaged entry. Errors are ignored."""
        with contextlib.suppress(OSError):
            os.unlink(self.path(name))

    def describe(self, name: str, file: SourceFile) -> None:
        """Write a description of an entry's file next to the entry, for people to read.

        Args:
            name: the name of the entry.
            file: the file whose rows the entry holds.
        """
        folder = os.path.dirname(name)
        if self._is_first(folder):
            stored = file.stored
            url = file.path if stored is None else shown(file.kind, stored.path)
            version = str(file.mtime_ns) if stored is None else stored.version
            about = {"url": url, "version": version, "size": file.size}
            with contextlib.suppress(OSError):
                describe(self.directory, folder, about)

    def is_new(self, name: str) -> bool:
        """Return True if this process has described no file in the entry's directory yet."""
        return os.path.dirname(name) not in self._described

    def take_room(self, data_bytes: int, descriptor: int, *, first: bool = False) -> None:
        """Make room for bytes that are about to be written, by removing old entries if necessary.

        Args:
            data_bytes: the number of bytes.
            descriptor: the file to which the bytes are written.
            first: the entry is the first one of its directory.

        Raises:
            UncacheableError: `max_bytes` leave no room.
            OSError: the system can't lock or extend a file.
        """
        if not self._quota.take(data_bytes, descriptor, first=first):
            raise UncacheableError("max_bytes leave no room for a row group beside the ones in use")
