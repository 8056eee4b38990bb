"""Helpers of contenders written by hand: windows of row groups, gathers, batches as views."""

from __future__ import annotations

import random
import threading
import warnings
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from fastload.runtime.platform import usable_cores

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from fastload.tools.bench.peers import Work

Block: TypeAlias = dict[str, torch.Tensor]


@dataclass(frozen=True, slots=True)
class RowGroup:
    """A row group of a file.

    Attributes:
        file: path of the file.
        index: number of the row group in the file; of a run, that of the first row group.
        start: number of the first row in the file.
        rows: number of rows.
    """

    file: str
    index: int
    start: int
    rows: int


def windows(work: Work, epoch: int) -> list[list[RowGroup]]:
    """Divide all row groups into windows of at least `work.window_rows` rows.

    The last window may have fewer rows. Shuffled, the row groups of all files are permuted first.
    """
    groups = []
    for file in work.files:
        footer = pq.read_metadata(file)
        start = 0
        for index in range(footer.num_row_groups):
            rows = footer.row_group(index).num_rows
            groups.append(RowGroup(file, index, start, rows))
            start += rows
    if work.shuffle:
        random.Random(f"{work.seed} {epoch}").shuffle(groups)
    cut_: list[list[RowGroup]] = [[]]
    for group in groups:
        if sum(other.rows for other in cut_[-1]) >= work.window_rows:
            cut_.append([])
        cut_[-1].append(group)
    return cut_


def runs(window: list[RowGroup]) -> list[RowGroup]:
    """Join neighbouring row groups of a file into runs, in stored order."""
    joined: list[RowGroup] = []
    for group in sorted(window, key=lambda group: (group.file, group.index)):
        last = joined[-1] if joined else None
        if last and last.file == group.file and last.start + last.rows == group.start:
            joined[-1] = RowGroup(last.file, last.index, last.start, last.rows + group.rows)
        else:
            joined.append(group)
    return joined


def epoch_by_windows(
    work: Work, number: int, read: Callable[[list[RowGroup]], dict[str, list[torch.Tensor]]]
) -> Iterator[Block]:
    """Yield the batches of one epoch, while a thread reads the next window.

    Shuffled, each window is gathered column by column, several columns at once; then batches
    are cut from the window as views.

    Args:
        work: the rows to read, and how.
        number: number of the epoch.
        read: function that reads a window, and returns the pieces of each column in order. The
            pieces of all columns are cut at the same rows.
    """
    generator = torch.Generator().manual_seed(work.seed * 1_000_003 + number)
    with ThreadPoolExecutor(work.threads or usable_cores()) as threads:

        def load(window: list[RowGroup]) -> list[Block]:
            if not work.shuffle:
                columns = read(window)
                parts = zip(*columns.values(), strict=True)
                return [dict(zip(columns, part, strict=True)) for part in parts]
            rows = sum(group.rows for group in window)
            order = threads.submit(torch.randperm, rows, generator=generator, dtype=torch.int32)
            return [gathered(read(window), order.result(), threads)]

        blocks = (block for part in _ahead(load, windows(work, number)) for block in part)
        yield from cut(blocks, work.batch_size)


def gathered(
    columns: dict[str, list[torch.Tensor]], order: torch.Tensor, threads: ThreadPoolExecutor
) -> Block:
    """Return a window's rows in the given order; columns of one dtype share one memory block."""
    dtypes = {name: pieces[0].dtype for name, pieces in columns.items()}
    outputs = {
        dtype: iter(_MEMORY.take(list(dtypes.values()).count(dtype), len(order), dtype))
        for dtype in set(dtypes.values())
    }
    block = {name: next(outputs[dtype]) for name, dtype in dtypes.items()}

    def gather(name: str) -> None:
        torch.index_select(_whole(columns[name]), 0, order, out=block[name])

    for _ in threads.map(gather, block):
        pass
    return block


class _Memory:
    """A pool that lends memory again as soon as no tensor uses the memory.

    Fresh memory costs as much as a gather, because the system has to clear each page.
    """

    def __init__(self) -> None:
        self._free: list[np.ndarray] = []

    def take(self, columns: int, rows: int, dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
        """Return `columns` tensors (rows,), one after the other in memory."""
        size = columns * rows * dtype.itemsize
        fitting = (i for i, block in enumerate(self._free) if block.size >= size)
        i = next(fitting, None)
        fits = np.empty(size, np.uint8) if i is None else self._free.pop(i)
        # Only the tensors over `lent_` keep `lent_` alive.
        lent_ = fits[:size]
        weakref.finalize(lent_, self._free.append, fits)
        return torch.from_numpy(lent_).view(dtype).view(columns, rows).unbind(0)


_MEMORY = _Memory()
_SCRATCH = threading.local()


def _whole(pieces: list[torch.Tensor]) -> torch.Tensor:
    """Return the pieces as one tensor; a copy is valid until the thread's next call."""
    if len(pieces) == 1:
        return pieces[0]
    rows, dtype = sum(map(len, pieces)), pieces[0].dtype
    scratch = getattr(_SCRATCH, "bytes", None)
    if scratch is None or len(scratch) < rows * dtype.itemsize:
        scratch = _SCRATCH.bytes = torch.empty(rows * dtype.itemsize, dtype=torch.uint8)
    return torch.cat(pieces, out=scratch[: rows * dtype.itemsize].view(dtype))


def cut(blocks: Iterable[Block], batch_size: int) -> Iterator[Block]:
    """Yield batches of `batch_size` rows, the last shorter; batches within a block are views."""
    held: list[Block] = []
    held_rows = 0
    for block in blocks:
        names = list(block)
        rows = len(block[names[0]])
        start = 0
        if held:
            start = min(batch_size - held_rows, rows)
            held.append({name: value[:start] for name, value in block.items()})
            held_rows += start
            if held_rows < batch_size:
                continue
            yield _join(held)
            held, held_rows = [], 0
        stop = rows - (rows - start) % batch_size
        if stop > start:
            parts = [torch.split(block[name][start:stop], batch_size) for name in names]
            for part in zip(*parts, strict=True):
                yield dict(zip(names, part, strict=True))
        if stop < rows:
            held, held_rows = [{name: v[stop:] for name, v in block.items()}], rows - stop
    if held:
        yield _join(held)


def arrow_tensor(array: pa.Array) -> torch.Tensor:
    """Return the values of an array as a tensor, nulls as 0; bools and filled arrays are copied."""
    boolean = pa.types.is_boolean(array.type)
    if array.null_count:
        array = array.fill_null(False if boolean else 0)
    return lent(array.to_numpy(zero_copy_only=not boolean))


def table_tensors(rows: pa.Table | pa.RecordBatch, names: Iterable[str]) -> Block:
    """Return the named columns of a table; only columns of several chunks are copied."""

    def whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
        return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column

    return {name: arrow_tensor(whole(rows.column(name))) for name in names}


def stored_dtypes(work: Work) -> dict[str, torch.dtype]:
    """Return the dtype that the files store for each column, for loaders that change dtypes."""
    schema = pq.read_schema(work.files[0])
    return {
        name: torch.from_numpy(np.empty(0, schema.field(name).type.to_pandas_dtype())).dtype
        for name in work.columns
    }


def lent(array: Any) -> torch.Tensor:
    """Return a tensor over memory that is marked read-only; no contender writes to the tensor."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return torch.from_numpy(array)


def _join(held: list[Block]) -> Block:
    if len(held) == 1:
        return held[0]
    return {name: torch.cat([part[name] for part in held]) for name in held[0]}


def _ahead(
    load: Callable[[list[RowGroup]], list[Block]], items: list[list[RowGroup]]
) -> Iterator[list[Block]]:
    with ThreadPoolExecutor(1) as reader:
        pending = reader.submit(load, items[0])
        for item in items[1:]:
            ready = pending.result()
            pending = reader.submit(load, item)
            yield ready
        yield pending.result()
