"""Hugging Face datasets, converted to its Arrow files first, in arrow format: memory-mapped."""

from __future__ import annotations

from typing import TYPE_CHECKING

import datasets

from fastload.tools.bench.peers.conversion import converted
from fastload.tools.bench.peers.windows import table_tensors

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import torch

    from fastload.tools.bench.peers import Work


class Contender:
    """`Dataset.from_parquet(...).shuffle(seed)`, its rows taken by index."""

    def __init__(self, work: Work) -> None:
        self._work = work

        def convert(directory: Path) -> None:
            rows = datasets.Dataset.from_parquet(
                list(work.files), columns=list(work.columns), cache_dir=str(directory / "cache")
            )
            rows.save_to_disk(directory / "rows")

        directory, self.conversion_s = converted(work, "huggingface", convert)
        self._rows = datasets.load_from_disk(directory / "rows").with_format("arrow")

    def epoch(self, number: int) -> Iterator[dict[str, torch.Tensor]]:
        """Yield the batches of one epoch, as `Contender.epoch` describes."""
        rows = self._rows
        if self._work.shuffle:
            rows = rows.shuffle(seed=self._work.seed + number, keep_in_memory=True)
        for table in rows.iter(self._work.batch_size):
            yield table_tensors(table, self._work.columns)

    def bottleneck(self) -> str:
        """Return the slowest stage, as `Contender.bottleneck` describes."""
        return ""
