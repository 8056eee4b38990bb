"""Engine of a pass that reads rows from blocks."""

from __future__ import annotations

import multiprocessing
import weakref
from multiprocessing.util import Finalize
from typing import TYPE_CHECKING, NamedTuple

from fastload.engine.engine import Engine
from fastload.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fastload.batch.pinned_memory import PinnedMemory
    from fastload.batch.transport import Destination
    from fastload.engine.budget import Budget
    from fastload.engine.cache.maker import BlockMaker
    from fastload.plan.kept_rows import FileRows
    from fastload.plan.sequence import RowGroups
    from fastload.runtime.native import core
    from fastload.schema.fields import Field
    from fastload.schema.projection import OutputPlan, Projection
    from fastload.source.source import Source
    from fastload.source.stores.io import IO
    from fastload.steps.kernel_plan import CoreKernel
    from fastload.steps.steps import Steps

__all__ = ["BlockArguments", "BlockEngine", "BlockPlan"]


class BlockPlan(NamedTuple):
    """The content of blocks, and the batches that are made from blocks.

    Attributes:
        fields: the fields of the outputs after `preprocess`, which blocks contain.
        projection: the projection by which the core reads blocks.
        outputs: the outputs of a batch: the outputs of the projection, then provenance and the
            outputs of kernels.
        kernels: the kernels of `augment`.
        steps: the steps of `augment`.
    """

    fields: dict[str, Field]
    projection: Projection
    outputs: tuple[OutputPlan, ...]
    kernels: tuple[CoreKernel, ...]
    steps: Steps


class BlockArguments(NamedTuple):
    """The arguments of a process for reading and making blocks.

    Attributes:
        threads: the number of threads of the core.
        io: the options for reading files.
        rows: for each file, the rows that stay; () = all rows.
        row_groups: all row groups, with the rows that stay.
        skip: leave out corrupt row groups.
        divide: divides the memory budget of the process, given a projection and the bytes of a row
            outside of the projection.
    """

    threads: int
    io: IO
    rows: Sequence[FileRows]
    row_groups: RowGroups
    skip: bool
    divide: Callable[[Projection, int], Budget]


class BlockEngine(Engine):
    """An engine that reads rows from blocks, and has missing blocks made.

    Args:
        source: the files.
        plan: the content of blocks and of batches.
        process: the arguments of this process.
        budget: the limits of the engine. The maker uses the budget's memory for fetches.
        allocate: allocates the memory of batches, as in `Engine`.
        home: the process to which batches are sent, as in `Engine`.
        maker: makes the missing blocks.

    Attributes:
        replaced: an engine that reads the files has replaced this engine, which is closed.
        steps: the steps to run on the batches: `augment`.
    """

    def __init__(
        self,
        source: Source,
        plan: BlockPlan,
        process: BlockArguments,
        budget: Budget,
        allocate: PinnedMemory | None,
        home: Destination | None,
        maker: BlockMaker,
    ) -> None:
        super().__init__(
            source,
            plan.projection,
            plan.outputs,
            budget,
            process.io,
            process.rows,
            allocate,
            home,
            plan.kernels,
            blocks=maker.queue,
        )
        self.replaced = False
        self.steps = plan.steps
        self._maker = maker
        maker.start()
        self._end_maker = weakref.finalize(self, maker.close)
        if multiprocessing.parent_process() is not None:
            # A forked worker exits without the finalizers of its interpreter.
            Finalize(self, maker.close, exitpriority=0)

    def close(self) -> None:
        """End the threads, those that make blocks first. Idempotent."""
        self._end_maker()
        super().close()

    def next_of(self, scan: core.Scan) -> core.LentBatch | None:
        """Return the next batch of a scan, or None at the end of the scan.

        Raises:
            BaseException: the error because of which a block of the batch could not be made.
        """
        try:
            return scan.next()
        except StorageError:
            if scan.damage is None:
                raise
            cause = self._maker.failures.get(scan.damage[1:])
            if cause is None:
                raise
            raise cause from None

    def counts(self) -> dict[str, int]:
        """Return the counters of all stages, including the stages that make blocks."""
        counts = super().counts()
        for name, count in self._maker.counts().items():
            if name == "uncached_row_groups":
                counts[name] = count
            elif name.startswith(("read_", "decode")) or name in ("kernel_calls", "kernel_ns"):
                counts[name] += count
        return counts
