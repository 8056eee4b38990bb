"""RowsByIndex: the rows of a dataset as a map-style dataset of torch."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, overload

from torch.utils.data import Dataset
from torch.utils.data._utils.collate import default_collate, default_collate_fn_map

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastload.batch.batch import Batch
    from fastload.dataset.lookup.take import Indices

__all__ = ["FetchedRow", "FetchedRows", "RowsByIndex", "TakesRows"]


class TakesRows(Protocol):
    """A dataset whose rows have numbers."""

    @property
    def num_rows(self) -> int:
        """Number of rows."""

    def take(self, indices: Indices) -> Batch:
        """Return rows by number, in the order of `indices`."""


class RowsByIndex(Dataset[dict[str, Any]]):
    """A map-style dataset: the rows of a FastParquetDataset by number.

    `FastParquetDataset.by_index` makes it. Item i is row i in canonical order as a dict of scalars
    and tensors; a list, array or tensor of numbers gives a Batch. In a DataLoader, torch's samplers
    choose the rows, and batches are Batches without a collate_fn.

    Example:
        rows = FastParquetDataset("train", columns=["f1", "label"]).by_index()
        rows[3]["label"]  # a tensor without dimensions
        loader = DataLoader(rows, batch_size=32, shuffle=True)
        next(iter(loader))["f1"].shape  # (32,)

    Args:
        dataset: The dataset.
        text: What the repr says of the dataset. Grain refuses a checkpoint if the repr of its
            source has changed, so the text must not depend on what was read.
    """

    def __init__(self, dataset: TakesRows, text: str) -> None:
        self._dataset = dataset
        self._text = text
        self._rows = dataset.num_rows

    def __len__(self) -> int:
        """Return the number of rows."""
        return self._rows

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: Indices) -> Batch: ...
    def __getitem__(self, index: Any) -> Any:
        """Return one row as a dict, or several rows as a Batch.

        Args:
            index: Number of a row, or several numbers; -1 is the last row.

        Raises:
            IndexError: A row does not exist.
        """
        try:
            number = operator.index(index)
        except TypeError:
            return self._dataset.take(index)
        return dict(_row(self._dataset.take([number]), 0))

    def __getitems__(self, indices: list[int]) -> FetchedRows:
        """Return several rows for DataLoader, whose default collate_fn gives their Batch.

        A collate_fn of your own gets a sequence of dicts; the attribute `batch` of the sequence is
        the Batch.

        Args:
            indices: Numbers of the rows.
        """
        return FetchedRows(self._dataset.take(indices))

    def __repr__(self) -> str:
        return f"RowsByIndex({self._rows} rows of {self._text})"


class FetchedRow(dict[str, Any]):
    """One row of FetchedRows: a dict that torch's default collate_fn knows by its class."""


class FetchedRows(Sequence[FetchedRow]):
    """The rows that DataLoader has fetched for a batch, as a sequence of dicts.

    Args:
        batch: the rows.
    """

    def __init__(self, batch: Batch) -> None:
        self.batch = batch

    def __len__(self) -> int:
        return self.batch.rows

    @overload
    def __getitem__(self, index: int) -> FetchedRow: ...
    @overload
    def __getitem__(self, index: slice) -> list[FetchedRow]: ...
    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(f"Expected a row in [0, {len(self)}), got {index}")
        return _row(self.batch, index)

    def __iter__(self) -> Iterator[FetchedRow]:
        names = list(self.batch)
        for row in zip(*map(list, self.batch.values()), strict=True):
            yield FetchedRow(zip(names, row, strict=True))


def _row(batch: Batch, index: int) -> FetchedRow:
    return FetchedRow((name, value[index]) for name, value in batch.items())


def _collate(rows: Any, **_collation: object) -> Any:
    """Return the Batch of fetched rows, which is there already."""
    if isinstance(rows, FetchedRows):
        return rows.batch
    return default_collate([dict(row) for row in rows])  # type: ignore[no-untyped-call]


default_collate_fn_map[FetchedRow] = _collate
