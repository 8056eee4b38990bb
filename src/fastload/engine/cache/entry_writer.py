"""Writer of one entry of the decoded tier."""

from __future__ import annotations

import contextlib
import fcntl
import os
from typing import TYPE_CHECKING

from fastload.engine.cache.arrow_format import UncacheableError
from fastload.errors import FastloadError
from fastload.runtime.disk.private_directory import unlock
from fastload.runtime.native import core

if TYPE_CHECKING:
    from collections.abc import Generator

    import pyarrow as pa
    from typing_extensions import Self

    from fastload.engine.cache.arrow_format import FileOverhead
    from fastload.engine.cache.store import BlockStore

__all__ = ["EntryWriter"]

# How often to try again if the directory disappears, because another process prunes it.
_TRIES = 8


class EntryWriter:
    """The right to write one entry, which one process at a time holds, and the entry's file.

    The right is an flock of the file that is written, so the system takes the right back if the
    process dies. The entry appears as a whole, when `publish` renames the file.

    Args:
        store: the store of the entry.
        name: the name of the entry.
        descriptor: the open, locked and empty file that is written.

    Attributes:
        descriptor: the open file that is written.
        name: the name of the entry.
    """

    def __init__(self, store: BlockStore, name: str, descriptor: int) -> None:
        self.descriptor = descriptor
        self.name = name
        self._store = store
        self._published = False

    @classmethod
    def lock(cls, store: BlockStore, name: str) -> Self | None:
        """Try to lock an entry for writing.

        Args:
            store: the store of the entry.
            name: the name of the entry.

        Returns:
            The writer, or None if another process holds the lock or the entry exists.

        Raises:
            UncacheableError: the file can't be opened, locked or truncated.
        """
        path, part = store.path(name), store.part_path(name)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        with _errors(store):
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
                        status = os.fstat(descriptor)
                        mine = os.path.samestat(status, os.lstat(part))
                    except BlockingIOError:
                        return None
                    except FileNotFoundError:
                        mine = False
                    if not mine:
                        continue  # the process that held the lock has renamed or removed the file
                    if os.path.lexists(path):
                        os.unlink(part)
                        return None
                    # A process that died may have left bytes. Only such a file is truncated,
                    # because ext4 writes truncated files to disk as soon as they are closed.
                    if status.st_size:
                        os.ftruncate(descriptor, 0)
                    stack.pop_all()
                    return cls(store, name, descriptor)
            raise FileNotFoundError(None, "the directory disappears")

    def begin(self, schema: pa.Schema, overhead: FileOverhead) -> None:
        """Begin the file.

        Args:
            schema: the schema of the rows.
            overhead: the most bytes that are written in addition to the rows.

        Raises:
            UncacheableError: there is no room, or the system refuses to write.
        """
        self._batch_bytes = overhead.batch_bytes
        with _errors(self._store):
            self._writer = core.DecodedWriter(self.descriptor, self.name, schema)
            first = self._store.is_new(self.name)
            self._store.take_room(overhead.file_bytes, self.descriptor, first=first)

    def add(self, batch: core.BlockBatch | pa.RecordBatch) -> None:
        """Write rows. Raise UncacheableError if they can't be written."""
        with _errors(self._store):
            self._store.take_room(batch.nbytes + self._batch_bytes, self.descriptor)
            self._writer.add(batch)

    def publish(self) -> int:
        """Publish the entry, and return its checksum. Raise UncacheableError if that fails."""
        with _errors(self._store):
            checksum = self._writer.finish()
        self.rename()
        return checksum

    def take_room(self, overhead: FileOverhead, nbytes: int, batches: int) -> None:
        """Make room for a whole entry, which the caller writes to the file.

        Args:
            overhead: the most bytes that are written in addition to the rows.
            nbytes: bytes of the rows.
            batches: the number of record batches.

        Raises:
            UncacheableError: there is no room.
        """
        first = self._store.is_new(self.name)
        nbytes += overhead.file_bytes + batches * overhead.batch_bytes
        with _errors(self._store):
            self._store.take_room(nbytes, self.descriptor, first=first)

    def rename(self) -> None:
        """Publish the file, which is complete. Raise UncacheableError if the system refuses."""
        with _errors(self._store):
            os.rename(self._store.part_path(self.name), self._store.path(self.name))
        self._published = True

    def error_of(self, why: str) -> UncacheableError:
        """Return the error of an entry that can't be written, given the system's message."""
        return UncacheableError(f"{why} - at {self._store.directory}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the lock, and remove the file if it was not published."""
        if not self._published:
            with contextlib.suppress(OSError):
                os.unlink(self._store.part_path(self.name))
        unlock(self.descriptor)


@contextlib.contextmanager
def _errors(store: BlockStore) -> Generator[None, None, None]:
    """Raise UncacheableError in place of an error of the system or of the core."""
    try:
        yield
    except UncacheableError:
        raise
    except (FastloadError, OSError) as error:
        cause = getattr(error, "strerror", None) or error
        raise UncacheableError(f"{cause} - at {store.directory}") from error
