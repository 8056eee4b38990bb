"""One process's share of a dataset: the core's threads and memory, and what they make."""

from __future__ import annotations

import contextlib
import os
import weakref
from typing import TYPE_CHECKING, Literal

from fastload.batch.assembler import Assembler, Output
from fastload.batch.transport import Sender
from fastload.errors import StorageError
from fastload.plan.row_seeds import step_key
from fastload.runtime.native import core
from fastload.runtime.shutdown import wait_for_queues_at_exit
from fastload.runtime.sizes import parse_bytes
from fastload.schema.columns import DTYPES
from fastload.steps.kernel_failure import raise_failure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import torch

    from fastload.batch.batch import Batch
    from fastload.batch.transport import Destination
    from fastload.engine.budget import Budget
    from fastload.plan.kept_rows import FileRows
    from fastload.plan.read_plan import ReadPlan
    from fastload.schema.column_plan import ColumnPlan
    from fastload.schema.projection import OutputPlan, Projection
    from fastload.source.source import Source
    from fastload.source.stores.io import IO
    from fastload.steps.kernel_plan import CoreKernel

__all__ = ["Engine", "column_specs"]

# Reads of local files overlap well with a few threads; each of them sleeps in the kernel.
_IO_THREADS = 4
# Address space for batches that are on their way, beside those that a budget counts.
_MAPPED_BUDGETS = 4
_LEAST_MAPPED_BYTES = 1 << 30


class Engine:
    """The pipeline of one dataset in one process; threads start with it.

    Args:
        source: the files.
        projection: the columns to decode.
        outputs: the outputs of a batch: the projection's, and perhaps provenance.
        budget: threads, bytes and counts that a pass keeps to.
        io: how files are read.
        rows: by file, its rows that stay; () = all.
        allocate: makes the memory of batches, as uint8 tensors of so many bytes; None = the core.
        home: where batches go in another process; None = they stay in this one.
        kernels: that the core calls on each batch.
        blocks: what asks for the blocks that rows come from; None = they come from the files.
        data: it reads the batches of an epoch, not what has to be known before.
        at_once: passes that run at the same time, each with such a budget.

    Attributes:
        lend_bytes: batch memory that the consumers of all passes may hold.
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
        blocks: core.DecodedQueue | None = None,
        data: bool = True,
        at_once: int = 1,
    ) -> None:
        wait_for_queues_at_exit()
        self.budget = budget
        self.blocks = blocks
        self._passes = 0
        self.lend_bytes = at_once * budget.lend_bytes
        self._pid = os.getpid()
        self._kernels = tuple(kernels)
        assembled = tuple(map(_assembled, outputs))
        self._assembled = assembled
        self._assemble = Assembler(assembled)
        self._sender = None
        if home is not None:
            with contextlib.suppress(StorageError):  # then they go as torch sends them
                self._sender = Sender(
                    assembled,
                    capacity=max(
                        _LEAST_MAPPED_BYTES,
                        _MAPPED_BUDGETS * (budget.window_bytes + budget.lend_bytes),
                    ),
                    lend_bytes=budget.lend_bytes,
                    home=home,
                )
        self._request_bytes = parse_bytes(io.request_bytes)
        self._hole_bytes = parse_bytes(io.hole_bytes) if io.hole_bytes else 0
        self.pipeline = core.Pipeline(
            files=[(file.path, file.mtime_ns, file.footer) for file in source.files],
            columns=column_specs(projection.columns),
            outputs=[
                core.OutputSpec(
                    output.kind,
                    list(output.columns),
                    output.length,
                    output.pad,
                    dtype=DTYPES[output.field.dtype],
                )
                for output in outputs
            ],
            threads=budget.threads,
            io_threads=min(_IO_THREADS, budget.threads, io.concurrency),
            # Who makes the memory may have reasons to reuse it later than we would.
            batch_memory_bytes=0
            if allocate is not None
            else at_once * (budget.window_bytes - budget.staged_bytes + budget.lend_bytes),
            staging_memory_bytes=at_once * budget.staged_bytes,
            fetch_memory_bytes=at_once * budget.fetch_bytes,
            verify_crc=io.verify_crc,
            allocate=allocate,
            sender=None if self._sender is None else self._sender.core,
            remote=source.storage.serve(source.files, data=data) if blocks is None else None,
            blocks=blocks,
            kernels=[
                core.KernelSpec(
                    # The kernel keeps it there.
                    address=one.kernel.code(one.arguments).address,
                    inputs=one.inputs,
                    outputs=one.outputs,
                    seeded=one.kernel.random,
                )
                for one in kernels
            ],
            selections=[(file.bits, file.offsets.tolist()) for file in rows],
        )
        # Joins the threads when the engine dies, or at exit, whichever comes first.
        self.close: Callable[[], object] = weakref.finalize(self, self.pipeline.close)

    def counts(self) -> dict[str, int]:
        """What the stages have done so far."""
        return self.pipeline.counts()

    @property
    def mine(self) -> bool:
        """Whether this process made it; after a fork the child has to make its own."""
        return self._pid == os.getpid()

    @property
    def looks_ahead(self) -> bool:
        """Whether the next pass is worth preparing: from the second on, by threads."""
        return self._passes > 1 and self.threaded

    @property
    def threaded(self) -> bool:
        """Whether it works while nobody waits for a batch."""
        return self.budget.threads > 0

    def begin(self, scan: core.Scan) -> None:
        """Begins a pass that was prepared."""
        self._passes += 1
        scan.begin()

    def start(
        self,
        plan: ReadPlan,
        batch_rows: int,
        before: core.Scan | None = None,
        *,
        again: bool = False,
        wakes: core.DecodedQueue | None = None,
    ) -> core.Scan:
        """Begins a pass in batches of `batch_rows` rows.

        before: the running pass; then only prepares the next one, in the memory that the
            running pass leaves.
        again: it is the rest of a pass that has begun.
        wakes: is woken when there may be a batch.
        """
        self._passes += before is None and not again
        return self.pipeline.start(
            core.ReadPlan(
                batch_rows=batch_rows,
                rows=plan.rows,
                padding=plan.padding,
                shuffled=plan.shuffled,
                pieces=plan.pieces,
                takes=plan.takes,
                windows=plan.windows,
                keys=plan.keys,
                substitutes=plan.substitutes,
            ),
            open_windows=self.budget.open_windows,
            fetch_bytes=self.budget.fetch_bytes,
            segment_bytes=self.budget.segment_bytes,
            request_bytes=min(self._request_bytes, max(1, self.budget.fetch_bytes // 4)),
            hole_bytes=self._hole_bytes,
            before=before,
            kernel_keys=[step_key(plan.seed, plan.epoch, one.step) for one in self._kernels],
            wakes=wakes,
        )

    def next_of(self, scan: core.Scan) -> core.LentBatch | None:
        """Return the next batch of a scan; None at the end."""
        return scan.next()

    def batch_of(self, lent: core.LentBatch, position: object) -> tuple[Batch, bool]:
        """The tensors of a batch, and whether they are copies.

        They lie in the core's memory, unless the consumer holds all that it may of that; another
        process says so by itself. Raises what a kernel raised on it.
        """
        if lent.failed_kernel >= 0:
            raise_failure(lent, self._kernels[lent.failed_kernel], self._assembled)
        tensor = lent.take_tensor()
        if tensor is not None:
            # It counts as lent until the last view of the tensor dies.
            tensor.untyped_storage()._lent = lent  # type: ignore[attr-defined]  # noqa: SLF001
        batch = self._assemble(lent, position, tensor)
        if self._sender is not None:
            self._sender.mark(batch)
            self._sender.core.report(self.pipeline.memory)
            return batch, False
        if self.pipeline.lent_bytes <= self.lend_bytes:
            return batch, False
        return batch.clone(), True


def column_specs(columns: Iterable[ColumnPlan]) -> list[core.ColumnSpec]:
    """The columns as the core takes them."""
    return [
        core.ColumnSpec(
            name=column.name,
            leaves=list(column.leaves),
            dtype=column.dtype,
            bytes=column.bytes,
            fill=column.fill,
            cast=column.cast,
            unscaled=column.unscaled,
            exact=column.exact,
            multipliers=column.multipliers,
            constants=column.constants,
            depth=column.depth,
            list_size=column.list_size,
            null_lists=column.null_lists,
            hash_buckets=column.hash_buckets,
            hash_seed=column.hash_seed,
            vocabulary=column.vocabulary,
            unknown=column.unknown,
        )
        for column in columns
    ]


def _assembled(output: OutputPlan) -> Output:
    field = output.field
    if field.ragged:
        return Output(
            output.name,
            "ragged",
            field.dtype,
            field.shape,
            output.strides,
            field.depth,
            field.kind,
            hidden=output.hidden,
        )
    # A list of one element that is a tensor without dimensions has no shape, but is a list.
    rows = field.shape or output.kind == "list"
    kind: Literal["rows", "column"] = "rows" if rows else "column"
    return Output(output.name, kind, field.dtype, field.shape, output.strides, hidden=output.hidden)
