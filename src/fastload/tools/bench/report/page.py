"""Page of --html: one file, without scripts, which loads nothing from the network."""

from __future__ import annotations

import shlex
from html import escape
from importlib import resources
from typing import TYPE_CHECKING

from fastload.tools.bench.report.picture import svg
from fastload.tools.bench.report.text import (
    FIGURES,
    figures,
    heading,
    name_of,
    notes,
    source_of,
    waits,
)
from fastload.tools.bench.report.verdict import (
    MODES,
    ranked,
    verdict,
    warnings,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fastload.tools.bench.report.verdict import Record


_METHOD = (
    "Every contender reads the same rows and columns into the same batches of tensors, and is "
    "checked against what pyarrow reads before it is timed. They take turns, each in a process of "
    "its own."
)


def page(record: Record) -> str:
    """Return the page of a record that `fastload.tools.bench.report.record.to_json` made."""
    package = resources.files("fastload.tools.bench.report")
    style = package.joinpath("page.css").read_text(encoding="utf-8")
    title = verdict(record)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<link rel="icon" href="data:,"><title>{escape(f"{title}: {source_of(record)}")}</title>'
        f"<style>{style}</style></head><body><header><h1>{escape(title)}</h1></header>"
        f"<main>{''.join(_sections(record))}</main></body></html>\n"
    )


def _sections(record: Record) -> Iterable[str]:
    if record["results"]:
        doubts = (f"Warning: {line}." for line in warnings(record))
        # In a page the picture needs no name space, which is an address.
        picture = svg(record).replace(' xmlns="http://www.w3.org/2000/svg"', "")
        yield _section("Summary", _lines(doubts), f'<div class="scroll">{picture}</div>')
    for mode, words in MODES.items():
        if entries := ranked(record, mode):
            rows = [(name_of(e), e["version"], *figures(record, e)) for e in entries]
            caption = "Medians of the epochs after the first"
            heads = ("loader", "version", *FIGURES)
            yield _section(words.capitalize(), _table(caption, heads, rows))
    if record["profile"] and record["profile"]["step_s"]:
        yield _section("Waits for data", _lines(waits(record)))
    host = record["host"]
    method = (
        f"fastload {record['fastload']}, {record['created']}: {shlex.join(record['command'])}",
        *heading(record),
        f"{host['system']}, Python {host['python']}",
        _METHOD,
        *notes(record, verbose=True),
    )
    yield _section("How it was measured", _lines(method))


def _section(title: str, *content: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{''.join(content)}</section>"


def _lines(lines: Iterable[str]) -> str:
    return "".join(f"<p>{escape(line)}</p>" for line in lines)


def _table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table whose first column names the row."""
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in heads)
    lines = (
        f'<tr><th scope="row">{escape(row[0])}</th>'
        f"{''.join(f'<td>{escape(cell)}</td>' for cell in row[1:])}</tr>"
        for row in rows
    )
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}">'
        f"<table><caption>{escape(caption)}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table></div>"
    )
