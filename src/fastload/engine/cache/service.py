"""Threads that bring the blocks that are asked for, each turning to what is ready."""

from __future__ import annotations

import os
import threading
import time
import weakref
from bisect import insort
from collections import deque
from itertools import count
from operator import attrgetter
from typing import TYPE_CHECKING

from fastload.engine.cache.attempt import BlockAttempt

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fastload.engine.cache.answers import Answers
    from fastload.engine.cache.filler import BlockFiller
    from fastload.runtime._core import DecodedQueue

__all__ = ["BlockService", "serve_blocks"]

_IDLE_S = 1.0
_LEAST_S = 0.001
# A function of the user's that runs when a dataset is closed, or its process ends, is waited for
# so long.
_END_S = 5.0


class BlockService:
    """Brings the blocks that a queue asks for.

    Many row groups are in work at a time, since they come from a store; a few threads compute and
    write what has arrived, so that they don't take turns at the GIL, with each other and with
    whoever trains. What was asked for first is begun first, and gone on with first.

    Args:
        filler: gets them.
        queue: asks for them.
        answers: what is done with them.
    """

    def __init__(self, filler: BlockFiller, queue: DecodedQueue, answers: Answers) -> None:
        self._filler = filler
        self._queue = queue
        self._answers = answers
        self._numbers = count()
        self._looking = threading.Lock()
        self._seen = 0  # of the queue, before it was looked for work
        self._in_work = 0
        # That no thread has in hand, and those that threads have put back: whether they ended.
        self._attempts: list[BlockAttempt] = []
        self._back: deque[tuple[BlockAttempt, bool]] = deque()

    def serve(self) -> None:
        """What each thread does, until the queue is closed."""
        while (attempt := self._next()) is not None:
            self._back.append((attempt, self._ended(attempt, attempt.go_on)))
            self._queue.wake()

    def _next(self) -> BlockAttempt | None:
        """One that can be gone on with; None when the queue is closed.

        One thread at a time looks for it, and begins what is asked for meanwhile.
        """
        with self._looking:
            while not self._queue.closed:
                self._take_back()
                self._begin()
                attempt = self._ready()
                if attempt is not None:
                    return attempt
                self._seen = self._queue.wait(self._seen, self._patience_s())
            self._take_back()
            while self._attempts:
                self._attempts.pop().close()
            return None

    def _take_back(self) -> None:
        while self._back:
            attempt, ended = self._back.popleft()
            if ended:
                self._in_work -= 1
            else:
                insort(self._attempts, attempt, key=attrgetter("number"))

    def _begin(self) -> None:
        while self._in_work < self._filler.at_once:
            key = self._queue.take()
            if key is None:
                return
            number, opens = next(self._numbers), self._answers.opens
            attempt = BlockAttempt(self._filler, self._queue, number, *key, opens)
            if not self._ended(attempt, attempt.begin):
                self._in_work += 1
                self._attempts.append(attempt)

    def _ready(self) -> BlockAttempt | None:
        now = time.monotonic()
        for place, attempt in enumerate(self._attempts):
            if not attempt.waits(now):
                return self._attempts.pop(place)
        return None

    def _patience_s(self) -> float:
        """Until something may be ready of which nobody tells."""
        times = [attempt.look_at for attempt in self._attempts if attempt.look_at]
        if not times:
            return _IDLE_S
        return min(_IDLE_S, max(_LEAST_S, min(times) - time.monotonic()))

    def _ended(self, attempt: BlockAttempt, step: Callable[[], bool | None]) -> bool:
        """Whether an attempt is over after a step."""
        try:
            return bool(step())
        except BaseException as error:  # noqa: BLE001 - told to whoever asks for the batch
            self._answers.failed(attempt.file, attempt.row_group, error)
            return True


def serve_blocks(
    filler: BlockFiller, queue: DecodedQueue, answers: Answers, owner: object
) -> Callable[[], object]:
    """Starts threads that bring what a queue asks for.

    owner: with it, or with the interpreter, they end.

    Returns:
        What ends them. Idempotent.
    """
    service = BlockService(filler, queue, answers)
    # Daemons: their end is waited for, but not for ever.
    threads = [
        threading.Thread(target=service.serve, name="fastload-blocks", daemon=True)
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
