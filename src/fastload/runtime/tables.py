"""Small tables as text and as HTML, for terminals and notebooks."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["table_html", "table_text"]


def table_text(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return one line for each row, with aligned columns; the last column is not padded."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def table_html(heads: Sequence[Sequence[str]], rows: Sequence[Sequence[str]]) -> str:
    """Return an HTML table.

    Args:
        heads: for each column, the lines of its head: the name, and smaller lines below the name.
        rows: the cells of each row.
    """
    head = "".join(
        f"<th>{escape(lines[0])}"
        + "".join(f"<br><small>{escape(line)}</small>" for line in lines[1:])
        + "</th>"
        for lines in heads
    )
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
