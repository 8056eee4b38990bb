"""One block that was asked for: look it up, else lock the entry, write it and publish it."""

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

# Until an entry that another process writes is looked for again.
_FIRST_POLL_S = 0.002
_MOST_POLL_S = 0.05
# An entry that could not be opened, or was damaged, so often will never be good.
_MOST_FAILURES = 3


class BlockRequester(Protocol):
    """Asks for blocks."""

    def open(self, file: int, row_group: int, name: str, checksum: int) -> bool | None:
        """Take a block from the cache: None if it can't be opened, False if it is damaged.

        checksum: of a block that was just written here, else 0.
        """

    def failed(self, file: int, row_group: int, error: BaseException) -> None:
        """Learn why there is no block."""


class BlockTask:
    """Gets one block. One thread at a time works on a task.

    A task starts by looking the entry up. If the entry exists, the task is ready to hand it over.
    If not, the task locks the entry, starts to read the row group, writes what has arrived and
    publishes the entry; or, where another process holds the lock, looks again from time to time.

    Args:
        maker: makes the block.
        queue: is woken when there is more to do.
        requester: takes the block.
        number: how many tasks were begun before.
        file: whose rows the block has.
        row_group: which of the file's.

    Attributes:
        file, number, row_group: as the task was made with.
        look_at: when to look again at an entry that another process writes, by the monotonic
            clock; 0 = no other process does.
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
        # While this process writes the entry.
        self._held = contextlib.ExitStack()
        self._writer: EntryWriter | None = None
        self._scan: core.Scan | None = None
        self._failures = 0
        self._poll_s = _FIRST_POLL_S
        self._seen_ns = -1  # when another process wrote last
        self._until = 0.0

    def begin(self) -> None:
        """Start to make the block, unless the entry exists or another process writes it.

        Raises what making the block does.
        """
        if not self._store.touch_if_exists(self._name):
            self._start()

    def waits(self, now: float) -> bool:
        """Return whether there is nothing to do yet."""
        return now < self.look_at if self._scan is None else self._scan.waits

    def go_on(self) -> bool:
        """Return True once the requester has the block; False if there is more to do, later.

        Raises what making the block does.
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
                self._count_failure(f"damaged whenever it is written - at {self._name}")
            elif self._store.touch_if_exists(self._name):
                # It has just appeared, or the system refuses to open it.
                self._count_failure(f"it can't be opened - at {self._name}")
                continue
            if not self._start():
                if self._store.touch_if_exists(self._name):
                    continue
                self._wait_for_other()
                return False

    def close(self) -> None:
        """Give up an entry that is not whole."""
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
        """Write what has been read; return the checksum once the entry is whole, None before."""
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
        """Raise NoRoomError if an entry exists again and again, but is of no use."""
        self._failures += 1
        if self._failures >= _MOST_FAILURES:
            self._store.check_readable(self._name)
            raise NoRoomError(f"Expected a block that can be read, got one: {cause}")

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
