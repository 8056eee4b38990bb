"""Maker of blocks: reads row groups, and turns their rows into record batches."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from fastload.engine.cache.arrow_format import FileOverhead, arrow_schema, record_batch
from fastload.plan.read_plan import row_group_plan
from fastload.steps.run import SeedKey, run_steps

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa

    from fastload.batch.batch import Batch
    from fastload.engine.cache.keys import BlockKeys
    from fastload.engine.cache.store import BlockStore
    from fastload.engine.engine import Engine
    from fastload.runtime.native import core
    from fastload.schema.fields import Field
    from fastload.schema.projection import OutputPlan
    from fastload.source.files import SourceFile
    from fastload.steps.steps import Steps

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
    """Makes the blocks of a dataset in this process.

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
        core_threads: the number of threads that decode.
        patience_s: seconds without progress after which another process that makes a block counts
            as hanging.

    Attributes:
        at_once: the number of row groups in work at a time.
        keys: the names of the blocks.
        overhead: the most bytes that a block takes in addition to its values.
        patience_s: seconds without progress after which another process counts as hanging.
        schema: the Arrow schema of the blocks.
        steps: the steps of `preprocess`.
        store: the store that keeps the blocks.
        threads: the number of threads that compute and write.
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
        core_threads: int,
        patience_s: float,
    ) -> None:
        self.store = store
        self.keys = keys
        self.at_once = at_once
        self.patience_s = patience_s
        self.steps = steps
        self.schema: pa.Schema = arrow_schema(fields)
        self.overhead = FileOverhead.of(self.schema)
        # At least two threads, so that one computes while another one writes.
        self.threads = min(at_once, max(_AT_ONCE, core_threads // 2))
        self._make_engine = make_engine
        self._engine: Engine | None = None
        self._batch_rows = batch_rows
        self._outputs = outputs
        self._fields = fields
        self._files = files
        self._rows: core.BlockRows | None = None
        self._closed = False
        self._making = threading.Lock()
        # Only one thread at a time calls the user's functions.
        self._stepping = threading.Lock()

    def start(self, file: int, row_group: int, queue: core.DecodedQueue) -> core.Scan:
        """Start to read the rows of a row group that stay.

        Args:
            file: the index of the file.
            row_group: the index of the row group in the file.
            queue: the queue to wake when rows have been read.

        Returns:
            The scan that delivers the rows.
        """
        engine = self._opened()
        rows = self.keys.rows(file, row_group)
        plan = row_group_plan(file, row_group, rows, self._batch_rows, engine.budget.stripe_rows)
        return engine.start(plan, self._batch_rows, wakes=queue)

    def record_batch(self, lent: core.LentBatch) -> core.BlockBatch | pa.RecordBatch:
        """Turn rows that were read into a record batch, by way of the steps.

        Args:
            lent: the rows, as a batch of the core.

        Raises:
            Exception: the error of a step.
            UnfitOutputError: an output of the steps can't be stored in blocks.
        """
        if self._rows is not None and lent.failed_kernel < 0:
            return self._rows.of(lent)
        return record_batch(self.schema, self._fields, self._stepped(lent))

    def location(self, file: int, row_group: int) -> str:
        """Return the path of the file and the index of a row group, for messages."""
        return f"{self._files[file].path}, row group {row_group}"

    def describe(self, name: str, file: int) -> None:
        """Write a description of an entry's file next to the entry, for people to read."""
        self.store.describe(name, self._files[file])

    def counts(self) -> dict[str, int]:
        """Return the counters of the engine that reads row groups; {} if none was made."""
        return {} if self._engine is None else self._engine.counts()

    def close(self) -> None:
        """End the threads. Idempotent."""
        with self._making:
            self._closed = True
            if self._engine is not None:
                self._engine.close()
        self.steps.close()

    def _opened(self) -> Engine:
        """Return the engine that reads row groups, which the first call makes."""
        with self._making:
            if self._closed:
                raise RuntimeError("The dataset was closed")
            if self._engine is None:
                engine = self._make_engine()
                if not self.steps and all(output.row_major for output in self._outputs):
                    shown = [n for n, output in enumerate(self._outputs) if not output.hidden]
                    self._rows = engine.pipeline.block_rows(self.schema, shown)
                self._engine = engine
            return self._engine

    def _stepped(self, lent: core.LentBatch) -> Batch:
        assert self._engine is not None
        batch = self._engine.batch_of(lent, None)[0]
        if not self.steps:
            return batch
        with self._stepping:
            running = run_steps(batch, self.steps, SeedKey(0, 0), self._files, self.steps.pool)
            while True:
                try:
                    next(running).wait()
                except StopIteration as end:
                    made: Batch = end.value
                    return made
