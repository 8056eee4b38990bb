"""Writer of one entry of the decoded tier."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from fastload.engine.cache.entry_lock import EntryLock, NoRoomError
from fastload.errors import FastloadError
from fastload.runtime.native import core

if TYPE_CHECKING:
    from collections.abc import Generator

    import pyarrow as pa

    from fastload.engine.cache.arrow_format import FileOverhead
    from fastload.engine.cache.store import BlockStore

__all__ = ["EntryWriter"]


class EntryWriter:
    """Writes one entry, which `publish` makes visible as a whole.

    Args:
        store: the store of the entry.
        lock: the lock of the entry.
        name: the name of the entry.
        schema: the schema of the rows.
        overhead: the most bytes that are written in addition to the rows.

    Raises:
        NoRoomError: the entry can't be written.
    """

    def __init__(
        self,
        store: BlockStore,
        lock: EntryLock,
        name: str,
        schema: pa.Schema,
        overhead: FileOverhead,
    ) -> None:
        self._store = store
        self._lock = lock
        self._overhead = overhead
        with self._giving_up():
            self._writer = core.DecodedWriter(lock.descriptor, name, schema)
            self._take_room(overhead.file_bytes, first=store.is_new(name))

    def add(self, batch: core.BlockBatch | pa.RecordBatch) -> None:
        """Write rows. Raise NoRoomError if they can't be written."""
        with self._giving_up():
            self._take_room(batch.nbytes + self._overhead.batch_bytes)
            self._writer.add(batch)

    def publish(self) -> int:
        """Publish the entry, and return the entry's checksum. Raise NoRoomError if that fails."""
        with self._giving_up():
            checksum = self._writer.finish()
            self._lock.publish()
        return checksum

    def _take_room(self, data_bytes: int, *, first: bool = False) -> None:
        if not self._store.take_room(data_bytes, self._lock, first=first):
            raise NoRoomError("max_bytes leave no room for a row group beside the ones in use")

    @contextlib.contextmanager
    def _giving_up(self) -> Generator[None, None, None]:
        """Raise NoRoomError, and let the store give up, if the body of the `with` fails."""
        try:
            yield
        except NoRoomError as error:
            self._store.give_up(str(error))
            raise
        except (FastloadError, OSError) as error:
            cause = f"{getattr(error, 'strerror', None) or error} - at {self._store.directory}"
            self._store.give_up(cause)
            raise NoRoomError(cause) from error
