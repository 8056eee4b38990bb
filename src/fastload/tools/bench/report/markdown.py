"""Markdown of --markdown: the verdict and a table for each mode, for issues and pull requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastload.runtime.units import duration_of, million, size_of
from fastload.tools.bench.report.text import heading, name_of, notes
from fastload.tools.bench.report.verdict import MODES, compared, ranked, verdict, warnings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fastload.tools.bench.report.verdict import Record

__all__ = ["markdown"]

_HEAD = ("rows/s", "vs best", "first batch", "memory", "CPU s per million rows")


def markdown(record: Record) -> str:
    """Return the results as Markdown."""
    lines = [f"**{_escaped(verdict(record))}**", ""]
    lines += [f"Warning: {line}.  " for line in warnings(record)]
    lines += [f"{_escaped(line)}  " for line in heading(record)]
    lines.append(f"fastload {record['fastload']}, {record['created']}")
    for mode in MODES:
        if ranked(record, mode):
            lines += ["", *_table(record, mode)]
    said = [_escaped(line) for line in notes(record)]
    return "\n".join([*lines, *(["", *said] if said else []), ""])


def _table(record: Record, mode: str) -> Iterator[str]:
    one = compared(record, mode)
    best = one.best["rows_per_s"] if one and one.best and not one.short_s else None
    yield _row((MODES[mode], *_HEAD))
    yield _row(("---", *("---:" for _ in _HEAD)))
    for entry in ranked(record, mode):
        name = _escaped(name_of(entry))
        yield _row(
            (
                f"**{name}**" if entry["family"] == "fastload" else name,
                million(entry["rows_per_s"]),
                f"{entry['rows_per_s'] / best:.2f}x" if best else "-",
                duration_of(entry["first_batch_s"]),
                size_of(entry["peak_rss_bytes"]),
                f"{entry['cpu_s'] / record['dataset']['rows'] * 1e6:.3f}",
            )
        )


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escaped(text: str) -> str:
    """Return text that Markdown shows as it is."""
    for mark in "\\`*_<>|[]":
        text = text.replace(mark, f"\\{mark}")
    return text
