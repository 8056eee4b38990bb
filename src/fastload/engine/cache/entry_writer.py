"""Writer of one entry of the decoded tier."""

from __future__ import annotations

import contextlib
import fcntl
import os
from typing import TYPE_CHECKING

from fastload.engine.cache.arrow_format import UncacheableError
from fastload.errors import FastloadError
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
    """

    def __init__(self, store: BlockStore, name: str, descriptor: int) -> None:
        self.descriptor = descriptor
        self._store = store
        self._name = name
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
            self._writer = core.DecodedWriter(self.descriptor, self._name, schema)
            first = self._store.is_new(self._name)
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
            os.rename(self._store.part_path(self._name), self._store.path(self._name))
        self._published = True
        return checksum

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        """Release the lock, and remove the file if it was not published."""
        if not self._published:
            with contextlib.suppress(OSError):
                os.unlink(self._store.part_path(self._name))
        # A forked child may hold the descriptor, too, so closing it would not release the lock.
        with contextlib.suppress(OSError):
            fcntl.flock(self.descriptor, fcntl.LOCK_UN)
        os.close(self.descriptor)


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
