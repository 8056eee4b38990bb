# /// script
# dependencies = ["daft==0.7.26", "numpy==2.2.6", "pyarrow==25.0.1", "torch==2.13.0"]
# ///
"""Daft, whose pyarrow is older than fastload's: record batches of `to_arrow_iter`.

They are faster than `to_torch_iter_dataset`, which makes Python rows. `shuffle` permutes all rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import daft
import torch
from timing import Work, measure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def make(work: Work) -> Callable[[int], Iterator[dict[str, torch.Tensor]]]:
    """Return what yields the batches of an epoch."""
    table: Any = daft.read_parquet(work.files).select(*map(daft.col, work.columns))

    def epoch(number: int) -> Iterator[dict[str, torch.Tensor]]:
        rows = table.shuffle(seed=number) if work.shuffle else table
        for block in rows.to_arrow_iter():
            for start in range(0, len(block), work.batch_size):
                part = block.slice(start, work.batch_size)
                yield {
                    name: torch.from_numpy(part.column(name).to_numpy(zero_copy_only=False))
                    for name in work.columns
                }

    return epoch


if __name__ == "__main__":
    measure(make)
