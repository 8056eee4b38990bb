"""The plain reader: pyarrow, batch by batch, in stored order; whose rows all others must give."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastload.tools.bench.peers.parquet_file import open_parquet
from fastload.tools.bench.peers.windows import arrow_tensor, cut

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch

    from fastload.tools.bench.peers import Work


class Contender:
    """Nothing to gain here: the shorter, the surer."""

    def __init__(self, work: Work) -> None:
        self._work = work

    def epoch(self, _number: int) -> Iterator[dict[str, torch.Tensor]]:
        """Yield the batches of one epoch, as `Contender.epoch` describes."""
        return cut(self._blocks(), self._work.batch_size)

    def _blocks(self) -> Iterator[dict[str, torch.Tensor]]:
        names = list(self._work.columns)
        for file in self._work.files:
            for record in open_parquet(file).iter_batches(columns=names):
                yield {name: arrow_tensor(record.column(name)) for name in names}

    def bottleneck(self) -> str:
        """Return the slowest stage, as `Contender.bottleneck` describes."""
        return ""
