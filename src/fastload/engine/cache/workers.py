"""Threads that work on the tasks of requested blocks; each thread takes a task that is ready."""

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

from fastload.engine.cache.task import BlockRequester, BlockTask
from fastload.errors import CorruptFileError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fastload.engine.cache.maker import BlockMaker
    from fastload.runtime.native import core

__all__ = ["QueueRequester", "start_workers"]

_IDLE_S = 1.0
_LEAST_S = 0.001
# Seconds to wait for a user's function that runs when the dataset is closed or the process ends.
_END_S = 5.0


class QueueRequester:
    """Hands blocks to the passes that ask a queue for blocks.

    Args:
        maker: makes the missing blocks.
        queue: the queue.

    Attributes:
        failures: for each file and row group whose block can't be made, the error.
    """

    def __init__(self, maker: BlockMaker, queue: core.DecodedQueue) -> None:
        self.failures: dict[tuple[int, int], BaseException] = {}
        self._maker = maker
        self._queue = queue

    def open(self, file: int, row_group: int, name: str, checksum: int) -> bool | None:
        """Open a block and hand it to the queue; see `BlockRequester.open`."""
        maker = self._maker
        return self._queue.open(
            file,
            row_group,
            maker.store.path(name),
            name,
            maker.keys.rows(file, row_group),
            written=checksum,
        )

    def failed(self, file: int, row_group: int, error: BaseException) -> None:
        """Raise an error in the passes that wait for a block; see `BlockRequester.failed`."""
        if isinstance(error, CorruptFileError):
            self._queue.fail(file, row_group, corrupt=True, message=str(error))
            return
        self.failures[file, row_group] = error
        what = f"{type(error).__name__}: {error}"
        location = self._maker.location(file, row_group)
        message = f"Expected a block of decoded rows, got {what} - at {location}"
        self._queue.fail(file, row_group, corrupt=False, message=message)


class BlockWorkers:
    """Gets the blocks that a queue asks for.

    Many row groups are in work at a time, because each waits for requests to a store. Only a few
    threads compute and write the rows that have arrived, so that they don't compete for the GIL
    with each other and with the training loop. Tasks begin, and continue, in the order in which
    the queue asks for blocks.

    Args:
        maker: makes the missing blocks.
        queue: the queue that asks for blocks.
        requester: receives the blocks.
    """

    def __init__(
        self, maker: BlockMaker, queue: core.DecodedQueue, requester: BlockRequester
    ) -> None:
        self._maker = maker
        self._queue = queue
        self._requester = requester
        self._numbers = count()
        self._looking = threading.Lock()
        self._seen = 0  # the queue's count of wakes before the last look for work
        self._in_work = 0
        # The tasks that no thread works on, and the tasks that threads have put back, each with
        # True if the task is over.
        self._tasks: list[BlockTask] = []
        self._back: deque[tuple[BlockTask, bool]] = deque()

    def work(self) -> None:
        """Work on tasks until the queue is closed. Each thread runs this method."""
        while (task := self._next()) is not None:
            self._back.append((task, self._ended(task, task.go_on)))
            self._queue.wake()

    def _next(self) -> BlockTask | None:
        """Return a task that is ready; None when the queue is closed.

        One thread at a time waits here, and begins the tasks of blocks requested meanwhile.
        """
        with self._looking:
            while not self._queue.closed:
                self._take_back()
                self._begin()
                task = self._ready()
                if task is not None:
                    return task
                self._seen = self._queue.wait(self._seen, self._patience_s())
            self._take_back()
            while self._tasks:
                self._tasks.pop().close()
            return None

    def _take_back(self) -> None:
        while self._back:
            task, ended = self._back.popleft()
            if ended:
                self._in_work -= 1
            else:
                insort(self._tasks, task, key=attrgetter("number"))

    def _begin(self) -> None:
        while self._in_work < self._maker.at_once:
            key = self._queue.take()
            if key is None:
                return
            number = next(self._numbers)
            task = BlockTask(self._maker, self._queue, self._requester, number, *key)
            if not self._ended(task, task.begin):
                self._in_work += 1
                self._tasks.append(task)

    def _ready(self) -> BlockTask | None:
        now = time.monotonic()
        for index, task in enumerate(self._tasks):
            if not task.waits(now):
                return self._tasks.pop(index)
        return None

    def _patience_s(self) -> float:
        """Return the seconds until a task may be ready although nothing wakes the queue."""
        times = [task.look_at for task in self._tasks if task.look_at]
        if not times:
            return _IDLE_S
        return min(_IDLE_S, max(_LEAST_S, min(times) - time.monotonic()))

    def _ended(self, task: BlockTask, step: Callable[[], bool | None]) -> bool:
        """Call a step of a task; return True if the task is over, by success or by an error."""
        try:
            return bool(step())
        except BaseException as error:  # noqa: BLE001 - raised where the batch is asked for
            self._requester.failed(task.file, task.row_group, error)
            return True


def start_workers(
    maker: BlockMaker, queue: core.DecodedQueue, requester: BlockRequester, owner: object
) -> Callable[[], object]:
    """Start threads that get the blocks that a queue asks for.

    Args:
        maker: makes the missing blocks.
        queue: the queue that asks for blocks.
        requester: receives the blocks.
        owner: the object with which, or with the interpreter, the threads end.

    Returns:
        A function that ends the threads. Idempotent.
    """
    workers = BlockWorkers(maker, queue, requester)
    # Daemon threads, because the wait for their end is limited.
    threads = [
        threading.Thread(target=workers.work, name="fastload-blocks", daemon=True)
        for _ in range(maker.threads)
    ]
    end = weakref.finalize(owner, _end, maker, queue, threads, os.getpid())
    for thread in threads:
        thread.start()
    return end


def _end(
    maker: BlockMaker, queue: core.DecodedQueue, threads: Sequence[threading.Thread], pid: int
) -> None:
    if pid != os.getpid():
        return
    queue.close()
    maker.close()  # gives up the entries that are not complete
    until = time.monotonic() + _END_S
    for thread in threads:
        if thread is not threading.current_thread():
            thread.join(max(0.0, until - time.monotonic()))
