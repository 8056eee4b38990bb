"""Maker of blocks: finds the blocks that passes ask for, and makes the blocks that are missing."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from bisect import insort
from collections import deque
from itertools import count
from operator import itemgetter
from queue import SimpleQueue
from typing import TYPE_CHECKING, TypeAlias

from fastload.engine.cache.arrow_format import (
    FileOverhead,
    UncacheableError,
    arrow_schema,
    record_batch,
)
from fastload.engine.cache.entry_writer import EntryWriter
from fastload.engine.cache.write_behind import WriteBehind
from fastload.errors import CorruptFileError
from fastload.plan.read_plan import row_group_plan
from fastload.runtime.native import core
from fastload.steps.run import SeedKey, run_steps

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence

    import pyarrow as pa

    from fastload.batch.batch import Batch
    from fastload.engine.cache.keys import BlockKeys
    from fastload.engine.cache.store import BlockStore
    from fastload.engine.engine import Engine
    from fastload.schema.fields import Field
    from fastload.schema.projection import OutputPlan
    from fastload.source.files import SourceFile
    from fastload.steps.steps import Steps

    Key: TypeAlias = tuple[int, int]
    """The index of a file, and the index of a row group in the file."""
    # What a task waits for: rows of a scan, or a time by the monotonic clock.
    Wait: TypeAlias = core.Scan | float
    # Rows of a block, in memory of the core or of pyarrow.
    RecordBatch: TypeAlias = core.BlockBatch | pa.RecordBatch
    # The number of tasks begun before, the block that the task gets, the task, and its wait.
    Task: TypeAlias = tuple[int, Key, Generator[Wait, None, None], Wait]

__all__ = ["BlockMaker", "row_groups_at_once"]

# Row groups of local files that are in work at a time: one is read and computed while the other
# one is written.
_AT_ONCE = 2
# The most row groups of remote files that are in work at a time; each waits for its own requests.
_REMOTE_AT_ONCE = 32
# Each row group in work holds a few record batches, which should not be small, and the bytes on
# their way. These should be the whole row group, since less means many small requests.
_LEAST_BYTES = 8 << 20
_ROW_GROUPS = 2
# Seconds between two looks for an entry that another process writes, at first and at most.
_FIRST_POLL_S = 0.002
_MOST_POLL_S = 0.05
# After so many reads of an entry that fail, the block can't be kept.
_MOST_FAILURES = 3
# Seconds that a thread waits for work, at most and at least.
_IDLE_S = 1.0
_LEAST_S = 0.001
# Seconds to wait for a user's function that runs when the dataset is closed or the process ends.
_END_S = 5.0


def row_groups_at_once(memory_bytes: int, row_group_bytes: int, *, remote: bool) -> int:
    """Return how many row groups are made into blocks at a time.

    Args:
        memory_bytes: bytes for all row groups in work.
        row_group_bytes: decoded bytes of the largest row group.
        remote: the files are not local.
    """
    most = _REMOTE_AT_ONCE if remote else _AT_ONCE
    each = max(_LEAST_BYTES, _ROW_GROUPS * row_group_bytes)
    return max(_AT_ONCE, min(most, memory_bytes // each))


class BlockMaker:
    """Gets the blocks that a queue asks for, and makes the blocks that are missing.

    Each block is the work of one task (`_get`), a generator that yields while the task waits. Many
    tasks are in work at a time, because each waits for requests to a store. Only a few threads go
    on with the tasks that are ready, so that they don't compete for the GIL with each other and
    with the training loop. Tasks begin, and go on, in the order in which the queue asks for blocks.

    The engine that reads row groups is made when the first block is missing.

    Args:
        store: the store that keeps the blocks.
        keys: the names of the blocks.
        make_engine: makes an engine that reads row groups in stored order, and calls the kernels
            at the start of `preprocess`.
        batch_rows: rows of a record batch.
        outputs: the outputs of the engine.
        steps: the steps of `preprocess`; Python runs the steps that the engine leaves.
        fields: the fields of the outputs after `preprocess`.
        files: the files of the dataset.
        at_once: the number of row groups in work at a time.
        row_bytes: bytes of a row in memory.
        behind_bytes: the most bytes of blocks in memory that are not written yet.
        on_failure: called with the error if blocks can't be written, when the maker is closed.
        core_threads: the number of threads that decode.
        patience_s: seconds without progress after which another process that makes a block counts
            as hanging.

    Attributes:
        failures: for each file and row group whose block can't be made, the error.
        queue: the queue that asks for blocks.
    """

    def __init__(
        self,
        store: BlockStore,
        keys: BlockKeys,
        make_engine: Callable[[], Engine],
        *,
        batch_rows: int,
        outputs: Sequence[OutputPlan],
        steps: Steps,
        fields: Mapping[str, Field],
        files: Sequence[SourceFile],
        at_once: int,
        row_bytes: int,
        behind_bytes: int,
        on_failure: Callable[[UncacheableError], None],
        core_threads: int,
        patience_s: float,
    ) -> None:
        self.failures: dict[Key, BaseException] = {}
        self.queue = core.DecodedQueue(at_once)
        self._store = store
        self._keys = keys
        self._make_engine = make_engine
        self._batch_rows = batch_rows
        self._outputs = outputs
        self._steps = steps
        self._fields = fields
        self._files = files
        self._at_once = at_once
        self._row_bytes = row_bytes
        self._behind = WriteBehind(self.queue, behind_bytes, self._written)
        self._on_failure = on_failure
        self._patience_s = patience_s
        self._schema: pa.Schema = arrow_schema(fields)
        self._overhead = FileOverhead.of(self._schema)
        self._engine: Engine | None = None
        self._rows: core.BlockRows | None = None
        self._making = threading.Lock()
        # Only one thread at a time calls the user's functions.
        self._stepping = threading.Lock()
        # While blocks are only to be made: the blocks that exist now, and the errors of others.
        self._warmed: SimpleQueue[tuple[Key, BaseException | None]] | None = None
        # At least two threads, so that one computes while another one writes. Daemon threads,
        # because the wait for their end is limited.
        self._threads = [
            threading.Thread(target=self._work, name="fastload-blocks", daemon=True)
            for _ in range(min(at_once, max(_AT_ONCE, core_threads // 2)))
        ]
        self._pid = os.getpid()
        self._numbers = count()
        self._looking = threading.Lock()
        self._seen = 0  # the queue's count of wakes before the last look for work
        self._in_work = 0
        # The tasks that no thread works on, and the tasks that threads have put back; None stands
        # for a task that is over.
        self._tasks: list[Task] = []
        self._back: deque[Task | None] = deque()

    def start(self) -> None:
        """Start the threads, which hand blocks to the passes that ask the queue."""
        for thread in self._threads:
            thread.start()

    def warm(self, keys: Collection[Key]) -> Iterator[tuple[Key, BaseException | None]]:
        """Start the threads, and make blocks, which stay unread.

        Args:
            keys: the file and row group of each block.

        Yields:
            Each file and row group once its block exists, or with the error because of which the
            block can't be made.
        """
        self._warmed = SimpleQueue()
        self.start()
        for key in keys:
            self.queue.ask(*key)
        for _ in keys:
            yield self._warmed.get()

    def check_room_since(self, began_ns: int) -> None:
        """Check that the blocks which were used or made since a time are still in the cache.

        Raises:
            CacheError: `max_bytes` do not hold these blocks.
        """
        self._store.check_room_since(began_ns)

    def counts(self) -> dict[str, int]:
        """Return the counters of the engine that reads row groups, and of dropped blocks."""
        counts = {} if self._engine is None else self._engine.counts()
        return {**counts, "uncached_row_groups": self._behind.dropped}

    def close(self) -> None:
        """End the threads. Idempotent.

        Blocks in memory are written for a few seconds at most; blocks that are not complete are
        given up.
        """
        if self._pid != os.getpid():
            return
        self.queue.close()
        with self._making:
            if self._engine is not None:
                self._engine.close()
        self._steps.close()
        until = time.monotonic() + _END_S
        self._behind.close(_END_S)
        if self._behind.error is not None:
            self._on_failure(self._behind.error)
        for thread in self._threads:
            if thread.ident is not None and thread is not threading.current_thread():
                thread.join(max(0.0, until - time.monotonic()))

    def read(
        self, file: int, row_group: int, add: Callable[[RecordBatch], None]
    ) -> Generator[Wait, None, None]:
        """Read the rows of a row group that stay, as part of a task.

        Args:
            file: the index of the file.
            row_group: the index of the row group in the file.
            add: called with each record batch.

        Yields:
            What the task waits for.
        """
        engine = self._opened()
        rows = self._keys.rows(file, row_group)
        plan = row_group_plan(file, row_group, rows, self._batch_rows, engine.budget.stripe_rows)
        scan = engine.start(plan, self._batch_rows, wakes=self.queue)
        with contextlib.closing(scan):
            yield scan
            while (lent := scan.next()) is not None:
                add(self.record_batch(lent))
                if scan.waits:
                    yield scan

    def record_batch(self, lent: core.LentBatch) -> RecordBatch:
        """Turn rows that were read into a record batch, by way of the steps.

        Args:
            lent: the rows, as a batch of the core.

        Raises:
            Exception: the error of a step.
            UncacheableError: an output of the steps can't be stored in blocks.
        """
        if self._rows is not None and lent.failed_kernel < 0:
            return self._rows.of(lent)
        return record_batch(self._schema, self._fields, self._stepped(lent))

    def _opened(self) -> Engine:
        """Return the engine that reads row groups, which the first call makes."""
        with self._making:
            if self.queue.closed:
                raise RuntimeError("The dataset was closed")
            if self._engine is None:
                engine = self._make_engine()
                if not self._steps and all(output.row_major for output in self._outputs):
                    shown = [n for n, output in enumerate(self._outputs) if not output.hidden]
                    self._rows = engine.pipeline.block_rows(self._schema, shown)
                self._engine = engine
            return self._engine

    def _stepped(self, lent: core.LentBatch) -> Batch:
        assert self._engine is not None
        batch = self._engine.batch_of(lent, None)[0]
        if not self._steps:
            return batch
        with self._stepping:
            running = run_steps(batch, self._steps, SeedKey(0, 0), self._files, self._steps.pool)
            while True:
                try:
                    next(running).wait()
                except StopIteration as end:
                    made: Batch = end.value
                    return made

    def _get(self, file: int, row_group: int) -> Generator[Wait, None, None]:
        """Get one block, as a task: look the block up, make it if it is missing, hand it over.

        Yields:
            What the task waits for.

        Raises:
            Exception: the block can't be made.
        """
        name = self._keys.name(file, row_group)
        failures = 0
        while failures < _MOST_FAILURES:
            checksum = 0
            if self._store.touch_if_exists(name):
                yield 0.0  # any thread may open the entry, which means comparing its checksum
            else:
                made = yield from self._make(file, row_group, name)
                if made is None:
                    return
                checksum = made
            opened = self._hand_over(file, row_group, name, checksum)
            if opened:
                return
            if opened is False:
                self._store.remove(name)
            # An entry that another process has just removed is no failure.
            failures += opened is False or self._store.touch_if_exists(name)
        raise UncacheableError(self._store.why_unusable(name))

    def _make(self, file: int, row_group: int, name: str) -> Generator[Wait, None, int | None]:
        """Make one block, as part of a task: lock the entry, read, write, publish.

        If the limit of memory allows, passes get the block from memory, and the block is written
        behind.

        Yields:
            What the task waits for.

        Returns:
            The checksum of the entry; 0 if another process has written the entry; None if passes
            have the block from memory.

        Raises:
            UncacheableError: the entry can't be written, or the process that holds the lock
                makes no progress.
        """
        writer = yield from self._lock(name)
        if writer is None:
            return 0
        with contextlib.ExitStack() as stack:
            stack.callback(writer.close)
            nbytes = self._keys.rows(file, row_group) * self._row_bytes
            if self._warmed is None and (
                yield from self._behind.wait_for_room((file, row_group), nbytes)
            ):
                stack.callback(self._behind.give_back, nbytes)
                batches: list[core.BlockBatch] = []
                yield from self.read(file, row_group, lambda one: batches.append(_of_core(one)))
                stack.pop_all()
                self._behind.put((file, row_group), writer, batches, self._overhead, nbytes)
                return None
            writer.begin(self._schema, self._overhead)
            yield from self.read(file, row_group, writer.add)
            checksum = writer.publish()
        self._store.describe(name, self._files[file])
        return checksum

    def _lock(self, name: str) -> Generator[Wait, None, EntryWriter | None]:
        """Lock an entry, as part of a task.

        While another process holds the lock, the task looks from time to time whether the entry
        has appeared.

        Yields:
            What the task waits for.

        Returns:
            The right to write the entry; None if another process has written the entry.

        Raises:
            UncacheableError: entries can't be written, or the process that holds the lock makes
                no progress.
        """
        if self._behind.error is not None:
            raise self._behind.error
        # 0 is not -1: a process that wrote the entry, or removed what was left, may just be done.
        seen_ns, until, poll_s = 0, 0.0, _FIRST_POLL_S
        while (writer := EntryWriter.lock(self._store, name)) is None:
            if self._store.touch_if_exists(name):
                return None
            written_ns, now = self._store.part_written_ns(name), time.monotonic()
            if written_ns != seen_ns:
                seen_ns, until = written_ns, now + self._patience_s
            elif now > until:
                raise UncacheableError("another process holds a row group without filling it")
            yield now + poll_s
            poll_s = min(_MOST_POLL_S, 2 * poll_s)
        return writer

    def _written(self, key: Key, name: str, checksum: int) -> None:
        """Note a block that was written behind."""
        self.queue.note_written(*key, checksum)
        self._store.describe(name, self._files[key[0]])

    def _hand_over(self, file: int, row_group: int, name: str, checksum: int) -> bool | None:
        """Open a block for the passes that wait for the block.

        Args:
            file: the index of the file.
            row_group: the index of the row group in the file.
            name: the name of the block.
            checksum: the checksum of a block that this process has just written, else 0.

        Returns:
            True if the block is open, None if it can't be opened, False if it is damaged.
        """
        if self._warmed is not None:
            if not checksum and not self._store.touch_if_exists(name):
                return None
            self._warmed.put(((file, row_group), None))
            return True
        rows = self._keys.rows(file, row_group)
        path = self._store.path(name)
        return self.queue.open(file, row_group, path, name, rows, written=checksum)

    def _fail(self, file: int, row_group: int, error: BaseException) -> None:
        """Raise the error of a task in the passes that wait for the task's block."""
        if self._warmed is not None:
            self._warmed.put(((file, row_group), error))
            return
        message, corrupt = str(error), isinstance(error, CorruptFileError)
        if not corrupt:
            self.failures[file, row_group] = error
            location = f"{self._files[file].path}, row group {row_group}"
            what = f"{type(error).__name__}: {error}"
            message = f"Expected a block of decoded rows, got {what} - at {location}"
        self.queue.fail(file, row_group, corrupt=corrupt, message=message)

    def _work(self) -> None:
        """Go on with tasks until the queue is closed. Each thread runs this method."""
        while (task := self._next()) is not None:
            self._back.append(self._gone_on(*task[:3]))
            self.queue.wake()

    def _gone_on(self, number: int, key: Key, task: Generator[Wait, None, None]) -> Task | None:
        """Go on with a task until it has to wait; return None if the task is over."""
        try:
            return number, key, task, next(task)
        except StopIteration:
            return None
        except BaseException as error:  # noqa: BLE001 - raised where the batch is asked for
            self._fail(*key, error)
            return None

    def _next(self) -> Task | None:
        """Return a task that is ready; None when the queue is closed.

        One thread at a time waits here, and begins the tasks of blocks requested meanwhile.
        """
        with self._looking:
            while not self.queue.closed:
                self._behind.finish_written()
                self._take_back()
                self._begin()
                now = time.monotonic()
                for index, task in enumerate(self._tasks):
                    wait = task[3]
                    if wait <= now if isinstance(wait, float) else not wait.waits:
                        return self._tasks.pop(index)
                times = [task[3] for task in self._tasks if isinstance(task[3], float)]
                idle_s = min([_IDLE_S, *(max(_LEAST_S, until - now) for until in times)])
                self._seen = self.queue.wait(self._seen, idle_s)
            self._take_back()
            while self._tasks:
                self._tasks.pop()[2].close()
            return None

    def _take_back(self) -> None:
        while self._back:
            task = self._back.popleft()
            if task is None:
                self._in_work -= 1
            else:
                insort(self._tasks, task, key=itemgetter(0))

    def _begin(self) -> None:
        while self._in_work < self._at_once and (key := self.queue.take()) is not None:
            task = self._gone_on(next(self._numbers), key, self._get(*key))
            if task is not None:
                self._in_work += 1
                self._tasks.append(task)


def _of_core(batch: RecordBatch) -> core.BlockBatch:
    """Return a record batch in memory of the core, which any thread may free."""
    return batch if isinstance(batch, core.BlockBatch) else core.BlockBatch.copied(batch)
