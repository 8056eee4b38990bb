"""Blocks in memory that a thread of the core writes while passes already read their rows."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

from fastload.engine.cache.arrow_format import UncacheableError
from fastload.errors import FastloadError
from fastload.runtime.native import core

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from fastload.engine.cache.arrow_format import FileOverhead
    from fastload.engine.cache.entry_writer import EntryWriter

__all__ = ["WriteBehind"]

# The seconds that a pass may wait for the disk for each second of its other work, the most seconds
# at a time, and the seconds at first. A pass that waits longer drops blocks.
_WAIT_SHARE = 0.2
_MOST_WAIT_S = 1.0
_FIRST_WAIT_S = 0.1
# The last row groups that passes asked for may be asked for again by the next window.
_RECENT = 4


@dataclass(frozen=True, slots=True)
class _Pending:
    """A block that is not written yet.

    Attributes:
        key: the index of a file, and the index of a row group in the file.
        writer: the right to write the entry.
        held: the block in memory.
    """

    key: tuple[int, int]
    writer: EntryWriter
    held: core.HeldBlock


class WriteBehind:
    """Blocks that wait in memory until they are written, and the limit of their memory.

    Passes get the rows of a block from memory at once. A block is dropped, and not kept in the
    cache this time, if the disk takes blocks too slowly:

        row group -> decoded -> room in memory? --yes--> passes read it; the thread writes it
                                 |
                                 no -> wait for the disk for a share of the pass's time
                                        -> drop the oldest blocks that no pass reads any more

    Thread-safe.

    Args:
        queue: the queue that asks for blocks.
        most_bytes: the most bytes of blocks in memory.
        published: called with the key, name and checksum of each block that was written.

    Attributes:
        dropped: the number of blocks that were dropped.
        most_bytes: the most bytes of blocks in memory.
        error: why no more blocks can be written, or None.
    """

    def __init__(
        self,
        queue: core.DecodedQueue,
        most_bytes: int,
        published: Callable[[tuple[int, int], str, int], None],
    ) -> None:
        self.dropped = 0
        self.most_bytes = most_bytes
        self.error: UncacheableError | None = None
        self._queue = queue
        self._published = published
        self._thread = core.WriteBehind(queue)
        self._numbers = count()
        self._lock = threading.Lock()
        self._publishing = threading.Lock()  # from taking what was written until it is published
        self._pending: dict[int, _Pending] = {}  # in the order in which they are written
        self._recent: list[tuple[int, int]] = []
        self._reserved = 0
        self._closed = False
        self._credit_s = _FIRST_WAIT_S
        self._counted_at = time.monotonic()

    def wait_for_room(self, key: tuple[int, int], nbytes: int) -> Generator[float, None, bool]:
        """Reserve memory for a block, as part of a task.

        Args:
            key: the index of a file, and the index of a row group in the file.
            nbytes: bytes of the block.

        Yields:
            The time until which the task waits.

        Returns:
            True if the memory is reserved. False if passes read rows of the blocks in memory, or
            if the limit is too small: then the block has to be written at once.
        """
        if self._is_over() or 2 * nbytes > self.most_bytes:
            return False
        with self._lock:
            self._recent = [*self._recent[1 - _RECENT :], key]
        began = time.monotonic()
        while not self._reserve(nbytes):
            now = time.monotonic()
            if not self._pending or self._is_over():
                return False
            if now - began >= self._credit_s and not self._drop(nbytes):
                return False
            yield now + 0.002
        now = time.monotonic()
        with self._lock:
            waited_s, passed_s = now - began, now - self._counted_at
            earned_s = _WAIT_SHARE * max(0.0, passed_s - waited_s)
            self._credit_s = min(_MOST_WAIT_S, max(0.0, self._credit_s - waited_s) + earned_s)
            self._counted_at = now
        return True

    def give_back(self, nbytes: int) -> None:
        """Give back memory that was reserved and not used."""
        with self._lock:
            self._reserved -= nbytes

    def put(
        self,
        key: tuple[int, int],
        writer: EntryWriter,
        batches: Sequence[core.BlockBatch],
        overhead: FileOverhead,
        reserved: int,
    ) -> None:
        """Hand a block to the passes that wait for the block, and to the thread that writes.

        Args:
            key: the index of a file, and the index of a row group in the file.
            writer: the right to write the entry, which this object ends.
            batches: the rows of the block.
            overhead: the most bytes that are written in addition to the rows.
            reserved: the bytes that `wait_for_room` reserved.
        """
        held = core.HeldBlock(self._queue, batches)
        self.give_back(reserved)
        number = next(self._numbers)
        try:
            writer.take_room(overhead, held.nbytes, len(batches))
            with self._lock:
                self._pending[number] = _Pending(key, writer, held)
            self._thread.add(number, writer.descriptor, writer.name, batches)
        except FastloadError as error:
            with self._lock:
                self._pending.pop(number, None)
            writer.close()
            if not self._closed:
                self._fail(error)
        # Last, because the end of a pass closes this object, and the block would not be written.
        self._queue.hand_over(*key, held)

    def finish_written(self) -> None:
        """Publish the blocks that were written since the last call."""
        with self._publishing:
            self._publish()

    def close(self, timeout_s: float) -> None:
        """Wait for the blocks in memory to be written, for a limited time. Idempotent."""
        self._closed = True
        self._thread.close(0.0 if self.error is not None else timeout_s)
        # Another thread may be publishing blocks, and hang in a call of the system.
        if self._publishing.acquire(timeout=timeout_s):
            try:
                self._publish()
            finally:
                self._publishing.release()
        with self._lock:
            left, self._pending = self._pending, {}
        for pending in left.values():
            pending.writer.close()

    def _publish(self) -> None:
        for number, checksum, why in self._thread.take_written():
            with self._lock:
                done = self._pending.pop(number, None)
            if done is None:  # given up by `close`
                continue
            with done.writer as writer:
                if why:
                    self._fail(writer.error_of(why))
                    continue
                try:
                    writer.rename()
                except UncacheableError as error:
                    self._fail(error)
                    continue
            self._published(done.key, writer.name, checksum)

    def _is_over(self) -> bool:
        """Return True if nothing more is written: after `close`, or after an error."""
        return self._closed or self.error is not None

    def _reserve(self, nbytes: int) -> bool:
        with self._lock:
            if self._queue.held_bytes + self._reserved + nbytes > self.most_bytes:
                return False
            self._reserved += nbytes
            return True

    def _drop(self, nbytes: int) -> bool:
        """Drop the oldest blocks that no pass reads; return False if there is none."""
        freed = 0
        while freed < nbytes:
            with self._lock:
                for number, pending in self._pending.items():
                    if (
                        pending.key not in self._recent
                        and not pending.held.in_use
                        and self._thread.drop(number)
                    ):
                        del self._pending[number]
                        break
                else:
                    break
                self.dropped += 1
            freed += pending.held.nbytes
            pending.writer.close()
            del pending
        return freed > 0

    def _fail(self, error: Exception) -> None:
        if self.error is None:
            self.error = (
                error if isinstance(error, UncacheableError) else UncacheableError(str(error))
            )
