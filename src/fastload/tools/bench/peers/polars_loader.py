"""polars + DataLoader as people write it: read each file, shuffle the frame, take slices."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import polars as pl
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fastload.tools.bench.peers import Work

_Batch: TypeAlias = dict[str, torch.Tensor]


class Contender:
    """One DataLoader for all epochs. polars starts threads, so its workers are spawned."""

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

    def bottleneck(self) -> str:
        """Return the slowest stage, as `Contender.bottleneck` describes."""
        return ""


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
