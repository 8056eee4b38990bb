"""Tensors that hold the whole table in RAM: what a loader of files is at best compared with.

The table is read once, before the first epoch. Shuffled, each epoch permutes all rows, and each
batch is one `index_select` for each tensor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import torch

from fastload.tools.bench.peers.pyarrow_readers import Reference

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastload.tools.bench.peers import Work

_Batch: TypeAlias = dict[str, torch.Tensor]


class ByColumn:
    """A tensor for each column."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._tables: dict[Any, torch.Tensor] = _table(work)

    def epoch(self, number: int) -> Iterator[_Batch]:
        """Yield the batches of one epoch, as `Contender.epoch` describes."""
        rows, size = len(next(iter(self._tables.values()))), self._work.batch_size
        if not self._work.shuffle:
            for start in range(0, rows, size):
                yield self._batch({d: t[start : start + size] for d, t in self._tables.items()})
            return
        generator = torch.Generator().manual_seed(self._work.seed * 1_000_003 + number)
        for chosen in torch.split(torch.randperm(rows, generator=generator), size):
            yield self._batch({d: t.index_select(0, chosen) for d, t in self._tables.items()})

    def _batch(self, tables: dict[Any, torch.Tensor]) -> _Batch:
        return tables


class RowMajor(ByColumn):
    """A tensor (rows, columns) for each dtype; the columns of a batch are views of its rows."""

    def __init__(self, work: Work) -> None:
        super().__init__(work)
        self._names: dict[torch.dtype, list[str]] = {}
        for name, column in self._tables.items():
            self._names.setdefault(column.dtype, []).append(name)
        self._tables = {
            dtype: torch.stack([self._tables[name] for name in names], dim=1)
            for dtype, names in self._names.items()
        }

    def _batch(self, tables: dict[Any, torch.Tensor]) -> _Batch:
        columns = {
            name: column
            for dtype, names in self._names.items()
            for name, column in zip(names, tables[dtype].unbind(1), strict=True)
        }
        return {name: columns[name] for name in self._work.columns}


def _table(work: Work) -> _Batch:
    batches = list(Reference(work).epoch(0))
    return {name: torch.cat([batch[name] for batch in batches]) for name in work.columns}
