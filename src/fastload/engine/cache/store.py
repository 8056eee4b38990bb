"""Blocks of decoded rows on local disk, shared by the processes of a node."""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING

import pyarrow as pa

from fastload.engine.cache.entry_lock import EntryLock, NoRoomError, part_of
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
    """The blocks of one cache, as `CacheTier` keeps them."""

    _name = DECODED
    _instead = "read and decoded"

    def path(self, name: str) -> str:
        """Return the path of an entry."""
        return os.path.join(self.directory, name)

    def touch_if_exists(self, name: str) -> bool:
        """Return whether the entry exists, and mark the entry as just used (for LRU eviction)."""
        path = self.path(name)
        try:
            if time.time() - os.stat(path).st_mtime > _USED_S:
                os.utime(path)
        except FileNotFoundError:
            return False
        except OSError:
            pass  # the directory is read-only, or opening the entry says what is wrong
        return True

    def check_readable(self, name: str) -> None:
        """Raise NoRoomError if an entry exists but can't be opened."""
        with contextlib.suppress(FileNotFoundError):
            try:
                os.close(os.open(self.path(name), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW))
            except FileNotFoundError:
                raise
            except OSError as error:
                raise NoRoomError(f"{error.strerror} - at {self.path(name)}") from error

    def part_written_ns(self, name: str) -> int:
        """Return when the part of an entry was last written to, in ns since the epoch.

        -1 = no process writes the entry.
        """
        folder, entry = os.path.split(self.path(name))
        try:
            return os.stat(os.path.join(folder, part_of(entry))).st_mtime_ns
        except OSError:
            return -1

    def schema(self, name: str) -> tuple[pa.Schema, int] | None:
        """Return the schema of an entry and the bytes of its file.

        None if the entry is absent, or damaged: then it is removed.
        """
        path = self.path(name)
        if not self.touch_if_exists(name) or not core.check_block(path, name):
            return None
        with contextlib.suppress(OSError), pa.memory_map(path) as file:
            return pa.ipc.open_file(file).schema, file.size()
        return None

    def remove(self, name: str) -> None:
        """Remove an entry that is damaged."""
        with contextlib.suppress(OSError):
            os.unlink(self.path(name))

    def lock(self, name: str) -> EntryLock | None:
        """Lock an entry for writing; None if another process does, or the entry exists.

        Raises:
            NoRoomError: nothing can be written.
        """
        if not self.writes:
            raise NoRoomError("Expected a cache that can be written to")
        try:
            return EntryLock.of(self.path(name))
        except OSError as error:
            self.give_up(f"{error.strerror} - at {self.directory}")
            raise NoRoomError(str(error)) from error

    def describe(self, name: str, file: SourceFile) -> None:
        """Write beside an entry which file the entry is of, for people to read."""
        folder = os.path.dirname(name)
        if self._is_first(folder):
            stored = file.stored
            url = file.path if stored is None else shown(file.kind, stored.path)
            version = str(file.mtime_ns) if stored is None else stored.version
            about = {"url": url, "version": version, "size": file.size}
            with contextlib.suppress(OSError):
                describe(self.directory, folder, about)

    def is_new(self, name: str) -> bool:
        """Return whether this process has written no entry of the entry's directory yet."""
        return os.path.dirname(name) not in self._described

    def take_room(self, data_bytes: int, lock: EntryLock, *, first: bool) -> bool:
        """Return whether there is room for bytes about to be written, which is made if need be.

        first: they are of the first entry of their directory. Raises OSError.
        """
        return self._quota.take(data_bytes, lock.descriptor, first=first)
