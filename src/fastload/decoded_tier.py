"""Blocks of decoded rows on local disk, shared by the processes of a node."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from fastload._native import core
from fastload.cache import DECODED
from fastload.cache_entries import describe
from fastload.cache_tier import CacheTier
from fastload.errors import FastloadError
from fastload.remote_paths import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from typing_extensions import Self

    from fastload.source import SourceFile

__all__ = ["BlockClaim", "DecodedTier", "NoRoomError"]

_T = TypeVar("_T")

# An entry counts as used now when it is opened, unless it does so since less than this.
_USED_S = 10.0
# Of a file beside its schema and values: heads of messages, and padding.
_MORE_BYTES = 4096
# Directories that disappear between two steps do so because another process prunes them.
_TRIES = 8


class NoRoomError(FastloadError):
    """A block can't be kept."""


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

    def part_bytes(self, name: str) -> int:
        """Bytes that whoever has claimed an entry has written; -1 if nobody has."""
        folder, entry = os.path.split(self.path(name))
        try:
            return os.stat(os.path.join(folder, _part_of(entry))).st_size
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
            return _claimed(self.path(name))
        except OSError as error:
            self.give_up(f"{error.strerror} - at {self.directory}")
            raise NoRoomError(str(error)) from error

    def fill(
        self, claim: BlockClaim, name: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]
    ) -> int:
        """Writes an entry, which appears at once or not at all, and gives the claim up.

        Returns:
            Its checksum.

        Raises what `batches` do, too.

        Raises:
            NoRoomError: it can't be written.
        """
        with claim:
            try:
                writer = core.DecodedWriter(claim.descriptor, name, schema)
                # The schema is in the footer, too.
                first = os.path.dirname(name) not in self._described
                self._take_room(2 * schema.serialize().size + _MORE_BYTES, first=first)
                for batch in batches:
                    self._take_room(batch.nbytes)
                    self._write(partial(writer.add, batch))
                checksum = self._write(writer.finish)
                self._write(claim.publish)
            except NoRoomError as error:
                self.give_up(str(error))
                raise
        return checksum

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

    def _take_room(self, data_bytes: int, *, first: bool = False) -> None:
        try:
            if not self._quota.take(data_bytes, first=first):
                raise NoRoomError("max_bytes leave no room for a row group beside those in use")
        except OSError as error:
            raise NoRoomError(f"{error.strerror} - at {self.directory}") from error

    def _write(self, work: Callable[[], _T]) -> _T:
        try:
            return work()
        except (FastloadError, OSError) as error:
            raise NoRoomError(f"{error} - at {self.directory}") from error


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


def _part_of(entry: str) -> str:
    return f".{entry}.part"


def _claimed(path: str) -> BlockClaim | None:
    folder, name = os.path.split(path)
    part = os.path.join(folder, _part_of(name))
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    for _ in range(_TRIES):
        try:
            descriptor = os.open(part, flags, 0o600)
        except FileNotFoundError:
            os.makedirs(folder, mode=0o700, exist_ok=True)
            continue
        claim = BlockClaim(path, part, descriptor)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Who had it may have renamed or removed the file meanwhile.
            mine = os.path.samestat(os.fstat(descriptor), os.lstat(part))
            if mine and not os.path.lexists(path):
                os.ftruncate(descriptor, 0)  # what a process that died has left
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
