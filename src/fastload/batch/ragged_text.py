"""What repr shows of a Ragged: enough to recognise a column, on one short line."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from fastload.batch.ragged import Ragged

__all__ = ["describe", "preview"]

# Rows, and elements of each list in them, that are looked at.
_ROWS = 3
_ELEMENTS = 8
_CHARS = 24


def describe(ragged: Ragged) -> str:
    """What the rows are: "str", "int64", "float32 (3,)", "lists of str"."""
    inner = ragged.values
    if not isinstance(inner, torch.Tensor):
        return f"lists of {describe(inner)}"
    shape = tuple(inner.shape[1:])
    text = ragged.kind or str(inner.dtype).removeprefix("torch.")
    return f"{text} {shape}" if shape else text


def preview(ragged: Ragged) -> str:
    """The first rows, each cut off where it gets long."""
    shown = [_brief(row) for row in _first(ragged, _ROWS)]
    return ", ".join(shown) + (", ..." if len(ragged) > _ROWS else "")


def _first(ragged: Ragged, count: int) -> list[Any]:
    """The first rows as Python objects, of each no more than can be shown."""
    rows: list[Any] = []
    for start, stop in itertools.pairwise(ragged.offsets[: count + 1].tolist()):
        if ragged.kind is None:
            some = ragged.values[start : min(stop, start + _ELEMENTS)]
            rows.append(
                some.tolist() if isinstance(some, torch.Tensor) else _first(some, _ELEMENTS)
            )
        else:
            # A character takes up to 4 bytes; what is no UTF-8 is shown all the same.
            data = bytes(ragged.values[start : min(stop, start + 4 * _CHARS)].tolist())
            rows.append(data.decode(errors="replace") if ragged.kind == "str" else data)
    return rows


def _brief(row: object) -> str:
    text = repr(row)
    return text if len(text) <= _CHARS else text[: _CHARS - 3] + "..."
