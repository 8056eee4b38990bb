"""Hugging Face datasets, streaming, in arrow format: pyarrow tables, made tensors here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastload.tools.bench.peers.huggingface import stream
from fastload.tools.bench.peers.windows import table_tensors

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch

    from fastload.tools.bench.peers import Work


class Contender:
    """`load_dataset(..., streaming=True).with_format("arrow").iter(batch_size)`."""

    def __init__(self, work: Work) -> None:
        self._work = work

    def epoch(self, number: int) -> Iterator[dict[str, torch.Tensor]]:
        """Yield the batches of one epoch, as `Contender.epoch` describes."""
        rows = stream(self._work, number).with_format("arrow")
        for table in rows.iter(self._work.batch_size):
            yield table_tensors(table, self._work.columns)

    def bottleneck(self) -> str:
        """Return the slowest stage, as `Contender.bottleneck` describes."""
        return ""
