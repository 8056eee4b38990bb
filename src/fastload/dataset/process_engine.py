"""The engine of each process that reads a dataset."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from torch.utils.data import get_worker_info

from fastload.batch.transport import Destination
from fastload.dataset.loaders.prefetcher import memory_of_batches
from fastload.dataset.passes.epoch_iterator import copies_warning
from fastload.engine.budget import Budget, divide_budget
from fastload.engine.cache.block_engine import BlockArguments, BlockEngine
from fastload.engine.engine import Engine
from fastload.engine.work_units import work_units
from fastload.runtime.cores import RankCores
from fastload.runtime.user_warnings import warn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastload.batch.transfer import PinnedMemory
    from fastload.engine.cache.cache import DecodedCache
    from fastload.engine.cache.maker import BlockMaker
    from fastload.plan.options import Options
    from fastload.rows.epoch_rows import EpochRows
    from fastload.runtime.native import core
    from fastload.schema.projection import OutputPlan, Projection
    from fastload.source.source import Source
    from fastload.source.stores.io import IO
    from fastload.steps.kernel_plan import CoreKernel

__all__ = ["ProcessEngine"]

# A request for less takes longer than its bytes.
_FEW_BYTES = 1 << 20


@dataclass(kw_only=True)
class ProcessEngine:
    """What the engines that read a dataset have in common, and the one of this process.

    source: the files.
    projection: the columns to decode.
    outputs: of a batch, the projection's first.
    kernels: that the core calls on each batch.
    rows: of an epoch.
    options: that decide the order.
    batch_rows: rows of the core's batches.
    yields_rows: the dataset hands out rows, not these batches.
    fixed_stripes: as `divide_budget` takes it.
    io, threads, memory_budget, prefetch, pin_memory: as `FastParquetDataset` takes them.
    dataset: names the dataset, in worker processes the same.
    blocks: the decoded tier of its cache; None = there is none.
    current: of this process, or of the one that it was forked from; None = not made yet.
    span_capacity: of the recorder of `current`; 0 = it is off.
    cores: that it shares with other processes.
    told: of what, in this process.
    """

    source: Source
    projection: Projection
    outputs: Sequence[OutputPlan]
    kernels: Sequence[CoreKernel]
    rows: EpochRows
    options: Options
    batch_rows: int
    yields_rows: bool
    fixed_stripes: bool
    io: IO
    threads: int | None
    memory_budget: int
    prefetch: int
    pin_memory: bool | Literal["auto"]
    dataset: str
    blocks: DecodedCache | None
    current: Engine | None = None
    span_capacity: int = 0
    cores: RankCores = field(default_factory=RankCores)
    told: set[str] = field(default_factory=set)

    def of_process(self, workers: int) -> Engine:
        """The engine of this process, one of `workers`; made when it is first asked for."""
        of_blocks = self.blocks is not None and self.blocks.usable
        if self.current is not None and self.current.mine:
            if of_blocks == isinstance(self.current, BlockEngine):
                return self.current
            self.current.close()
        made = self._of_blocks(workers) if of_blocks else None
        self.current = made or self.another(workers, *self._batch_memory())
        if made is None:
            self._tell_of_small_reads(self.current.budget)
        self._tell_of_few_threads(self.current.budget)
        if self.span_capacity and (self.yields_rows or get_worker_info() is None):
            self.current.pipeline.start_spans(self.span_capacity)
        return self.current

    def of_files(self, workers: int) -> Engine:
        """The engine of this process, from now on one that reads the files."""
        if self.current is not None and self.current.mine:
            self.current.close()
        self.current = self.another(workers, *self._batch_memory())
        return self.current

    @property
    def steps_s(self) -> float:
        """Seconds that the consumer of blocks has waited for steps."""
        return 0.0 if self.blocks is None else self.blocks.steps_s

    def block_maker(self) -> BlockMaker | None:
        """Make what makes blocks in this process; None where they are of no use."""
        return None if self.blocks is None else self.blocks.maker(self._process(workers=1))

    def another(
        self,
        workers: int = 1,
        allocate: PinnedMemory | None = None,
        home: Destination | None = None,
        *,
        inline: bool = False,
    ) -> Engine:
        """One more engine, for one of `workers` processes.

        allocate, home: as `Engine` takes them.
        inline: without threads.
        """
        budget = self.budget(workers)
        if inline:
            budget = replace(budget, threads=0)
        return Engine(
            self.source,
            self.projection,
            self.outputs,
            budget,
            self.io,
            self.rows.files,
            allocate,
            home,
            self.kernels,
        )

    def _of_blocks(self, workers: int) -> BlockEngine | None:
        assert self.blocks is not None
        process, of_files = self._process(workers), partial(self.of_files, workers)
        return self.blocks.engine(process, *self._batch_memory(), of_files)

    def _process(self, workers: int) -> BlockArguments:
        threads, memory = self._threads(workers), self.memory_budget // workers
        return BlockArguments(
            threads,
            self.io,
            self.rows.files,
            self.rows.row_groups,
            skip=self.fixed_stripes,
            divide=partial(self._divided, memory, threads),
        )

    def _batch_memory(self) -> tuple[PinnedMemory | None, Destination | None]:
        """What makes the memory of batches, and where they go."""
        if self.yields_rows:
            return None, None  # rows are for DataLoader to collate, in memory of its own
        if get_worker_info() is not None:
            return None, Destination(self.dataset, copies_warning(self.memory_budget))
        return memory_of_batches(self.pin_memory), None

    def _threads(self, workers: int) -> int:
        return self.cores.of_process(workers) if self.threads is None else self.threads

    def budget(self, workers: int) -> Budget:
        """Threads and memory of one of `workers` processes.

        Raises:
            ValueError: the windows, or a few batches, exceed the memory budget.
        """
        extra = self.outputs[len(self.projection.outputs) :]
        extra_bytes = sum(output.field.item_bytes for output in extra)
        memory = self.memory_budget // workers
        return self._divided(memory, self._threads(workers), self.projection, extra_bytes)

    def _divided(
        self, memory_budget: int, threads: int, projection: Projection, extra_bytes: int
    ) -> Budget:
        """How a budget is divided; `extra_bytes` has a row beside the projection."""
        return divide_budget(
            memory_budget,
            batch_size=self.batch_rows,
            row_bytes=projection.row_bytes + extra_bytes,
            staged_row_bytes=projection.staged_row_bytes,
            total_rows=self.rows.row_groups.total_rows,
            shuffle_window=self.options.shuffle_window if self.options.shuffle else None,
            columns=len(projection.columns),
            work=work_units(projection.outputs),
            threads=threads,
            prefetch=self.prefetch,
            row_group_rows=self.source.most_row_group_rows,
            fixed_stripes=self.fixed_stripes,
        )

    def _tell_of_small_reads(self, budget: Budget) -> None:
        """Warns where a store is asked for little at a time."""
        row_group_bytes = self.source.most_row_group_rows * self.projection.row_bytes
        little = budget.fetch_bytes < min(_FEW_BYTES, row_group_bytes)
        if little and self.source.remote:
            self._tell(
                f"leaves {budget.fetch_bytes} bytes for what is on its way from the store, so "
                "that it is read in many small requests: raise it, or have a smaller batch_size "
                "or shuffle_window"
            )

    def _tell_of_few_threads(self, budget: Budget) -> None:
        """Warns where fewer threads shuffle than were asked for."""
        if self.threads is not None and budget.threads < self.threads:
            self._tell(
                f"has room for {budget.threads} of {self.threads} threads that shuffle such "
                "windows: raise it, or have a smaller shuffle_window"
            )

    def _tell(self, what: str) -> None:
        """Warns once in a process, of what the memory budget is too small for."""
        if what not in self.told:
            self.told.add(what)
            warn(f"memory_budget={self.memory_budget} {what}")

    def start_spans(self, capacity: int) -> None:
        """Records spans from now on; an engine that is made later does, too."""
        self.span_capacity = capacity
        if self.current is not None and self.current.mine:
            self.current.pipeline.start_spans(capacity)

    def stop_spans(self) -> tuple[list[core.RecordedSpan], list[str], int]:
        """What the core recorded: as `Pipeline.stop_spans` has it."""
        self.span_capacity = 0
        if self.current is None or not self.current.mine:
            return [], [], 0
        return self.current.pipeline.stop_spans()

    def __getstate__(self) -> dict[str, Any]:
        # Threads, memory and what is recorded belong to this process.
        return {**self.__dict__, "current": None, "span_capacity": 0}
