"""pyarrow: the reference, with a DataLoader as people write it, and by hand, as fast as we can."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from fastload.tools.bench.peers.windows import (
    RowGroup,
    arrow_tensor,
    cut,
    epoch_by_windows,
    table_tensors,
)
from fastload.tools.bench.survey import open_parquet

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fastload.tools.bench.peers import Work

_Batch: TypeAlias = dict[str, torch.Tensor]


class Reference:
    """The plain reader, batch by batch in stored order, whose rows all contenders must give.

    The reader is as short as possible, to be surely right; speed does not matter.
    """

    def __init__(self, work: Work) -> None:
        self._work = work

    def epoch(self, _number: int) -> Iterator[dict[str, torch.Tensor]]:
        """Yield the batches of one epoch, as `Contender.epoch` describes."""
        return cut(self._blocks(), self._work.batch_size)

    def _blocks(self) -> Iterator[dict[str, torch.Tensor]]:
        names = list(self._work.columns)
        for file in self._work.files:
            for record in open_parquet(file).iter_batches(columns=names):
                yield table_tensors(record, names)


class Loader:
    """A DataLoader for all epochs, over an IterableDataset that calls `iter_batches`."""

    def __init__(self, work: Work) -> None:
        self._dataset = _Rows(work)
        self._loader: DataLoader[_Batch] = DataLoader(
            self._dataset, batch_size=None, num_workers=work.workers
        )

    def epoch(self, number: int) -> Iterable[_Batch]:
        """Yield the batches of one epoch, as `Contender.epoch` describes."""
        self._dataset.number = number
        return self._loader


class _Rows(IterableDataset[_Batch]):
    def __init__(self, work: Work) -> None:
        self._work = work
        self.number = 0

    def __iter__(self) -> Iterator[_Batch]:
        work = self._work
        if work.threads:
            pa.set_cpu_count(work.threads)
        records = self._records()
        if not work.shuffle:
            for record in records:
                yield table_tensors(record, work.columns)
            return
        # Shuffled: collect rows up to a window, then pick each batch of them at random.
        window: list[pa.RecordBatch] = []
        held = 0
        for record in records:
            window.append(record)
            held += len(record)
            if held >= work.window_rows:
                yield from self._picked(window)
                window, held = [], 0
        if window:
            yield from self._picked(window)

    def _records(self) -> Iterator[pa.RecordBatch]:
        work = self._work
        info = get_worker_info()
        worker, workers = (info.id, info.num_workers) if info else (0, 1)
        files = [open_parquet(file) for file in work.files]
        chosen = [(file, list(range(file.num_row_groups))[worker::workers]) for file in files]
        if work.shuffle:
            generator = torch.Generator().manual_seed(work.seed * 1_000_003 + self.number)
            groups = [(file, [j]) for file in files for j in range(file.num_row_groups)]
            order = torch.randperm(len(groups), generator=generator)
            chosen = [groups[i] for i in order[worker::workers]]
        for file, own in chosen:
            if own:
                yield from file.iter_batches(
                    work.batch_size, row_groups=own, columns=list(work.columns)
                )

    def _picked(self, window: list[pa.RecordBatch]) -> Iterator[_Batch]:
        work = self._work
        table = pa.Table.from_batches(window).combine_chunks()
        columns = {name: arrow_tensor(table.column(name).chunk(0)) for name in work.columns}
        generator = torch.Generator().manual_seed(work.seed + self.number * 1_000_003 + len(window))
        order = torch.randperm(len(table), generator=generator)
        for rows in torch.split(order, work.batch_size):
            yield {name: column[rows] for name, column in columns.items()}


class WindowReader:
    """Whole windows on all threads: each window is read with one call per file.

    Columns become tensors without a copy.
    """

    def __init__(self, work: Work) -> None:
        self._work = work
        if work.threads:
            pa.set_cpu_count(work.threads)
        # jemalloc reuses freed memory faster than the other pools.
        if "jemalloc" in pa.supported_memory_backends():
            pa.set_memory_pool(pa.jemalloc_memory_pool())
        self._files = {file: pq.ParquetFile(file, memory_map=True) for file in work.files}

    def epoch(self, number: int) -> Iterator[dict[str, torch.Tensor]]:
        """Yield the batches of one epoch, as `Contender.epoch` describes."""
        return epoch_by_windows(self._work, number, self._read)

    def _read(self, window: list[RowGroup]) -> dict[str, list[torch.Tensor]]:
        names = list(self._work.columns)
        by_file: dict[str, list[int]] = {}
        for group in window:
            by_file.setdefault(group.file, []).append(group.index)
        tables = [
            self._files[file].read_row_groups(groups, columns=names).select(names)
            for file, groups in by_file.items()
        ]
        table = tables[0] if len(tables) == 1 else pa.concat_tables(tables)
        columns = [table.column(name) for name in names]
        cuts = {tuple(len(chunk) for chunk in column.chunks) for column in columns}
        if len(cuts) > 1:
            columns = [pa.chunked_array([column.combine_chunks()]) for column in columns]
        return {
            name: [arrow_tensor(chunk) for chunk in column.chunks]
            for name, column in zip(names, columns, strict=True)
        }
