# /// script
# dependencies = ["datasets", "pyarrow", "torch"]
# ///
"""Hugging Face datasets, converted to its Arrow files, which are mapped to memory.

Shuffled, all rows are permuted, and taken by index.
"""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING, Any

import datasets
import torch
from timing import Work, measure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def make(work: Work) -> Callable[[int], Iterator[dict[str, torch.Tensor]]]:
    """Convert the files, and return what yields the batches of an epoch."""
    directory = tempfile.mkdtemp(prefix="huggingface-")
    table: Any = datasets.Dataset.from_parquet(
        work.files, columns=work.columns, cache_dir=directory
    ).with_format("arrow")

    def epoch(number: int) -> Iterator[dict[str, torch.Tensor]]:
        rows = table.shuffle(seed=number, keep_in_memory=True) if work.shuffle else table
        for batch in rows.iter(work.batch_size):
            yield {name: torch.from_numpy(batch.column(name).to_numpy()) for name in work.columns}

    return epoch


if __name__ == "__main__":
    measure(make)
