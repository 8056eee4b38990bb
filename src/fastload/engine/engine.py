"""Engine: the core's threads and memory for one dataset in one process."""

from __future__ import annotations

import contextlib
import os
import weakref
from dataclasses import fields
from itertools import starmap
from operator import attrgetter
from typing import TYPE_CHECKING, Literal

from fastload.batch.assembler import Assembler, Output
from fastload.batch.transport import Sender
from fastload.errors import CorruptFileError, StorageError
from fastload.plan.permutation import step_key
from fastload.runtime.child_processes import release_locks_at_interrupt, worker_ends_with_its_pass
from fastload.runtime.native import core
from fastload.runtime.shutdown import wait_for_queues_at_exit
from fastload.runtime.units import parse_bytes
from fastload.schema.column_plan import ColumnPlan
from fastload.schema.columns import DTYPES
from fastload.schema.projection import PACKED_KINDS
from fastload.steps.kernel_calls import raise_failure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import torch

    from fastload.batch.batch import Batch
    from fastload.batch.transport import Destination
    from fastload.engine.budget import Budget
    from fastload.plan.intervals import Int64s
    from fastload.plan.kept_rows import FileRows
    from fastload.plan.read_plan import ReadPlan
    from fastload.plan.sequence import RowGroups
    from fastload.schema.projection import OutputPlan, Projection
    from fastload.source.source import Source
    from fastload.source.stores.io import IO
    from fastload.steps.kernel_plan import CoreKernel

__all__ = ["Engine", "column_specs"]

# A few threads are enough to overlap reads of local files; a reading thread sleeps in the kernel.
_IO_THREADS = 4
# Address space for batches on their way to another process, as a multiple of the batch memory that
# a budget counts.
_MAPPED_BUDGETS = 4
_LEAST_MAPPED_BYTES = 1 << 30
# Shorter holes between two pages of a take are read along. Most takes leave large holes: a page in
# a hole costs more to copy than another call costs.
_PAGE_HOLE_BYTES = 4 << 10
# Where pages lie takes 24 bytes a page.
_MOST_TABLE_BYTES = 64 << 20
_LEAST_TABLE_SHARE = 16
# The share of the budget that decoded dictionaries take at most.
_DICTIONARY_SHARE = 16
# A ColumnPlan has the members of the core's ColumnSpec, in the same order.
_PLANNED = attrgetter(*(member.name for member in fields(ColumnPlan)))


class Engine:
    """The pipeline of one dataset in one process. The threads start when an engine is made.

    Args:
        source: the files.
        projection: the columns to decode.
        outputs: the outputs of a batch: the outputs of the projection, and perhaps provenance.
        budget: the limits of a pass.
        io: the options for reading files.
        rows: for each file, the rows that stay; () = all rows.
        allocate: allocates a uint8 tensor of a given number of bytes as the memory of a batch;
            None = the core allocates.
        home: the process to which batches are sent; None = batches stay in this process.
        kernels: the kernels that the core calls on each batch.
        data: the engine reads the batches of an epoch, and not rows that have to be known before.
        at_once: the number of passes that run at the same time, each within `budget`.
        by_number: the engine serves `take`: where pages lie and decoded dictionaries are kept,
            and few bytes between pages are read along.

    Attributes:
        budget: the limits of a pass.
        lend_bytes: batch memory that the consumers of all passes may hold.
        pipeline: the core's part of the engine.
    """

    def __init__(
        self,
        source: Source,
        projection: Projection,
        outputs: Sequence[OutputPlan],
        budget: Budget,
        io: IO,
        rows: Sequence[FileRows] = (),
        allocate: Callable[[int], torch.Tensor] | None = None,
        home: Destination | None = None,
        kernels: Sequence[CoreKernel] = (),
        *,
        data: bool = True,
        at_once: int = 1,
        by_number: bool = False,
    ) -> None:
        wait_for_queues_at_exit()
        self.budget = budget
        self._source = source
        self._passes = 0
        self._shuffles = False
        release_locks_at_interrupt()
        self._lives_on = not worker_ends_with_its_pass()
        self._most_lent = budget.least_lent_bytes  # what kept pages leave to the consumer
        self._lent_in_pass = 0  # the most that the consumer has held during the pass
        self.lend_bytes = at_once * budget.lend_bytes
        self._pid = os.getpid()
        self._kernels = tuple(kernels)
        assembled = tuple(map(_assembled, outputs))
        self._assembled = assembled
        self._assemble = Assembler(assembled, one_storage=home is not None)
        self._allocates = allocate is not None
        self._sender = None
        if home is not None:
            with contextlib.suppress(StorageError):  # without a sender, torch sends the batches
                self._sender = Sender(
                    assembled,
                    capacity=max(
                        _LEAST_MAPPED_BYTES,
                        _MAPPED_BUDGETS * (budget.window_bytes + budget.lend_bytes),
                    ),
                    lend_bytes=budget.lend_bytes,
                    home=home,
                )
        self._numbers: core.RowNumbers | None = None
        # A quarter of the memory for fetches at most.
        most_requested = max(1, budget.fetch_bytes // 4)
        self._request_bytes = min(parse_bytes(io.request_bytes), most_requested)
        self._hole_bytes = parse_bytes(io.hole_bytes) if io.hole_bytes else 0
        self.pipeline = core.Pipeline(
            files=[file.for_core for file in source.files],
            columns=column_specs(projection.columns),
            outputs=[
                core.OutputSpec(
                    output.kind,
                    output.columns,
                    output.length,
                    output.pad,
                    output.keep_last,
                    output.pad_left,
                    DTYPES[output.field.dtype],
                )
                for output in outputs
            ],
            threads=budget.threads,
            io_threads=min(_IO_THREADS, budget.threads, io.concurrency),
            # `allocate` may have reasons to reuse memory later than the core would, so the core
            # keeps no memory of past batches.
            batch_memory_bytes=0
            if allocate is not None
            else at_once * (budget.window_bytes - budget.staged_bytes + budget.lend_bytes),
            staging_memory_bytes=at_once * budget.staged_bytes,
            fetch_memory_bytes=at_once * budget.fetch_bytes,
            fill_memory_bytes=at_once * budget.memory_bytes,
            kept_memory_bytes=budget.kept_bytes,
            verify_crc=io.verify_crc,
            allocate=allocate,
            sender=None if self._sender is None else self._sender.core,
            remote=source.storage.serve(source.files, data=data),
            kernels=[
                core.KernelSpec(
                    # The kernel object keeps the machine code at this address.
                    address=one.kernel.code(one.arguments).address,
                    inputs=one.inputs,
                    outputs=one.outputs,
                    places=one.places,
                )
                for one in kernels
            ],
            selections=[(file.bits, file.offsets.tolist()) for file in rows],
            **_options_by_number(budget) if by_number else {},
        )
        # Join the threads when the engine is deleted, or at exit, whichever comes first.
        self._end = weakref.finalize(self, self.pipeline.close)

    def counts(self) -> dict[str, int]:
        """Return the counters of all stages, in bytes, nanoseconds and counts."""
        return self.pipeline.counts()

    @property
    def mine(self) -> bool:
        """True if this process made the engine; a child of fork() has to make another one."""
        return self._pid == os.getpid()

    def close(self) -> None:
        """End the threads. Idempotent."""
        self._end()

    @property
    def looks_ahead(self) -> bool:
        """True if the next pass should be prepared: with threads, where a next pass is likely.

        A first pass in order may be the only one, and reads nothing more than its rows. A shuffled
        pass is one of many, except in a worker process that ends with it.
        """
        return self.threaded and (self._passes > 1 or (self._shuffles and self._lives_on))

    @property
    def threaded(self) -> bool:
        """True if threads work while the consumer does not wait for a batch."""
        return self.budget.threads > 0

    def begin(self, scan: core.Scan) -> None:
        """Begin a pass that was prepared.

        Args:
            scan: the prepared scan.
        """
        self._passes += 1
        self._begin_pass()
        scan.begin()

    def start(
        self,
        plan: ReadPlan,
        batch_rows: int,
        before: core.Scan | None = None,
        *,
        again: bool = False,
    ) -> core.Scan:
        """Begin a pass, or prepare the next one.

        Args:
            plan: the rows of the pass and their order.
            batch_rows: rows of a batch.
            before: the running scan. The new scan is only prepared, in the memory that the running
                scan leaves. None = the new scan begins now.
            again: the scan is the rest of a pass that has begun before.

        Returns:
            The scan, which delivers the batches.
        """
        if before is None and not again:
            self._passes += 1
            self._begin_pass()
        self._shuffles = plan.shuffled
        return self.pipeline.start(
            core.ReadPlan(
                batch_rows=batch_rows,
                rows=plan.rows,
                padding=plan.padding,
                shuffled=plan.shuffled,
                pieces=self._pieces(plan),
                takes=plan.takes,
                windows=plan.windows,
                keys=plan.keys,
                substitutes=plan.substitutes,
                batch_edges=plan.batch_edges,
                orders=plan.orders,
                segments=plan.segments,
                lane_of=plan.lane_of.tolist(),
                lane_padding=plan.lane_padding.tolist(),
                copies=plan.copies,
                piece_copies=plan.piece_copies,
            ),
            open_windows=self.budget.open_windows_of(plan.lanes),
            fetch_bytes=self.budget.fetch_bytes,
            segment_bytes=self.budget.segment_bytes,
            request_bytes=self._request_bytes,
            hole_bytes=self._hole_bytes,
            run_batches=self.budget.run_batches,
            before=before,
            kernel_keys=[step_key(plan.seed, plan.epoch, one.step) for one in self._kernels],
        )

    def _pieces(self, plan: ReadPlan) -> Int64s:
        """Return the pieces of a plan, by files and row groups of this engine."""
        return plan.pieces

    def take(self, row_groups: RowGroups, indices: Int64s) -> Batch:
        """Return rows by number, in the order given, as one batch. Thread-safe.

        Args:
            row_groups: all row groups in canonical order, the same in every call.
            indices: numbers of rows, each in [0, total_rows), at least one.
        """
        if self._numbers is None:
            self._numbers = core.RowNumbers(
                file=row_groups.file.tolist(),
                row_group=row_groups.index.tolist(),
                rows=row_groups.rows.tolist(),
            )
        budget = self.budget
        tried: set[tuple[int, int]] = set()
        while True:
            try:
                lent = self.pipeline.take(
                    self._numbers,
                    indices,
                    fetch_bytes=budget.fetch_bytes,
                    segment_bytes=budget.segment_bytes,
                    request_bytes=self._request_bytes,
                    hole_bytes=self._hole_bytes,
                    kernel_keys=[step_key(0, 0, one.step) for one in self._kernels],
                )
                break
            except CorruptFileError as error:
                if not self.reads_again(error, tried):
                    raise
        # A copy of a large batch would take as much memory again, and make no room in the pool.
        start, stop = lent.extent
        copies = stop - start <= self.lend_bytes
        return self.batch_of(lent, None, copies=copies)[0]

    def reads_again(self, error: CorruptFileError, tried: set[tuple[int, int]]) -> bool:
        """Return whether to read a corrupt row group once more; see `Stores.reads_again`."""
        return self._source.storage.reads_again(error, self._source.files, tried)

    def next_of(self, scan: core.Scan) -> core.LentBatch | None:
        """Return the next batch of a scan, or None at the end of the scan."""
        return scan.next()

    def batch_of(
        self,
        lent: core.LentBatch,
        position: object,
        tensors: list[torch.Tensor | None] | None = None,
        *,
        copies: bool = True,
    ) -> tuple[Batch, bool]:
        """Return the tensors of a batch, and True if the tensors are copies.

        The tensors share the core's memory. They are copies if the consumer holds all of the
        memory that it may hold. A batch for another process is never copied here, because that
        process keeps to the limit by itself.

        Args:
            lent: the core's batch.
            position: the batch's position in the epoch, which the batch carries.
            tensors: an empty list, which gets the tensor that holds the batch if `allocate` made
                one; or the list of a call for the same batch that was interrupted. None = no call
                follows one that was interrupted.
            copies: the tensors may be copies.

        Raises:
            Exception: the error of a kernel on this batch.
        """
        if self._kernels and lent.failed_kernel >= 0:
            raise_failure(lent, self._kernels[lent.failed_kernel], self._assembled)
        tensor = None
        if self._allocates:
            tensor = _tensor_of(lent, [] if tensors is None else tensors)
        if tensor is not None:
            # The memory counts as lent until the last view of the tensor is deleted.
            tensor.untyped_storage()._lent = lent  # type: ignore[attr-defined]  # noqa: SLF001
        batch = self._assemble(lent, position, tensor)
        lent_bytes = self.pipeline.lent_bytes
        self._lent_in_pass = max(self._lent_in_pass, lent_bytes)
        if lent_bytes > self._most_lent:
            self._leave_to_consumer(lent_bytes)
        if self._sender is not None:
            self._sender.mark(batch)
            self._sender.core.report(self.pipeline.memory)
            return batch, False
        if lent_bytes <= self.lend_bytes or not copies:
            return batch, False
        return batch.clone(), True

    def _begin_pass(self) -> None:
        """Give kept pages the memory that the consumer did not hold during the pass before."""
        held = max(self._lent_in_pass, self.pipeline.lent_bytes, self.budget.least_lent_bytes)
        self._lent_in_pass = 0
        if held < self._most_lent:
            self._leave_to_consumer(held)

    def _leave_to_consumer(self, lent_bytes: int) -> None:
        """Limit kept pages to what `lent_bytes` of batches leave.

        The core keeps a batch's memory for later ones.
        """
        self._most_lent = lent_bytes
        beyond = lent_bytes - self.budget.least_lent_bytes
        self.pipeline.limit_kept(max(0, self.budget.kept_bytes - beyond))


def column_specs(columns: Iterable[ColumnPlan]) -> list[core.ColumnSpec]:
    """Convert the plans of columns to the core's form.

    Args:
        columns: the plans of the columns.
    """
    # By keyword, arguments take pybind11 three times as long.
    return list(starmap(core.ColumnSpec, map(_PLANNED, columns)))


def _tensor_of(lent: core.LentBatch, tensors: list[torch.Tensor | None]) -> torch.Tensor | None:
    """Return the tensor that holds a batch, and keep the tensor in a list, or take it from there.

    The core gives the tensor once. A loop in C puts the tensor into the list, because Ctrl-C
    between two lines of Python would lose the batch's memory.
    """
    if not tensors:
        tensors.extend(map(core.LentBatch.take_tensor, (lent,)))
    return tensors[0]


def _options_by_number(budget: Budget) -> dict[str, int]:
    tables = min(_MOST_TABLE_BYTES, budget.memory_bytes // _LEAST_TABLE_SHARE)
    return {
        "page_hole_bytes": _PAGE_HOLE_BYTES,
        "page_table_bytes": tables,
        "dictionary_bytes": budget.memory_bytes // _DICTIONARY_SHARE,
    }


def _assembled(output: OutputPlan) -> Output:
    field = output.field
    kind: Literal["column", "rows", "ragged", "packed", "of_packed", "scalar"] = "column"
    if output.kind == "longest":
        kind = "scalar"
    elif output.kind in PACKED_KINDS:
        kind = "of_packed"
    elif output.kind == "ragged" and output.length:
        kind = "packed"
    elif field.ragged:
        kind = "ragged"
    elif field.shape or output.kind == "list":
        # The field of a list of one element has no shape, but the output still is a list.
        kind = "rows"
    return Output(
        output.name,
        kind,
        field.dtype,
        field.shape,
        output.strides,
        field.depth,
        field.kind,
        hidden=output.hidden,
    )
