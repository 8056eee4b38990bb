"""Blocks of decoded rows on local disk, shared by the processes of a node."""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING

import pyarrow as pa

from fastload.engine.cache.claim import BlockClaim, NoRoomError, part_of
from fastload.runtime.disk.cache import DECODED
from fastload.runtime.disk.entries import describe
from fastload.runtime.disk.tier import CacheTier
from fastload.runtime.native import core
from fastload.source.store_paths import shown

if TYPE_CHECKING:
    from fastload.source.files import SourceFile

__all__ = ["DecodedTier"]

# An entry counts as used now when it is opened, unless it does so since less than this.
_USED_S = 10.0


class DecodedTier(CacheTier):
    """The blocks of one cache, as `CacheTier` keeps them."""

    _name = DECODED
    _instead = "read and decoded"

    def path(self, name: str) -> str:
        """Of an entry."""
        return os.path.join(self.directory, name)

    def there(self, name: str) -> bool:
        """Whether there is such an entry, which counts as used now then."""
        path = self.path(name)
        try:
            if time.time() - os.stat(path).st_mtime > _USED_S:
                os.utime(path)
        except FileNotFoundError:
            return False
        except OSError:
            pass  # of a directory that can be read alone
        return True

    def part_written_ns(self, name: str) -> int:
        """When whoever has claimed an entry wrote last, in ns since the epoch; -1 = nobody has."""
        folder, entry = os.path.split(self.path(name))
        try:
            return os.stat(os.path.join(folder, part_of(entry))).st_mtime_ns
        except OSError:
            return -1

    def schema(self, name: str) -> pa.Schema | None:
        """The schema of an entry; None if it is not there, or damaged: then it is removed."""
        if not core.check_block(self.path(name), name):
            return None
        with contextlib.suppress(OSError), pa.memory_map(self.path(name)) as file:
            return pa.ipc.open_file(file).schema
        return None

    def file_bytes(self, name: str) -> int | None:
        """Of an entry; None if it is not there."""
        with contextlib.suppress(OSError):
            return os.stat(self.path(name)).st_size
        return None

    def remove(self, name: str) -> None:
        """An entry that is not what it should be."""
        with contextlib.suppress(OSError):
            os.unlink(self.path(name))

    def claim(self, name: str) -> BlockClaim | None:
        """The right to fill an entry; None if another has it, or it is there.

        Raises:
            NoRoomError: nothing can be written.
        """
        if not self.writes:
            raise NoRoomError("Expected a cache that can be written to")
        try:
            return BlockClaim.of(self.path(name))
        except OSError as error:
            self.give_up(f"{error.strerror} - at {self.directory}")
            raise NoRoomError(str(error)) from error

    def describe(self, name: str, file: SourceFile) -> None:
        """Says what file an entry is of, for people to read."""
        folder = os.path.dirname(name)
        if self._is_first(folder):
            stored = file.stored
            url = file.path if stored is None else shown(file.kind, stored.path)
            version = str(file.mtime_ns) if stored is None else stored.version
            about = {"url": url, "version": version, "size": file.size}
            with contextlib.suppress(OSError):
                describe(self.directory, folder, about)

    def is_new(self, name: str) -> bool:
        """Whether no entry of an entry's directory was written by this process yet."""
        return os.path.dirname(name) not in self._described

    def take_room(self, data_bytes: int, claim: BlockClaim, *, first: bool) -> bool:
        """Whether there is room for what is about to be written, which it makes if need be.

        first: it is the first entry of its directory. Raises OSError.
        """
        return self._quota.take(data_bytes, claim.descriptor, first=first)
