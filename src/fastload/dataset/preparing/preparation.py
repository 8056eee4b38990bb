"""Preparation: the writing of a dataset's rows after `preprocess` to the files of a folder."""

from __future__ import annotations

import contextlib
import multiprocessing
import time
from collections import deque
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from fastload.batch.batch import Batch
from fastload.dataset.preparing.arrow_rows import ArrowRows
from fastload.dataset.preparing.folder import Folder
from fastload.dataset.preparing.parts import Part, groups_of, parts_of
from fastload.engine.cache.keys import code_of
from fastload.engine.first_rows import fields_after, first_rows
from fastload.errors import CorruptFileError, note
from fastload.plan.options import Options
from fastload.plan.position import WorkerSlot
from fastload.plan.read_plan import read_plan
from fastload.runtime.digest import digest
from fastload.runtime.progress import showing
from fastload.steps.run import SeedKey, run_steps
from fastload.steps.steps import RESERVED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fastload.dataset.process_engine import ProcessEngine
    from fastload.engine.engine import Engine
    from fastload.plan.sequence import RowGroups
    from fastload.schema.fields import Field
    from fastload.steps.steps import Steps

__all__ = ["Preparation"]

# Decoded bytes and rows of a block, which a step gets at once.
_BLOCK_BYTES = 16 << 20
_BLOCK_ROWS = 8192
_POLL_S = 0.2
_WRITING: dict[str, Any] = {
    # Such a file is read at the speed of memory.
    "compression": "none",
    "use_dictionary": False,
    "write_statistics": False,
    "write_page_index": True,  # of which `take` reads where the pages lie
}


@dataclass(frozen=True, slots=True)
class Preparation:
    """All that decides the prepared rows of a dataset, and the means to make them.

    Attributes:
        engines: the arguments for making engines, of the columns that the steps get.
        steps: the steps of `preprocess`.
        identity: digest of the files and of the rows that stay.
    """

    engines: ProcessEngine
    steps: Steps
    identity: str

    def write(self, path: str, jobs: int, progress: bool | Callable[[int, int], None]) -> None:
        """Write all rows that are missing in a folder.

        Args:
            path: path or URL of the folder.
            jobs: number of processes that write.
            progress: as for `fastload.prepare`.

        Raises:
            ValueError: the folder holds other files, or Parquet has no column for an output.
            OSError: the folder can't be written to.
        """
        options = self.engines.source.storage.options
        folder, parts = Folder(path, options), self._parts()
        if not folder.begin(self._key(), len(parts)):
            return
        total = self._row_groups.total_rows
        with showing(progress) as show:
            done = 0
            show(done, total)
            for rows in self._written(folder, parts, jobs):
                done += rows
                show(done, total)
        folder.end()

    def _written(self, folder: Folder, parts: list[Part], jobs: int) -> Iterator[int]:
        """Yield the rows of each part, once its file is there."""
        if jobs == 1:
            with contextlib.closing(_Writer(self, folder, jobs)) as writer:
                yield from writer.write(parts)
            return
        context = multiprocessing.get_context("forkserver")
        with ProcessPoolExecutor(jobs, context) as processes:
            shares = [parts[number::jobs] for number in range(jobs)]
            waiting = [
                processes.submit(_write_share, self, folder, jobs, share) for share in shares
            ]
            for future in waiting:
                yield from future.result()

    @property
    def _row_groups(self) -> RowGroups:
        return self.engines.rows.row_groups

    def _parts(self) -> list[Part]:
        return parts_of(self._row_groups, self.engines.projection.row_bytes)

    def _key(self) -> str:
        """Return a digest of all that decides the rows."""
        columns = [replace(column, leaves=()) for column in self.engines.projection.columns]
        code = code_of(self.steps.preprocess, None)
        return digest(self.identity, repr(columns), repr(self.engines.outputs), code)


def _write_share(
    preparation: Preparation, folder: Folder, jobs: int, parts: list[Part]
) -> list[int]:
    with contextlib.closing(_Writer(preparation, folder, jobs)) as writer:
        return list(writer.write(parts))


class _Writer:
    """The writer of parts in one of `jobs` processes."""

    def __init__(self, preparation: Preparation, folder: Folder, jobs: int) -> None:
        self._jobs = jobs
        self._engines = preparation.engines
        self._steps = preparation.steps
        self._folder = folder
        self._row_groups = preparation.engines.rows.row_groups
        fit = _BLOCK_BYTES // self._engines.projection.row_bytes
        rows = max(1, min(_BLOCK_ROWS, fit, self._row_groups.total_rows))
        self._engines = replace(self._engines, batch_rows=rows)
        self._resizes = False  # the steps changed the number of the first rows
        self._engine: Engine | None = None
        self._arrow: ArrowRows | None = None

    def write(self, parts: list[Part]) -> Iterator[int]:
        """Yield the rows of each part, once its file is there; another process may write some."""
        left = deque(parts)
        refused = 0  # parts in a row that other processes write
        while left:
            part = left.popleft()
            name = f"part-{part.number:05}.parquet"
            with self._folder.claimed(name) as mine:
                there = self._folder.has(name)
                if mine and not there:
                    self._write_part(name, part)
                elif not there:
                    left.append(part)
                    refused += 1
                    if refused >= len(left):
                        time.sleep(_POLL_S)
                    continue
            refused = 0
            yield int(self._row_groups.rows[part.start : part.stop].sum())

    def close(self) -> None:
        if self._engine is not None:
            self._engine.close()
        self._steps.close()

    def _write_part(self, name: str, part: Part) -> None:
        tried: set[tuple[int, int]] = set()
        while True:
            try:
                with self._folder.publish(name) as file:
                    self._fill(file, part)
            except CorruptFileError as error:
                if not self._made_engine().reads_again(error, tried):
                    raise
            else:
                return

    def _fill(self, file: Any, part: Part) -> None:
        groups = groups_of(self._row_groups, part)
        arrow = self._arrow_rows()
        with pq.ParquetWriter(file, arrow.schema, **_WRITING) as writer:
            rows = _RowGroupWriter(writer, arrow, groups.rows.tolist())
            for block, before in self._blocks(groups) if groups.total_rows else ():
                shown = {name: value for name, value in block.items() if name not in RESERVED}
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
            self._arrow = ArrowRows({n: f for n, f in fields.items() if n not in RESERVED})
        return self._arrow

    def _fields_after(self, outputs: dict[str, Field]) -> dict[str, Field]:
        with contextlib.closing(self._engines.another(inline=True)) as engine:
            batch = first_rows(engine, self._row_groups, skip=False)
        before, files = batch.rows, self._engines.source.files
        fields, after = fields_after(self._steps, batch, outputs, 0, files)
        self._resizes = after.rows != before
        return fields


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
