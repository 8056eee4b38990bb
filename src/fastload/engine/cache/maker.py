"""Makes the rows of row groups into record batches of blocks."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from fastload.engine.cache.blocks import Heads, arrow_schema, record_batch
from fastload.plan.read_plan import row_group_plan
from fastload.steps.run import Order, run_steps

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from fastload.batch.batch import Batch
    from fastload.engine.engine import Engine
    from fastload.runtime._core import BlockBatch, BlockRows, DecodedQueue, LentBatch, Scan
    from fastload.schema.fields import Field
    from fastload.schema.projection import OutputPlan
    from fastload.source.files import SourceFile
    from fastload.steps.steps import Steps

__all__ = ["BlockMaker"]


class BlockMaker:
    """Makes the blocks of a dataset in this process.

    Args:
        engine: reads row groups in order, with the kernels that come first.
        batch_rows: rows of a record batch.
        outputs: of the engine.
        steps: preprocess, of which Python does what is left.
        fields: of the outputs.
        files: of the dataset, to name.

    Attributes:
        engine: as it was made with.
        heads: what lies in blocks beside their values.
        schema: of the blocks.
        steps: as it was made with.
    """

    def __init__(
        self,
        engine: Engine,
        batch_rows: int,
        outputs: Sequence[OutputPlan],
        steps: Steps,
        fields: Mapping[str, Field],
        files: Sequence[SourceFile],
    ) -> None:
        self.engine = engine
        self.schema: pa.Schema = arrow_schema(fields)
        self.heads = Heads.of(self.schema)
        self.steps = steps
        self._batch_rows = batch_rows
        self._fields = fields
        self._files = files
        self._rows: BlockRows | None = None
        if not steps and all(output.row_major for output in outputs):
            shown = [number for number, output in enumerate(outputs) if not output.hidden]
            self._rows = engine.pipeline.block_rows(self.schema, shown)
        # Functions of users are not called by two threads at a time.
        self._lock = threading.Lock()

    def start(self, file: int, row_group: int, rows: int, queue: DecodedQueue) -> Scan:
        """Begins to read the rows of a row group that stay, so many.

        queue: is woken when some have been read.
        """
        stripe_rows = self.engine.budget.stripe_rows
        plan = row_group_plan(file, row_group, rows, self._batch_rows, stripe_rows)
        return self.engine.start(plan, self._batch_rows, wakes=queue)

    def record_batch(self, lent: LentBatch) -> BlockBatch | pa.RecordBatch:
        """What is made of some of them. Raises what the steps do."""
        if self._rows is not None and lent.failed_kernel < 0:
            return self._rows.of(lent)
        return record_batch(self.schema, self._fields, self._stepped(lent))

    def close(self) -> None:
        """Ends its threads. Idempotent."""
        self.engine.close()
        self.steps.close()

    def _stepped(self, lent: LentBatch) -> Batch:
        batch = self.engine.batch_of(lent, None)[0]
        if not self.steps:
            return batch
        with self._lock:
            running = run_steps(batch, self.steps, Order(0, 0), self._files, self.steps.pool)
            while True:
                try:
                    next(running).wait()
                except StopIteration as end:
                    made: Batch = end.value
                    return made
