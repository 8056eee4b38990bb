"""The engine of a pass whose rows come from blocks."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from fastload.engine.cache.workers import QueueRequester, start_workers
from fastload.engine.engine import Engine
from fastload.errors import StorageError
from fastload.runtime.native import core

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fastload.batch.transfer import PinnedMemory
    from fastload.batch.transport import Destination
    from fastload.engine.budget import Budget
    from fastload.engine.cache.maker import BlockMaker
    from fastload.plan.kept_rows import FileRows
    from fastload.plan.read_plan import RowGroups
    from fastload.schema.fields import Field
    from fastload.schema.projection import OutputPlan, Projection
    from fastload.source.source import Source
    from fastload.source.stores.io import IO
    from fastload.steps.kernel_plan import CoreKernel
    from fastload.steps.steps import Steps

__all__ = ["BlockArguments", "BlockEngine", "BlockPlan"]


class BlockPlan(NamedTuple):
    """What blocks hold, and what is made of them.

    fields: of the outputs after `preprocess`.
    projection: how the core reads these.
    outputs: of a batch, those behind them and of kernels too.
    kernels: of `augment`.
    steps: `augment`.
    """

    fields: dict[str, Field]
    projection: Projection
    outputs: tuple[OutputPlan, ...]
    kernels: tuple[CoreKernel, ...]
    steps: Steps


class BlockArguments(NamedTuple):
    """What a process has for blocks.

    threads: of the core.
    io: how files are read.
    rows: by file, its rows that stay; () = all.
    row_groups: all, with the rows that stay.
    skip: leave out row groups that are corrupt.
    divide: from a projection and bytes of a row beside that to how the memory budget of the
        process is divided.
    """

    threads: int
    io: IO
    rows: Sequence[FileRows]
    row_groups: RowGroups
    skip: bool
    divide: Callable[[Projection, int], Budget]


class BlockEngine(Engine):
    """An engine whose rows come from blocks.

    Args:
        source: the files.
        plan: what blocks hold.
        process: what this process has.
        budget: of the engine. The memory that it has for fetches is the maker's.
        allocate, home: as `Engine` takes them.
        maker: makes the blocks that are missing.
        of_files: makes the engine of the process that reads the files instead.
        refuse: called with the reason why blocks can't be kept.

    Attributes:
        of_files, refuse: as the engine was made with.
        steps: what is left of the dataset's for the batches: `augment`.
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
        of_files: Callable[[], Engine],
        refuse: Callable[[BaseException], None],
    ) -> None:
        queue = core.DecodedQueue(maker.at_once)
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
            blocks=queue,
        )
        self.of_files = of_files
        self.refuse = refuse
        self.steps = plan.steps
        self._maker = maker
        requester = QueueRequester(maker, queue)
        self._failures = requester.failures
        end = start_workers(maker, queue, requester, self)
        self.close = partial(_close, end, self.close)

    def next_of(self, scan: core.Scan) -> core.LentBatch | None:
        """Return the next batch of a scan. Raises what kept its blocks from being made."""
        try:
            return scan.next()
        except StorageError:
            if scan.damage is None:
                raise
            cause = self._failures.get(scan.damage[1:])
            if cause is None:
                raise
            raise cause from None

    def counts(self) -> dict[str, int]:
        """Return what any engine does, and what making blocks took."""
        counts = super().counts()
        for name, count in self._maker.counts().items():
            if name.startswith(("read_", "decode")) or name in ("kernel_calls", "kernel_ns"):
                counts[name] += count
        return counts


def _close(*ends: Callable[[], object]) -> None:
    for end in ends:
        end()
