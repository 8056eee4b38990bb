"""The writer of prepared rows: reads row groups, runs the steps, and writes the files."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from fastload.batch.batch import Batch
from fastload.dataset.preparing.arrow_rows import ArrowRows
from fastload.dataset.preparing.errors import UnpreparableError
from fastload.engine.first_rows import fields_after, first_rows
from fastload.errors import CorruptFileError, note
from fastload.plan.options import Options
from fastload.plan.parts import Part, groups_of, rows_of, without
from fastload.plan.position import WorkerSlot
from fastload.plan.read_plan import read_plan
from fastload.schema.stored_fields import lost_metadata
from fastload.steps.run import SeedKey, run_steps
from fastload.steps.steps import FILE, ROW

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fastload.dataset.preparing.cache_folder import CacheFolder
    from fastload.dataset.preparing.folder import Folder
    from fastload.dataset.process_engine import ProcessEngine
    from fastload.engine.engine import Engine
    from fastload.plan.sequence import RowGroups
    from fastload.schema.fields import Field
    from fastload.steps.steps import Steps

__all__ = ["PartWriter"]

# Decoded bytes and rows of a block, which a step gets at once.
_BLOCK_BYTES = 16 << 20
_BLOCK_ROWS = 8192
_POLL_S = 0.2
# A process that is alive writes a block in less time.
_PATIENCE_S = 300.0
_WRITING: dict[str, Any] = {
    # Such a file is read at the speed of memory.
    "compression": "none",
    # The file and number of a row in the source take almost no space.
    "use_dictionary": [FILE],
    "column_encoding": {ROW: "DELTA_BINARY_PACKED"},
    "write_statistics": False,
    "write_page_checksum": True,
    "write_page_index": True,  # of which `take` reads where the pages lie
}


class PartWriter:
    """The writer of parts in one of several processes.

    Args:
        engines: as in `Preparation`.
        steps: as in `Preparation`.
        folder: where the files appear.
        jobs: number of processes that divide the memory budget.
        left_out: the names of outputs that the files don't hold.
        skips: as in `Preparation`.
    """

    def __init__(
        self,
        engines: ProcessEngine,
        steps: Steps,
        folder: Folder | CacheFolder,
        jobs: int,
        *,
        left_out: Sequence[str],
        skips: bool,
    ) -> None:
        self._jobs = jobs
        self._steps = steps
        self._folder = folder
        self._left_out = left_out
        self._skips = skips
        self._row_groups = engines.rows.row_groups
        fit = _BLOCK_BYTES // engines.projection.row_bytes
        rows = max(1, min(_BLOCK_ROWS, fit, self._row_groups.total_rows))
        self._engines = replace(engines, batch_rows=rows)
        self._resizes = False  # the steps changed the number of the first rows
        self._engine: Engine | None = None
        self._arrow: ArrowRows | None = None

    def write(self, parts: list[Part]) -> Iterator[int]:
        """Yield the rows of each part, once its file is there; another process may write some."""
        left = deque(parts)
        refused = 0  # parts in a row that other processes write
        others = _Others(self._folder)
        while left:
            part = left.popleft()
            with self._folder.claimed(part.file) as mine:
                there = self._folder.has(part.file)
                if mine and not there:
                    self._write_part(part)
                elif not there:
                    left.append(part)
                    refused += 1
                    if refused >= len(left):
                        others.wait([part.file for part in left])
                    continue
            refused = 0
            yield rows_of(self._row_groups, part)

    def close(self) -> None:
        """End the threads of the engine and of the steps. Idempotent."""
        if self._engine is not None:
            self._engine.close()
        self._steps.close()

    def _write_part(self, part: Part) -> None:
        tried: set[tuple[int, int]] = set()
        lost: dict[tuple[int, int], str] = {}
        while True:
            try:
                with self._folder.publish(part.file) as file:
                    self._fill(file, part, lost)
            except CorruptFileError as error:
                if self._made_engine().reads_again(error, tried):
                    continue
                place = error._row_group  # noqa: SLF001 - of this package
                if not self._skips or place is None or place in lost:
                    raise
                lost[place] = str(error)
            else:
                return

    def _fill(self, file: Any, part: Part, lost: Mapping[tuple[int, int], str]) -> None:
        groups = without(groups_of(self._row_groups, part), lost)
        arrow = self._arrow_rows()
        with pq.ParquetWriter(file, arrow.schema, **_WRITING) as writer:
            if lost:
                writer.add_key_value_metadata(lost_metadata(lost))
            rows = _RowGroupWriter(writer, arrow, groups.rows.tolist())
            for block, before in self._blocks(groups) if groups.total_rows else ():
                shown = {name: value for name, value in block.items() if name not in self._left_out}
                if self._resizes and block.rows == before:
                    # By chance: the outputs are those of blocks whose number of rows changed.
                    shown = {name: shown[name] for name in arrow.schema.names if name in shown}
                rows.add(shown, block.rows, before)
            rows.end()

    def _blocks(self, groups: RowGroups) -> Iterator[tuple[Batch, int]]:
        """Yield the blocks of some row groups after the steps, and the rows before the steps."""
        engine = self._made_engine()
        rows = self._engines.batch_rows
        options = Options(batch_size=rows, uneven="keep")
        plan = read_plan(groups, options, 0, WorkerSlot(1), stripe_rows=engine.budget.stripe_rows)
        works: deque[tuple[Any, int]] = deque()
        with contextlib.closing(engine.start(plan, rows)) as scan:
            while (lent := engine.next_of(scan)) is not None:
                self._folder.beat()
                batch = engine.batch_of(lent, None)[0]
                works.append((self._begun(batch), batch.rows))
                if len(works) > self._steps.most_ahead:
                    yield _finished(*works.popleft())
            while works:
                yield _finished(*works.popleft())

    def _begun(self, batch: Batch) -> Any:
        """Begin the steps of a batch, whose threads then work while others are waited for."""
        files = self._engines.source.files
        running = run_steps(batch, self._steps, SeedKey(0, 0), files, self._steps.pool)
        return running, _next_job(running)

    def _made_engine(self) -> Engine:
        if self._engine is None:
            self._engine = self._engines.another(self._jobs)
        return self._engine

    def _arrow_rows(self) -> ArrowRows:
        """Return the Arrow form of the outputs, which the first rows tell."""
        if self._arrow is None:
            outputs = {each.name: each.field for each in self._engines.outputs if not each.hidden}
            fields = self._fields_after(outputs) if self._steps.count else outputs
            self._arrow = ArrowRows({n: f for n, f in fields.items() if n not in self._left_out})
        return self._arrow

    def _fields_after(self, outputs: dict[str, Field]) -> dict[str, Field]:
        with contextlib.closing(self._engines.another(inline=True)) as engine:
            batch = first_rows(engine, self._row_groups, skip=self._skips)
        before, files = batch.rows, self._engines.source.files
        fields, after = fields_after(self._steps, batch, outputs, 0, files)
        self._resizes = after.rows != before
        return fields


class _Others:
    """The other processes that write parts of a folder."""

    def __init__(self, folder: Folder | CacheFolder) -> None:
        self._folder = folder
        self._beats: list[int] = []
        self._since_s = time.monotonic()

    def wait(self, names: list[str]) -> None:
        """Wait a moment for the files that other processes write.

        Raises:
            UnpreparableError: none of them has written anything for minutes.
        """
        beats = [self._folder.beat_of(name) for name in names]
        now = time.monotonic()
        if beats != self._beats:
            self._beats, self._since_s = beats, now
        elif now - self._since_s > _PATIENCE_S:
            raise UnpreparableError(
                f"Expected the process that writes {names[0]} to go on, got nothing from it in "
                f"{_PATIENCE_S:.0f} s - at {self._folder.path}"
            )
        time.sleep(_POLL_S)


class _RowGroupWriter:
    """The writer of the row groups of one file, which are cut where those of the source are.

    Where a step returns more or fewer rows than it got, each of its blocks is a row group.
    """

    def __init__(self, writer: pq.ParquetWriter, arrow: ArrowRows, rows: list[int]) -> None:
        self._writer = writer
        self._arrow = arrow
        self._left = deque(rows)
        self._pending: list[pa.Table] = []
        self._has = 0

    def add(self, outputs: dict[str, Any], rows: int, before: int) -> None:
        """Write the outputs of a block of so many rows, which had `before` before the steps."""
        table = self._arrow.table(outputs)
        if rows != before:
            self._flush()
            self._left.clear()
        if not self._left:
            self._pending, self._has = [table], rows
            self._flush()
            return
        if self._has or before != self._left[0]:
            # Rows wait for further blocks of their row group, while the engine uses the memory.
            table = _copy_of(table)
        at = 0
        while at < before:
            rows = min(before - at, self._left[0] - self._has)
            self._pending.append(table.slice(at, rows))
            self._has += rows
            at += rows
            self._close_full()

    def end(self) -> None:
        """Write what is left."""
        self._close_full()
        self._flush()

    def _close_full(self) -> None:
        while self._left and self._has == self._left[0]:
            self._left.popleft()
            self._flush(empty=True)

    def _flush(self, *, empty: bool = False) -> None:
        if self._pending or empty:
            none = pa.Table.from_batches([], self._arrow.schema)
            table = pa.concat_tables([none, *self._pending])
            self._writer.write_table(table, max(1, len(table)))
        self._pending, self._has = [], 0


def _copy_of(table: pa.Table) -> pa.Table:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return pa.ipc.open_stream(sink.getvalue()).read_all()


def _next_job(running: Any) -> Any:
    """Return the job that running steps wait for, or the batch that they end with."""
    try:
        return next(running)
    except StopIteration as end:
        return end.value
    except Exception as error:
        note(error, "while the rows were prepared")
        raise


def _finished(work: tuple[Any, Any], rows: int) -> tuple[Batch, int]:
    running, job = work
    while not isinstance(job, Batch):
        job.wait()
        job = _next_job(running)
    return job, rows
