"""fastload as its README says to use it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch.utils.data import DataLoader

from fastload import FastParquetDataset

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import torch

    from fastload.bench.peers import Work


class Contender:
    """`DataLoader(FastParquetDataset(...), batch_size=None)`; each pass is the next epoch."""

    def __init__(self, work: Work) -> None:
        self._dataset = FastParquetDataset(
            list(work.files),
            columns=list(work.columns),
            batch_size=work.batch_size,
            shuffle=work.shuffle,
            seed=work.seed,
            threads=work.threads,
        )
        self._loader: DataLoader[Mapping[str, torch.Tensor]] = DataLoader(
            self._dataset,
            batch_size=None,
            num_workers=work.workers,
            persistent_workers=work.workers > 0,
        )

    def epoch(self, _number: int) -> Iterable[Mapping[str, torch.Tensor]]:
        """As Contender."""
        return self._loader

    def bottleneck(self) -> str:
        """As Contender: what `FastParquetDataset.stats` says."""
        stats = getattr(self._dataset, "stats", None)
        return str(getattr(stats(), "bottleneck", "") or "") if stats else ""
