"""Petastorm: make_batch_reader in a BatchedDataLoader, Petastorm's fastest way to torch."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from petastorm import make_batch_reader
from petastorm.pytorch import BatchedDataLoader

from fastload.tools.bench.peers.windows import stored_dtypes

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch

    from fastload.tools.bench.peers import Work


class Contender:
    """A reader for each epoch; bools, which Petastorm turns into uint8, are cast back."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._dtypes = stored_dtypes(work)

    def epoch(self, number: int) -> Iterator[dict[str, torch.Tensor]]:
        """Yield the batches of one epoch, as `Contender.epoch` describes."""
        work = self._work
        reader = make_batch_reader(
            [Path(file).absolute().as_uri() for file in work.files],
            schema_fields=[f"^{re.escape(name)}$" for name in work.columns],
            shuffle_row_groups=work.shuffle,
            seed=work.seed + number,
            # With several workers, row groups come in the order in which the workers finish.
            workers_count=(work.threads or 10) if work.shuffle else 1,
        )
        queue = work.window_rows if work.shuffle else 0
        with BatchedDataLoader(reader, work.batch_size, shuffling_queue_capacity=queue) as batches:
            for batch in batches:
                yield {name: batch[name].to(dtype) for name, dtype in self._dtypes.items()}
