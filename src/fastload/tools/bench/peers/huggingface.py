"""What the contenders with Hugging Face datasets share: a stream of Parquet files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import datasets

if TYPE_CHECKING:
    from fastload.tools.bench.peers import Work


def stream(work: Work, epoch: int) -> Any:
    """An IterableDataset; shuffled as its documentation says: files, then a buffer of rows."""
    dataset = datasets.load_dataset(
        "parquet",
        data_files=list(work.files),
        split="train",
        streaming=True,
        columns=list(work.columns),
    )
    if work.shuffle:
        dataset = dataset.shuffle(seed=work.seed + epoch, buffer_size=work.window_rows)
    return dataset
