# /// script
# requires-python = "<3.12"
# dependencies = [
#     "petastorm==0.13.1", "numpy==1.26.4", "pandas==2.2.3", "pyarrow==14.0.2", "pyspark==3.5.6",
#     "setuptools==69.5.1", "torch==2.6.0",
# ]
# ///
"""Petastorm, which reads with calls that pyarrow 15 removed: make_batch_reader.

A BatchedDataLoader is Petastorm's fastest way to torch.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from petastorm import make_batch_reader
from petastorm.pytorch import BatchedDataLoader
from timing import Work, measure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def make(work: Work) -> Callable[[int], Iterator[dict[str, Any]]]:
    """Return what yields the batches of an epoch."""

    def epoch(number: int) -> Iterator[dict[str, Any]]:
        reader = make_batch_reader(
            [Path(file).absolute().as_uri() for file in work.files],
            schema_fields=[f"^{re.escape(name)}$" for name in work.columns],
            shuffle_row_groups=work.shuffle,
            seed=number,
            # With several workers, row groups come in the order in which the workers finish.
            workers_count=10 if work.shuffle else 1,
        )
        queue = work.window_rows if work.shuffle else 0
        with BatchedDataLoader(reader, work.batch_size, shuffling_queue_capacity=queue) as batches:
            yield from batches

    return epoch


if __name__ == "__main__":
    measure(make)
