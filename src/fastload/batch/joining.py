"""Batches that come in parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from fastload.batch.batch import Batch
from fastload.batch.ragged import Ragged, own_rows, ragged_of

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["joined"]


def joined(parts: Sequence[Batch]) -> Batch:
    """The rows of batches with the same outputs, one after the other.

    It has memory of its own and the position of the last part; a single part comes as it is.
    """
    last = parts[-1]
    if len(parts) == 1:
        return last
    columns = {name: _joined([part[name] for part in parts]) for name in last}
    return Batch(columns, last._position)  # noqa: SLF001


def _joined(columns: Sequence[Any]) -> Any:
    if not isinstance(columns[0], Ragged):
        return torch.cat(list(columns))
    rows = [own_rows(column, copies=False) for column in columns]
    offsets = [rows[0].offsets[:1]]
    end = 0
    for column in rows:
        offsets.append(column.offsets[1:] + end)
        end = int(offsets[-1][-1]) if len(column) else end
    return ragged_of(_joined([column.values for column in rows]), torch.cat(offsets), rows[0].kind)
