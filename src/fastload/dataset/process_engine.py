"""The engine of each process that reads a dataset."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol

from torch.utils.data import get_worker_info

from fastload.batch.pinned_memory import memory_of_batches
from fastload.batch.transport import Destination
from fastload.engine.budget import Budget, divide_budget, work_units
from fastload.engine.engine import Engine
from fastload.engine.prepared_engine import PreparedEngine
from fastload.runtime.cores import RankCores
from fastload.runtime.user_warnings import warn
from fastload.steps.kernel_plan import plan_kernels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastload.batch.pinned_memory import PinnedMemory
    from fastload.errors import FastloadError
    from fastload.plan.options import Options
    from fastload.rows.selection import EpochRows
    from fastload.runtime.native import core
    from fastload.schema.projection import OutputPlan, Projection
    from fastload.source.source import Source
    from fastload.source.stores.io import IO
    from fastload.steps.kernel_plan import CoreKernel
    from fastload.steps.steps import Steps

__all__ = ["ProcessEngine"]

# For a request of fewer bytes, the round trip takes longer than the transfer.
_FEW_BYTES = 1 << 20


class Prepared(Protocol):
    """The prepared rows of a dataset, as `PreparedRows` implements them."""

    @property
    def usable(self) -> bool:
        """True unless this process has found that it can't use prepared rows."""

    @property
    def steps_s(self) -> float:
        """Seconds that the consumer of prepared rows has waited for steps."""

    def code(self) -> str:
        """Return a digest of the steps' code, with the values to which the code refers now."""

    def engine(
        self,
        engines: ProcessEngine,
        workers: int,
        allocate: PinnedMemory | None,
        home: Destination | None,
    ) -> PreparedEngine | None:
        """Make the engine that reads prepared rows in this process, once all rows are prepared."""

    def mend(self, engine: PreparedEngine, error: FastloadError) -> None:
        """Remove the file in which a pass has found damage."""


@dataclass(kw_only=True)
class ProcessEngine:
    """The engine of this process for a dataset, and the arguments for making such engines.

    Attributes:
        source: the files.
        projection: the columns to decode.
        outputs: the outputs of a batch, beginning with the projection's outputs.
        extra_bytes: bytes of a row in a batch besides the projection's bytes.
        kernels: the kernels that the core calls on each batch.
        rows: the rows of an epoch.
        options: the options that decide the order.
        window: rows of the windows that a pass holds as a whole; None = it needs none.
        batch_rows: number of rows in the core's batches.
        buffers: as in `divide_budget`, where rows vary in length.
        fixed_stripes: as in `divide_budget`.
        io: as in `FastParquetDataset`.
        threads: as in `FastParquetDataset`.
        memory_budget: as in `FastParquetDataset`, in bytes.
        prefetch: as in `FastParquetDataset`.
        pin_memory: as in `FastParquetDataset`.
        dataset: an identifier of the dataset, the same in worker processes.
        prepared: the prepared rows in the dataset's cache; None = there are none.
        current: the engine of this process, or after a fork of the parent; None = not made yet.
        made_for: the `window` of `current`, and the digest of the code that prepared its rows.
        span_capacity: capacity of the span recorder of `current`; 0 = the recorder is off.
        traced_by: number of the process that records spans; 0 = none does.
        cores: the cores that this process shares with other processes.
        warned: texts of the warnings that this process has given.
    """

    source: Source
    projection: Projection
    outputs: Sequence[OutputPlan]
    extra_bytes: int
    kernels: Sequence[CoreKernel]
    rows: EpochRows
    options: Options
    window: int | None
    batch_rows: int
    buffers: int
    fixed_stripes: bool
    io: IO
    threads: int | None
    memory_budget: int
    prefetch: int
    pin_memory: bool | Literal["auto"]
    dataset: str
    prepared: Prepared | None
    current: Engine | None = None
    made_for: tuple[int | None, str] | None = None
    span_capacity: int = 0
    traced_by: int = 0
    cores: RankCores = field(default_factory=RankCores)
    warned: set[str] = field(default_factory=set)

    def of_process(self, workers: int) -> Engine:
        """Return the engine of this process, one of `workers`; the first call makes the engine."""
        prepared = self.prepared if self.prepared is not None and self.prepared.usable else None
        code = "" if prepared is None else prepared.code()
        if self.current is not None and self.current.mine:
            same = prepared is None or isinstance(self.current, PreparedEngine)
            if same and self.made_for == (self.window, code):
                return self.current
            self.current.close()
            self.current = None  # the next call makes an engine, even if this one raises
        self.made_for = self.window, code
        made = None
        if prepared is not None:
            made = prepared.engine(self, workers, *self.batch_memory())
        self.current = made or self.another(workers, *self.batch_memory(), keeps=True)
        if made is None:
            self._warn_of_small_reads(self.current.budget)
        self._warn_of_few_threads(self.current.budget)
        if self.span_capacity and get_worker_info() is None:
            self.current.pipeline.start_spans(self.span_capacity)
        return self.current

    @property
    def steps_s(self) -> float:
        """Seconds that the consumer of prepared rows has waited for steps."""
        return 0.0 if self.prepared is None else self.prepared.steps_s

    def another(
        self,
        workers: int = 1,
        allocate: PinnedMemory | None = None,
        home: Destination | None = None,
        *,
        inline: bool = False,
        keeps: bool = False,
        by_number: bool = False,
    ) -> Engine:
        """Make a new engine for one of `workers` processes.

        Args:
            workers: number of processes that divide the budget.
            allocate: as in `Engine`.
            home: as in `Engine`.
            inline: True for an engine without threads.
            keeps: True for an engine that keeps pages in memory from one pass to the next.
            by_number: as in `Engine`.
        """
        budget = self.budget(workers)
        if not keeps:
            budget = replace(budget, kept_bytes=0)
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
            by_number=by_number,
        )

    def beside(
        self, projection: Projection, extra: Sequence[OutputPlan], steps: Steps
    ) -> ProcessEngine:
        """Return the arguments for engines that read a few rows beside the passes.

        Args:
            projection: the columns to decode.
            extra: the outputs that are not columns of the files.
            steps: the steps that the rows pass through.
        """
        outputs, kernels = plan_kernels(steps, projection.outputs, extra)
        return replace(
            self,
            projection=projection,
            outputs=outputs,
            kernels=kernels,
            window=None,
            prepared=None,
            current=None,
        )

    def mended(self, engine: PreparedEngine, error: FastloadError) -> Engine:
        """Return the engine for the rest of a pass that found prepared rows damaged or gone."""
        assert self.prepared is not None
        if engine is self.current:  # else a pass before has met the damage
            self.prepared.mend(engine, error)
            engine.close()
            self.current = None
        info = get_worker_info()
        return self.of_process(1 if info is None else info.num_workers)

    def batch_memory(self) -> tuple[PinnedMemory | None, Destination | None]:
        """Return the allocator of batch memory and the destination of batches; None = default."""
        if get_worker_info() is not None:
            return None, Destination(self.dataset, self.copies_warning)
        return memory_of_batches(self.pin_memory), None

    def _threads(self, workers: int) -> int:
        return self.cores.of_process(workers) if self.threads is None else self.threads

    def budget(self, workers: int) -> Budget:
        """Return the threads and memory of one of `workers` processes.

        Raises:
            ValueError: the windows, or a few batches, exceed the memory budget.
        """
        return self.divided(workers, self.projection, self.extra_bytes)

    def divided(self, workers: int, projection: Projection, extra_bytes: int) -> Budget:
        """Divide the memory of one of `workers` processes.

        Args:
            workers: number of processes that divide the budget.
            projection: the columns to decode.
            extra_bytes: bytes of a row in a batch besides the projection's bytes.

        Raises:
            ValueError: as `budget`.
        """
        return divide_budget(
            self.memory_budget // workers,
            batch_size=self.batch_rows,
            row_bytes=projection.row_bytes + extra_bytes,
            staged_row_bytes=projection.staged_row_bytes,
            total_rows=self.rows.row_groups.total_rows,
            shuffle_window=self.window,
            columns=len(projection.columns),
            work=work_units(projection.outputs),
            threads=self._threads(workers),
            prefetch=self.prefetch,
            row_group_rows=self.source.most_row_group_rows,
            fixed_stripes=self.fixed_stripes,
            slices=self.options.canonical_ranks or 1,
            buffers=self.buffers if projection.staged_row_bytes else 1,
        )

    @property
    def copies_warning(self) -> str:
        """The warning for the first batch that is handed out as a copy."""
        return (
            "Batches that the program keeps hold all the memory that memory_budget="
            f"{self.memory_budget} leaves for batches; from now on batches come as copies in "
            "ordinary memory. To keep batches, or one column of each, keep batch.clone() or "
            "column.clone(), or raise memory_budget"
        )

    def _warn_of_small_reads(self, budget: Budget) -> None:
        """Warn if the budget makes requests to a store small."""
        row_group_bytes = self.source.most_row_group_rows * self.projection.row_bytes
        little = budget.fetch_bytes < min(_FEW_BYTES, row_group_bytes)
        if little and self.source.remote:
            self._warn_once(
                f"leaves {budget.fetch_bytes} bytes for data on its way from the store, so the "
                "store is read in many small requests: raise memory_budget, or use a smaller "
                "batch_size or shuffle_window"
            )

    def _warn_of_few_threads(self, budget: Budget) -> None:
        """Warn if fewer threads shuffle than `threads` asks for."""
        if self.threads is not None and budget.threads < self.threads:
            self._warn_once(
                f"has room for {budget.threads} of {self.threads} threads that shuffle windows of "
                "this size: raise memory_budget, or use a smaller shuffle_window"
            )

    def _warn_once(self, text: str) -> None:
        """Warn that memory_budget is too small, once in a process for each text."""
        if text not in self.warned:
            self.warned.add(text)
            warn(f"memory_budget={self.memory_budget} {text}")

    def start_spans(self, capacity: int) -> None:
        """Record spans from now on, in the engine of this process and in engines made later."""
        if self.current is not None and self.current.mine:
            self.current.pipeline.start_spans(capacity)
        self.span_capacity, self.traced_by = capacity, os.getpid()

    def stop_spans(self) -> tuple[list[core.RecordedSpan], list[str], int]:
        """Stop recording, and return the spans as `Pipeline.stop_spans` does."""
        self.span_capacity = self.traced_by = 0
        if self.current is None or not self.current.mine:
            return [], [], 0
        return self.current.pipeline.stop_spans()

    def __getstate__(self) -> dict[str, Any]:
        # Threads, memory and recorded spans belong to this process.
        return {**self.__dict__, "current": None, "span_capacity": 0, "traced_by": 0}
