"""Task for one requested block: look the entry up, or else lock, write and publish the entry."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Protocol

from fastload.engine.cache.entry_lock import NoRoomError
from fastload.engine.cache.entry_writer import EntryWriter

if TYPE_CHECKING:
    from fastload.engine.cache.maker import BlockMaker
    from fastload.runtime.native import core

__all__ = ["BlockRequester", "BlockTask"]

# Seconds between two looks for an entry that another process writes, at first and at most.
_FIRST_POLL_S = 0.002
_MOST_POLL_S = 0.05
# After so many failed or damaged reads of an entry, the task gives the entry up.
_MOST_FAILURES = 3


class BlockRequester(Protocol):
    """Receives the blocks that were asked for."""

    def open(self, file: int, row_group: int, name: str, checksum: int) -> bool | None:
        """Open a block of the cache.

        Args:
            file: the index of the file.
            row_group: the index of the row group in the file.
            name: the name of the block.
            checksum: the checksum of a block that this process has just written, else 0.

        Returns:
            True if the block is open, None if it can't be opened, False if it is damaged.
        """

    def failed(self, file: int, row_group: int, error: BaseException) -> None:
        """Receive the error because of which a block can't be made.

        Args:
            file: the index of the file.
            row_group: the index of the row group in the file.
            error: the error.
        """


class BlockTask:
    """Gets one block. One thread at a time works on a task.

    A task first looks the entry up. If the entry exists, the task is ready to hand the block over.
    If not, the task locks the entry, starts to read the row group, writes the rows as they arrive,
    and publishes the entry. If another process holds the lock, the task looks the entry up again
    from time to time.

    Args:
        maker: makes the block.
        queue: the queue to wake when rows have been read.
        requester: receives the block.
        number: the number of tasks begun before.
        file: the index of the file.
        row_group: the index of the row group in the file.

    Attributes:
        file: the index of the file.
        look_at: when to look again for an entry that another process writes, by the monotonic
            clock; 0 = no other process writes the entry.
        number: the number of tasks begun before.
        row_group: the index of the row group in the file.
    """

    def __init__(
        self,
        maker: BlockMaker,
        queue: core.DecodedQueue,
        requester: BlockRequester,
        number: int,
        file: int,
        row_group: int,
    ) -> None:
        self.number = number
        self.file = file
        self.row_group = row_group
        self.look_at = 0.0
        self._maker = maker
        self._queue = queue
        self._requester = requester
        self._store = maker.store
        self._name = maker.keys.name(file, row_group)
        # The lock and the scan, while this process writes the entry.
        self._held = contextlib.ExitStack()
        self._writer: EntryWriter | None = None
        self._scan: core.Scan | None = None
        self._failures = 0
        self._poll_s = _FIRST_POLL_S
        self._seen_ns = -1  # the time of another process's last write
        self._until = 0.0

    def begin(self) -> None:
        """Start to make the block, unless the entry exists or another process writes the entry.

        Raises:
            Exception: the block can't be made.
        """
        if not self._store.touch_if_exists(self._name):
            self._start()

    def waits(self, now: float) -> bool:
        """Return True if the task has nothing to do yet.

        Args:
            now: the time by the monotonic clock.
        """
        return now < self.look_at if self._scan is None else self._scan.waits

    def go_on(self) -> bool:
        """Do what can be done now.

        Returns:
            True once the requester has the block; False if more has to be done later.

        Raises:
            Exception: the block can't be made.
        """
        while True:
            checksum = 0
            if self._scan is not None:
                written = self._write(self._scan)
                if written is None:
                    return False
                checksum = written
            opened = self._requester.open(self.file, self.row_group, self._name, checksum)
            if opened:
                return True
            if opened is False:
                self._store.remove(self._name)
                self._count_failure(f"damaged after each write - at {self._name}")
            elif self._store.touch_if_exists(self._name):
                # The entry has just appeared, or the system refuses to open the entry.
                self._count_failure(f"a file that can't be opened - at {self._name}")
                continue
            if not self._start():
                if self._store.touch_if_exists(self._name):
                    continue
                self._wait_for_other()
                return False

    def close(self) -> None:
        """Give up an entry that is not complete."""
        self._scan = None
        self._held.close()

    def _start(self) -> bool:
        """Lock the entry and start to read its row group; False if another process has the lock."""
        lock = self._store.lock(self._name)
        if lock is None:
            return False
        maker = self._maker
        with contextlib.ExitStack() as stack:
            stack.enter_context(lock)
            self._writer = EntryWriter(self._store, lock, self._name, maker.schema, maker.overhead)
            scan = maker.start(self.file, self.row_group, self._queue)
            stack.enter_context(contextlib.closing(scan))
            self._held = stack.pop_all()
        self._scan = scan
        self.look_at = 0.0
        return True

    def _write(self, scan: core.Scan) -> int | None:
        """Write the rows that have been read.

        Returns:
            The entry's checksum once the entry is published; None before.
        """
        assert self._writer is not None
        try:
            while not scan.waits:
                lent = scan.next()
                if lent is None:
                    checksum = self._writer.publish()
                    self.close()
                    self._maker.describe(self._name, self.file)
                    return checksum
                self._writer.add(self._maker.record_batch(lent))
        except BaseException:
            self.close()
            raise
        return None

    def _count_failure(self, cause: str) -> None:
        """Raise NoRoomError if an entry existed several times, but could not be used."""
        self._failures += 1
        if self._failures >= _MOST_FAILURES:
            self._store.check_readable(self._name)
            raise NoRoomError(f"Expected a readable block, got one {cause}")

    def _wait_for_other(self) -> None:
        """Raise NoRoomError if the process that writes the entry makes no progress."""
        written_ns = self._store.part_written_ns(self._name)
        now = time.monotonic()
        if written_ns != self._seen_ns:
            self._seen_ns, self._until = written_ns, now + self._maker.patience_s
        elif now > self._until:
            raise NoRoomError("another process holds a row group without filling it")
        self.look_at = now + self._poll_s
        self._poll_s = min(_MOST_POLL_S, 2 * self._poll_s)
