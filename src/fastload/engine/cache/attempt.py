"""What is done to have one block: to look for it, to make it, or to wait for who makes it."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from fastload.engine.cache.claim import NoRoomError
from fastload.engine.cache.entry import BlockEntry

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastload.engine.cache.claim import BlockClaim
    from fastload.engine.cache.filler import BlockFiller
    from fastload.runtime._core import DecodedQueue

__all__ = ["BlockAttempt"]

# Until an entry that another process fills is looked for again.
_FIRST_POLL_S = 0.002
_MOST_POLL_S = 0.05
# An entry that can't be read as soon as it was written, so often, will never be.
_MOST_DAMAGED = 3


class BlockAttempt:
    """To get one block. It is one thread's at a time.

    Args:
        filler: makes it.
        queue: is woken when there is more to do.
        number: of those that were begun before.
        file: whose rows it has.
        row_group: likewise.
        opens: takes it from the cache, as `decoded_answers.Answers` says.

    Attributes:
        file, number, row_group: as it was made with.
        look_at: when it is worth another look if another process makes it, by the monotonic
            clock; 0 = none does.
    """

    def __init__(
        self,
        filler: BlockFiller,
        queue: DecodedQueue,
        number: int,
        file: int,
        row_group: int,
        opens: Callable[[int, int, int], bool | None],
    ) -> None:
        self.number = number
        self.file = file
        self.row_group = row_group
        self.look_at = 0.0
        self._filler = filler
        self._queue = queue
        self._tier = filler.tier
        self._name = filler.name(file, row_group)
        self._opens = opens
        self._filling: _Filling | None = None
        self._damaged = 0
        self._poll_s = _FIRST_POLL_S
        self._seen_ns = -1  # when another process wrote last
        self._until = 0.0

    def begin(self) -> None:
        """Begins to make it, unless it is there or another process does.

        Raises what making it does.
        """
        self._begins()

    def waits(self, now: float) -> bool:
        """Whether going on would be for nothing yet."""
        return now < self.look_at if self._filling is None else self._filling.waits

    def go_on(self) -> bool:
        """Whether it is had; False if there is more to do, later. Raises what making it does."""
        while True:
            written = 0
            if self._filling is not None:
                whole = self._filling.go_on()
                if whole is None:
                    return False
                self._filling, written = None, whole
            opened = self._opens(self.file, self.row_group, written)
            if opened:
                return True
            if opened is False:
                self._tier.remove(self._name)
                self._damaged += 1
                if self._damaged > _MOST_DAMAGED:
                    raise NoRoomError(f"what was written is read otherwise, of {self._name}")
            if not self._begins() and not self._tier.there(self._name):
                self._wait_for_other()
                return False

    def close(self) -> None:
        """Gives it up."""
        if self._filling is not None:
            self._filling.close()

    def _begins(self) -> bool:
        claim = None if self._tier.there(self._name) else self._tier.claim(self._name)
        if claim is None:
            return False
        self._filling = _Filling(
            self._filler, self._queue, claim, self._name, self.file, self.row_group
        )
        self.look_at = 0.0
        return True

    def _wait_for_other(self) -> None:
        """Raises NoRoomError if whoever makes the block makes no progress."""
        written_ns = self._tier.part_written_ns(self._name)
        now = time.monotonic()
        if written_ns != self._seen_ns:
            self._seen_ns, self._until = written_ns, now + self._filler.patience_s
        elif now > self._until:
            raise NoRoomError("another process holds a row group without filling it")
        self.look_at = now + self._poll_s
        self._poll_s = min(_MOST_POLL_S, 2 * self._poll_s)


class _Filling:
    """An entry that is being filled. Raises what reading, computing and writing do."""

    def __init__(
        self,
        filler: BlockFiller,
        queue: DecodedQueue,
        claim: BlockClaim,
        name: str,
        file: int,
        row_group: int,
    ) -> None:
        self._filler = filler
        self._file = file
        self._name = name
        with contextlib.ExitStack() as stack:
            stack.enter_context(claim)
            maker = filler.maker
            self._entry = BlockEntry(filler.tier, claim, name, maker.schema, maker.heads)
            self._scan = filler.read(file, row_group, queue)
            stack.enter_context(contextlib.closing(self._scan))
            self._held = stack.pop_all()

    @property
    def waits(self) -> bool:
        """Whether it waits for what it reads."""
        return self._scan.waits

    def go_on(self) -> int | None:
        """Writes what has been read: its checksum once it is whole, None before."""
        try:
            while not self._scan.waits:
                lent = self._scan.next()
                if lent is None:
                    checksum = self._entry.publish()
                    self.close()
                    self._filler.describe(self._name, self._file)
                    return checksum
                self._entry.add(self._filler.maker.record_batch(lent))
        except BaseException:
            self.close()
            raise
        return None

    def close(self) -> None:
        """Gives up what is not whole."""
        self._held.close()
