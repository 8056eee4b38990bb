"""fastload, as its README says to use fastload."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch.utils.data import DataLoader

from fastload import FastParquetDataset

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import torch

    from fastload.tools.bench.peers import Work


class Contender:
    """Batches of `DataLoader(FastParquetDataset(...), batch_size=None)`; a pass is an epoch."""

    def __init__(self, work: Work) -> None:
        self.dataset = dataset_of(work)
        self._loader: DataLoader[Mapping[str, torch.Tensor]] = DataLoader(
            self.dataset,
            batch_size=None,
            num_workers=work.workers,
            persistent_workers=work.workers > 0,
        )

    def epoch(self, _number: int) -> Iterable[Mapping[str, torch.Tensor]]:
        """Yield the batches of one epoch, as `Contender.epoch` describes."""
        return self._loader

    def bottleneck(self) -> str:
        """Return the bottleneck that `FastParquetDataset.stats` names."""
        return self.dataset.stats().bottleneck

    def kept(self) -> tuple[int, int]:
        """Return the bytes of pages that stay in memory, workers included, and the most of them."""
        memory = self.dataset.stats().memory
        return memory.kept, memory.kept_limit


def dataset_of(work: Work) -> FastParquetDataset:
    """Return the dataset of a Work; options that the Work leaves open have their defaults."""
    return FastParquetDataset(
        list(work.files),
        nulls="zero",  # as the other loaders fill them
        columns=list(work.columns),
        batch_size=work.batch_size,
        shuffle=work.shuffle,
        seed=work.seed,
        threads=work.threads,
        cache=work.cache_dir or None,
    )
