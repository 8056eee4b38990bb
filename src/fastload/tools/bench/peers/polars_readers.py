"""polars: with a DataLoader as people write it, and by hand as fast as we know how."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import polars as pl
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from fastload.tools.bench.peers.windows import RowGroup, epoch_by_windows, lent, runs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fastload.tools.bench.peers import Work

_Batch: TypeAlias = dict[str, torch.Tensor]


class Loader:
    """A DataLoader for all epochs: each file is read, its frame shuffled, and cut into slices.

    polars starts threads, so the workers are spawned.
    """

    def __init__(self, work: Work) -> None:
        self._dataset = _Rows(work)
        self._loader: DataLoader[_Batch] = DataLoader(
            self._dataset,
            batch_size=None,
            num_workers=work.workers,
            multiprocessing_context="spawn" if work.workers else None,
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
        info = get_worker_info()
        worker, workers = (info.id, info.num_workers) if info else (0, 1)
        files = list(work.files)
        if work.shuffle:
            generator = torch.Generator().manual_seed(work.seed * 1_000_003 + self.number)
            files = [files[i] for i in torch.randperm(len(files), generator=generator)]
        for file in files[worker::workers]:
            frame = pl.read_parquet(file, columns=list(work.columns)).select(work.columns)
            if work.shuffle:
                frame = frame.sample(fraction=1, shuffle=True, seed=work.seed + self.number)
            for part in frame.iter_slices(work.batch_size):
                yield {name: part.get_column(name).to_torch() for name in work.columns}


class WindowReader:
    """Whole windows on all threads: runs of neighbouring row groups are read at the same time.

    Columns become tensors without a copy.
    """

    def __init__(self, work: Work) -> None:
        self._work = work

    def epoch(self, number: int) -> Iterator[dict[str, torch.Tensor]]:
        """Yield the batches of one epoch, as `Contender.epoch` describes."""
        return epoch_by_windows(self._work, number, self._read)

    def _read(self, window: list[RowGroup]) -> dict[str, list[torch.Tensor]]:
        names = list(self._work.columns)
        # A shuffled window is permuted as a whole, so it may be read in stored order.
        scans = [
            pl.scan_parquet(run.file).slice(run.start, run.rows).select(names)
            for run in runs(window)
        ]
        frames = pl.collect_all(scans)
        frame = frames[0] if len(frames) == 1 else pl.concat(frames, rechunk=False)
        series = [frame.get_column(name) for name in names]
        if len({tuple(column.chunk_lengths()) for column in series}) > 1:
            series = [column.rechunk() for column in series]
        return {
            name: [lent(chunk.to_numpy()) for chunk in column.get_chunks()]
            for name, column in zip(names, series, strict=True)
        }
