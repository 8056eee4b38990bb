"""Looks for the blocks that passes ask for, and makes those that are not there."""

from __future__ import annotations

import contextlib
import os
import threading
import time
import weakref
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from fastload.decoded_claim import NoRoomError
from fastload.decoded_entry import BlockEntry
from fastload.errors import CorruptFileError
from fastload.gate import Gate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fastload._core import DecodedQueue
    from fastload.decoded_claim import BlockClaim
    from fastload.decoded_key import BlockNames
    from fastload.decoded_maker import BlockMaker
    from fastload.decoded_tier import DecodedTier
    from fastload.source import SourceFile

__all__ = ["BlockFiller", "filler_threads", "serve_blocks"]

# Of local files one reads and computes while the other one writes.
_FILLERS = 2
# Of a store's each has the requests of one row group on their way.
_REMOTE_FILLERS = 32
# Each holds a few record batches, which should not be small ones, and what is on its way: all of a
# row group, or its columns come in many small requests.
_LEAST_FILLER_BYTES = 8 << 20
_FILLER_ROW_GROUPS = 2
# Until an entry that another process fills is looked for again.
_FIRST_POLL_S = 0.002
_MOST_POLL_S = 0.05
_IDLE_S = 1.0
# A function of the user's that runs when a dataset is closed, or its process ends, is waited for
# so long.
_END_S = 5.0
# An entry that can't be read as soon as it was written, so often, will never be.
_MOST_DAMAGED = 3


def filler_threads(memory_bytes: int, row_group_bytes: int, *, remote: bool) -> int:
    """Threads that make blocks at a time, of local files or others.

    memory_bytes: that they have in all.
    row_group_bytes: decoded, of the largest one.
    """
    most = _REMOTE_FILLERS if remote else _FILLERS
    each = max(_LEAST_FILLER_BYTES, _FILLER_ROW_GROUPS * row_group_bytes)
    return max(_FILLERS, min(most, memory_bytes // each))


class BlockFiller:
    """Gets blocks, from the cache or made.

    Args:
        tier: of the cache.
        names: of its entries.
        maker: of what is not there.
        threads: that make blocks at a time; most of them wait for what they read.
        core_threads: that decode for them.
        patience_s: without progress of another process that makes a block, until that counts as
            hanging.

    Attributes:
        failures: by the message that the core was given, what was raised.
        threads: as it was made with.
    """

    def __init__(
        self,
        tier: DecodedTier,
        names: BlockNames,
        maker: BlockMaker,
        files: Sequence[SourceFile],
        threads: int,
        core_threads: int,
        patience_s: float,
    ) -> None:
        self.failures: dict[str, BaseException] = {}
        self.threads = threads
        self.tier = tier
        self.maker = maker
        self._names = names
        self._files = files
        self._patience_s = patience_s
        self._begun = count()
        self._taking = threading.Lock()
        # One thread computes while another one writes.
        self._gate = Gate(max(_FILLERS, core_threads // 2))

    def serve(self, queue: DecodedQueue) -> None:
        """Brings what is asked for, until the queue is closed."""
        waiting: list[_Attempt] = []  # for other processes
        poll_s = _FIRST_POLL_S
        while not queue.closed:
            attempt = self._take(queue, poll_s if waiting else _IDLE_S)
            if attempt is not None:
                waiting.insert(0, attempt)  # it may hold a claim, which others wait for
                poll_s = _FIRST_POLL_S
            waiting = [one for one in waiting if not self._ended(queue, one, one.go_on)]
            poll_s = min(_MOST_POLL_S, 2 * poll_s)

    def bring(self, file: int, row_group: int, closed: Callable[[], bool]) -> None:
        """Has a block in the cache, unless it is closed meanwhile; raises what making it does."""
        name = self._name(file, row_group)
        opens = lambda _written: self.tier.there(name) or None  # noqa: E731
        attempt = _Attempt(self, file, row_group, name, opens)
        poll_s = _FIRST_POLL_S
        while not attempt.go_on() and not closed():
            time.sleep(poll_s)
            poll_s = min(_MOST_POLL_S, 2 * poll_s)

    def begin(self, claim: BlockClaim, file: int, row_group: int, name: str) -> Callable[[], int]:
        """Begins to fill an entry.

        Returns:
            What fills it; its checksum. To be called once.
        """
        maker, rows = self.maker, self._names.rows(file, row_group)
        with contextlib.ExitStack() as stack:
            stack.enter_context(claim)
            entry = BlockEntry(self.tier, claim, name, maker.schema)
            scan = stack.enter_context(contextlib.closing(maker.start(file, row_group, rows)))
            held = stack.pop_all()
        # Whoever began first goes first, as it does with its reading.
        through = partial(self._gate.passed, next(self._begun))

        def fill() -> int:
            with held:
                while (lent := scan.next()) is not None:
                    with through():
                        entry.add(maker.record_batch(lent))
                with through():
                    checksum = entry.publish()
            self.tier.describe(name, self._files[file])
            return checksum

        return fill

    @property
    def patience_s(self) -> float:
        """As it was made with."""
        return self._patience_s

    def _name(self, file: int, row_group: int) -> str:
        return f"{self._names.object(file)}/{self._names.entry(file, row_group)}"

    def _attempt(self, queue: DecodedQueue, file: int, row_group: int) -> _Attempt:
        name, rows = self._name(file, row_group), self._names.rows(file, row_group)

        def opens(written: int) -> bool | None:
            if not self.tier.there(name):
                return None
            path = self.tier.path(name)
            return queue.open(file, row_group, path, name, rows, written=written)

        return _Attempt(self, file, row_group, name, opens)

    def _take(self, queue: DecodedQueue, timeout_s: float) -> _Attempt | None:
        """To get the block that is asked for next; None after a while.

        One thread at a time waits for it, and has begun to read for it before the next one
        waits: so what is asked for first is read first.
        """
        if not self._taking.acquire(timeout=timeout_s):
            return None
        try:
            key = queue.take(timeout_s)
            if key is None:
                return None
            attempt = self._attempt(queue, *key)
            return None if self._ended(queue, attempt, attempt.begin) else attempt
        finally:
            self._taking.release()

    def _ended(
        self, queue: DecodedQueue, attempt: _Attempt, step: Callable[[], bool | None]
    ) -> bool:
        """Whether an attempt is over after a step; what it raises is told to whoever asked."""
        try:
            return bool(step())
        except CorruptFileError as error:
            queue.fail(*attempt.key, corrupt=True, message=str(error))
        except BaseException as error:  # noqa: BLE001 - told to whoever asks for the batch
            self._fail(queue, attempt.key, error)
        return True

    def _fail(self, queue: DecodedQueue, key: tuple[int, int], error: BaseException) -> None:
        file, row_group = key
        what = f"{type(error).__name__}: {error}"
        place = f"{self._files[file].path}, row group {row_group}"
        message = f"Expected a block of decoded rows, got {what} - at {place}"
        self.failures[message] = error
        queue.fail(file, row_group, corrupt=False, message=message)


class _Attempt:
    """To get one block.

    opens: takes it from the cache, given its checksum if it was just written here, else 0: None
        if it is not there, False if it is damaged.
    """

    def __init__(
        self,
        filler: BlockFiller,
        file: int,
        row_group: int,
        name: str,
        opens: Callable[[int], bool | None],
    ) -> None:
        self.key = (file, row_group)
        self._filler = filler
        self._name = name
        self._opens = opens
        self._fill: Callable[[], int] | None = None
        self._damaged = 0
        self._seen = -1  # bytes that another process has written
        self._until = 0.0

    def begin(self) -> None:
        """Begins to make it, unless it is there or another process does.

        Raises what making it does.
        """
        tier = self._filler.tier
        if not tier.there(self._name):
            claim = tier.claim(self._name)
            if claim is not None:
                self._fill = self._filler.begin(claim, *self.key, self._name)

    def go_on(self) -> bool:
        """Whether it is had; False while another process makes it. Raises what making it does."""
        tier = self._filler.tier
        while True:
            fill, self._fill = self._fill, None
            written = fill() if fill is not None else 0
            opened = self._opens(written)
            if opened:
                return True
            if opened is False:
                tier.remove(self._name)
                self._damaged += 1
                if self._damaged > _MOST_DAMAGED:
                    raise NoRoomError(f"what was written is read otherwise, of {self._name}")
            self.begin()
            if self._fill is None and not tier.there(self._name):
                self._check_patience()
                return False

    def _check_patience(self) -> None:
        """Raises NoRoomError if whoever makes the block makes no progress."""
        written = self._filler.tier.part_bytes(self._name)
        now = time.monotonic()
        if written != self._seen:
            self._seen, self._until = written, now + self._filler.patience_s
        elif now > self._until:
            raise NoRoomError("another process holds a row group without filling it")


def serve_blocks(filler: BlockFiller, queue: DecodedQueue, owner: object) -> Callable[[], object]:
    """Starts threads that bring what a queue asks for.

    owner: with it, or with the interpreter, they end.

    Returns:
        What ends them. Idempotent.
    """
    # Daemons: their end is waited for, but not for ever.
    threads = [
        threading.Thread(target=filler.serve, args=(queue,), name="fastload-blocks", daemon=True)
        for _ in range(filler.threads)
    ]
    end = weakref.finalize(owner, _end, filler, queue, threads, os.getpid())
    for thread in threads:
        thread.start()
    return end


def _end(
    filler: BlockFiller, queue: DecodedQueue, threads: Sequence[threading.Thread], pid: int
) -> None:
    if pid != os.getpid():
        return
    queue.close()
    filler.maker.close()  # what is not complete is given up
    until = time.monotonic() + _END_S
    for thread in threads:
        if thread is not threading.current_thread():
            thread.join(max(0.0, until - time.monotonic()))
