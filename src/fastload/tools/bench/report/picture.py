"""Picture of --svg and of the page: bars of rows per second, for light and dark screens alike."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from fastload.runtime.units import counted, million, size_of
from fastload.tools.bench.report.text import name_of, source_of
from fastload.tools.bench.report.verdict import MODES, ranked

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastload.tools.bench.report.verdict import Record

__all__ = ["svg"]

_WIDTH = 740
# Edges of the bars: names stand at their left, figures at their right.
_LEFT, _RIGHT = 210, 650
_ROW, _BAR, _TOP, _LINE = 30, 20, 8, 17
_FONT = "system-ui,-apple-system,'Segoe UI',Roboto,sans-serif"
_COLOURS = (
    (".paper", "#ffffff", "#0d1117"),
    ("text", "#1f2328", "#e6edf3"),
    (".soft", "#59636e", "#9198a1"),
    (".bar", "#8c959f", "#6e7681"),
    (".ours", "#0b6bcb", "#5aa9ff"),
)


def svg(record: Record) -> str:
    """Return bars of the shuffled results, or of the results in order if there are no others.

    The picture has a background of its own, because a page need not follow the reader's colours.

    Raises:
        ValueError: the record has no results.
    """
    mode = next((mode for mode in MODES if ranked(record, mode)), None)
    if mode is None:
        raise ValueError("Expected results to draw, got a record without any")
    entries = ranked(record, mode)
    most = entries[0]["rows_per_s"]
    drawn = []
    for index, entry in enumerate(entries):
        own = entry["family"] == "fastload"
        y = _TOP + index * _ROW
        width = max(1, round((_RIGHT - _LEFT) * entry["rows_per_s"] / most))
        weight = ' font-weight="700"' if own else ""
        base = y + _BAR - 5
        name, figure = escape(name_of(entry)), million(entry["rows_per_s"])
        drawn.append(
            f'<text x="{_LEFT - 10}" y="{base}" text-anchor="end"{weight}>{name}</text>'
            f'<rect x="{_LEFT}" y="{y}" width="{width}" height="{_BAR}" rx="3" '
            f'class="{"bar ours" if own else "bar"}"/>'
            f'<text x="{_WIDTH - 8}" y="{base}" text-anchor="end"{weight}>{figure}</text>'
        )
    bottom = _TOP + len(entries) * _ROW
    caption = list(_caption(record, mode))
    for index, line in enumerate(caption):
        y = bottom + 14 + index * _LINE
        drawn.append(f'<text x="8" y="{y}" font-size="12" class="soft">{escape(line)}</text>')
    height = bottom + _LINE * len(caption) + 6
    light = "".join(f".rows {name}{{fill:{colour}}}" for name, colour, _ in _COLOURS)
    dark = "".join(f".rows {name}{{fill:{colour}}}" for name, _, colour in _COLOURS)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" '
        f'class="rows" font-family="{_FONT}" font-size="14">'
        f"<title>Rows per second, {MODES[mode]}</title>"
        f"<style>{light}@media (prefers-color-scheme: dark){{{dark}}}</style>"
        f'<rect class="paper" width="{_WIDTH}" height="{height}" rx="6"/>{"".join(drawn)}</svg>\n'
    )


def _caption(record: Record, mode: str) -> Iterator[str]:
    data, host = record["dataset"], record["host"]
    yield (
        f"Rows per second, {MODES[mode]}: {source_of(record)}, {data['rows']:,} rows, "
        f"{counted(len(data['columns']), 'column')}, {', '.join(data['codecs']).lower()}, "
        f"{size_of(data['decoded_bytes'])} decoded"
    )
    cached = "" if "://" in data["files"][0] else "; files in the page cache"
    yield (
        f"fastload {record['fastload']}, {counted(host['cores'], 'core')} ({host['cpu']}), "
        f"batches of {data['batch_size']:,} rows{cached}"
    )
    if any(entry["family"] == "memory" for entry in ranked(record, mode)):
        yield (
            "* The whole table in RAM beforehand"
            + (", and a full permutation; others shuffle windows" if mode == "shuffled" else "")
        )
