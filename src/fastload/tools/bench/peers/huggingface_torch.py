"""Hugging Face datasets, streaming, in torch format."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastload.tools.bench.peers.huggingface import stream
from fastload.tools.bench.peers.windows import stored_dtypes

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch

    from fastload.tools.bench.peers import Work


class Contender:
    """`load_dataset(..., streaming=True).with_format("torch").iter(batch_size)`.

    The format makes all integers int64 and all floats float32: they are cast back.
    """

    def __init__(self, work: Work) -> None:
        self._work = work
        self._dtypes = stored_dtypes(work)

    def epoch(self, number: int) -> Iterator[dict[str, torch.Tensor]]:
        """Yield the batches of one epoch, as `Contender.epoch` describes."""
        rows = stream(self._work, number).with_format("torch")
        for batch in rows.iter(self._work.batch_size):
            yield {name: batch[name].to(dtype) for name, dtype in self._dtypes.items()}

    def bottleneck(self) -> str:
        """Return the slowest stage, as `Contender.bottleneck` describes."""
        return ""
