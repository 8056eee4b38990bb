"""Threads that get the blocks that were asked for; each turns to the task that is ready."""

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
# A function of the user's that runs when a dataset is closed, or its process ends, is waited for
# so long.
_END_S = 5.0


class QueueRequester:
    """Hands blocks to the passes that ask a queue for them.

    Attributes:
        failures: by file and row group, what was raised instead of a block.
    """

    def __init__(self, maker: BlockMaker, queue: core.DecodedQueue) -> None:
        self.failures: dict[tuple[int, int], BaseException] = {}
        self._maker = maker
        self._queue = queue

    def open(self, file: int, row_group: int, name: str, checksum: int) -> bool | None:
        """Hand over the block, as `BlockRequester` has it."""
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
        """Let the passes that wait for the block fail."""
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

    Many row groups are in work at a time, since they come from a store; a few threads compute and
    write what has arrived, so that they don't take turns at the GIL, with each other and with
    whoever trains. What was asked for first is begun first, and gone on with first.

    Args:
        maker: makes the blocks that are missing.
        queue: asks for blocks.
        requester: takes them.
    """

    def __init__(
        self, maker: BlockMaker, queue: core.DecodedQueue, requester: BlockRequester
    ) -> None:
        self._maker = maker
        self._queue = queue
        self._requester = requester
        self._numbers = count()
        self._looking = threading.Lock()
        self._seen = 0  # of the queue, before it was looked for work
        self._in_work = 0
        # Tasks that no thread has in hand, and tasks that threads put back: whether they ended.
        self._tasks: list[BlockTask] = []
        self._back: deque[tuple[BlockTask, bool]] = deque()

    def work(self) -> None:
        """Do what each thread does, until the queue is closed."""
        while (task := self._next()) is not None:
            self._back.append((task, self._ended(task, task.go_on)))
            self._queue.wake()

    def _next(self) -> BlockTask | None:
        """Return a task that can be gone on with; None when the queue is closed.

        One thread at a time looks for it, and begins what is asked for meanwhile.
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
        """Return how long until a task may be ready without the queue being woken."""
        times = [task.look_at for task in self._tasks if task.look_at]
        if not times:
            return _IDLE_S
        return min(_IDLE_S, max(_LEAST_S, min(times) - time.monotonic()))

    def _ended(self, task: BlockTask, step: Callable[[], bool | None]) -> bool:
        """Take a step of a task; return whether the task is over."""
        try:
            return bool(step())
        except BaseException as error:  # noqa: BLE001 - raised where the batch is asked for
            self._requester.failed(task.file, task.row_group, error)
            return True


def start_workers(
    maker: BlockMaker, queue: core.DecodedQueue, requester: BlockRequester, owner: object
) -> Callable[[], object]:
    """Start threads that get what a queue asks for.

    owner: the threads end with it, or with the interpreter.

    Returns:
        What ends the threads. Idempotent.
    """
    workers = BlockWorkers(maker, queue, requester)
    # Daemons: their end is waited for, but not for ever.
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
    maker.close()  # what is not complete is given up
    until = time.monotonic() + _END_S
    for thread in threads:
        if thread is not threading.current_thread():
            thread.join(max(0.0, until - time.monotonic()))
