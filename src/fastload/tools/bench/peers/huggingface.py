"""Hugging Face datasets, streamed in two formats."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import datasets
import torch

from fastload.tools.bench.peers.windows import stored_dtypes, table_tensors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastload.tools.bench.peers import Work


class ArrowStream:
    """Arrow tables of a stream of Parquet files, made tensors here.

    The calls are `load_dataset(..., streaming=True).with_format("arrow").iter(batch_size)`.
    """

    def __init__(self, work: Work) -> None:
        self._work = work

    def epoch(self, number: int) -> Iterator[dict[str, torch.Tensor]]:
        """Yield the batches of one epoch, as `Contender.epoch` describes."""
        rows = _stream(self._work, number).with_format("arrow")
        for table in rows.iter(self._work.batch_size):
            yield table_tensors(table, self._work.columns)


class TorchStream:
    """Tensors of a stream of Parquet files.

    The calls are `load_dataset(..., streaming=True).with_format("torch").iter(batch_size)`. The
    torch format turns all integers into int64 and all floats into float32: the columns are cast
    back to their stored dtypes.
    """

    def __init__(self, work: Work) -> None:
        self._work = work
        self._dtypes = stored_dtypes(work)

    def epoch(self, number: int) -> Iterator[dict[str, torch.Tensor]]:
        """Yield the batches of one epoch, as `Contender.epoch` describes."""
        rows = _stream(self._work, number).with_format("torch")
        for batch in rows.iter(self._work.batch_size):
            yield {name: _filled(batch[name]).to(dtype) for name, dtype in self._dtypes.items()}


def _filled(column: torch.Tensor | list[torch.Tensor | None]) -> torch.Tensor:
    """Return a column with 0 for nulls, which are NaN, or None in a list of bools."""
    if isinstance(column, list):
        return torch.tensor([0 if value is None else value for value in column])
    return column.masked_fill(column.isnan(), 0) if column.is_floating_point() else column


def _stream(work: Work, epoch: int) -> Any:
    """Open the files as an IterableDataset.

    Shuffled, the files are permuted and rows are drawn from a buffer, as the documentation of
    Hugging Face datasets says.
    """
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
