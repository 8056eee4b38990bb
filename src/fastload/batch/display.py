"""Batches and Raggeds as text and as HTML, for terminals and notebooks."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

import torch

from fastload.batch.packed_rows import of_whole_batch, rows_of_entry
from fastload.batch.ragged import Ragged
from fastload.batch.ragged_parts import describe, preview
from fastload.runtime.tables import table_html, table_text
from fastload.runtime.units import counted, size_of

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["batch_html", "batch_text", "bytes_of"]

_HTML_ROWS = 10
# Values of a tensor that the text shows.
_VALUES = 4
_CELL_CHARS = 40
_ROWS = ("crow_indices", "col_indices", "values")
_COLUMNS = ("ccol_indices", "row_indices", "values")
# The methods that return the parts of a sparse tensor, which has no `nbytes` itself.
_PARTS = {
    torch.sparse_coo: ("_indices", "_values"),  # also of a tensor that is not coalesced
    torch.sparse_csr: _ROWS,
    torch.sparse_bsr: _ROWS,
    torch.sparse_csc: _COLUMNS,
    torch.sparse_bsc: _COLUMNS,
}


def batch_text(values: Mapping[str, Any], rows: int) -> str:
    """Return a few aligned lines: a head, then name, type, shape and first values of each output.

    Args:
        values: the values of a batch by output name.
        rows: number of rows of the batch.
    """
    lines = table_text([_described(name, value) for name, value in values.items()])
    return "\n".join([_head(values, rows), *("  " + line for line in lines)])


def bytes_of(value: object) -> int:
    """Return the number of bytes of a value of a batch; 0 for a value that tells no number."""
    if isinstance(value, torch.Tensor) and value.layout in _PARTS:
        parts = (getattr(value, name) for name in _PARTS[value.layout])
        return sum(int(part().nbytes) for part in parts)
    return int(getattr(value, "nbytes", 0))


def batch_html(values: Mapping[str, Any], rows: int) -> str:
    """Return the first rows as an HTML table, with the types below the names.

    Args:
        values: the values of a batch by output name.
        rows: number of rows of the batch.
    """
    columns = [_described(name, value) for name, value in values.items()]
    shown, whole = min(rows, _HTML_ROWS), of_whole_batch(values)
    outputs = [(name, _as_rows(value)) for name, value in values.items()]
    cells = [
        ["" if name in whole else _cell(value, row) for name, value in outputs]
        for row in range(shown)
    ]
    if rows > shown:
        cells.append(["…"] * len(columns))
    heads = [[name, " ".join(described)] for name, *described, _ in columns]
    return f"<div>{escape(_head(values, rows))}</div>{table_html(heads, cells)}"


def _head(values: Mapping[str, Any], rows: int) -> str:
    size = sum(map(bytes_of, values.values()))
    counts = f"{counted(rows, 'row')}, {counted(len(values), 'output')}"
    return f"Batch of {counts}, {size_of(size)}"


def _described(name: str, value: object) -> list[str]:
    """Return the name, type, shape and first values of an output."""
    if isinstance(value, Ragged):
        what = {"str": "strings", "bytes": "byte strings", None: "lists"}[value.kind]
        first = preview(value) if value.device.type == "cpu" and len(value) else ""
        shape = f"{len(value):,} {what}{_place(value.device)}"
        return [name, describe(value).removeprefix("lists of "), shape, first]
    if not isinstance(value, torch.Tensor):
        return [name, type(value).__name__, "", ""]
    dtype = str(value.dtype).removeprefix("torch.")
    return [name, dtype, f"{tuple(value.shape)}{_place(value.device)}", _first_values(value)]


def _place(device: torch.device) -> str:
    return "" if device.type == "cpu" else f" on {device}"


def _first_values(value: torch.Tensor) -> str:
    if value.device.type != "cpu" or value.layout != torch.strided or not value.numel():
        return ""
    if not value.dim():
        return _number(value.item())
    flat = value.detach()[: _VALUES + 1]
    while flat.dim() > 1:
        flat = flat[0, : _VALUES + 1]
    shown = ", ".join(_number(number) for number in flat[:_VALUES].tolist())
    more = ", ..." if value.numel() > _VALUES else ""
    return f"[{shown}{more}]" if value.dim() > 1 else f"{shown}{more}"


def _number(number: Any) -> str:
    return f"{number:.5g}" if isinstance(number, float) else str(number)


def _as_rows(value: Any) -> Any:
    """Return the rows of a nested tensor, which torch 2.4 can't index; another value as it is."""
    if not isinstance(value, torch.Tensor) or not value.is_nested or value.device.type != "cpu":
        return value
    return value.unbind()  # also quicker: an index unbinds the tensor once a row


def _cell(value: Any, row: int) -> str:
    """Return the text of one row of an output, cut off after some characters."""
    if isinstance(value, (torch.Tensor, Ragged)) and value.device.type != "cpu":
        return ""
    if row >= (rows_of_entry(value) or 0):  # an entry of the user
        return ""
    try:
        text = _text_of(value[row])
    except UnicodeDecodeError:
        alone: Any = value[row : row + 1]
        text = preview(alone)  # shows bytes that are no UTF-8 as replacements
    return text if len(text) <= _CELL_CHARS else text[: _CELL_CHARS - 1] + "…"


def _text_of(one: Any) -> str:
    if isinstance(one, torch.Tensor):
        if one.layout != torch.strided:
            return ""
        some = one.flatten()[: _CELL_CHARS // 2].tolist() if one.dim() else [one.item()]
        text = ", ".join(map(_number, some))
        return f"[{text}]" if one.dim() else text
    if isinstance(one, Ragged):
        return str(one[: _CELL_CHARS // 4].tolist())
    return str(one)
