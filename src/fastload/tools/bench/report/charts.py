"""Charts as HTML: figures with an inline SVG or bars, and the same numbers as a table below.

An SVG is stretched to the page's width, so it holds no text; labels stand beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_WIDTH, _HEIGHT = 1000, 100
# Share of a bar by which its whisker may lengthen the chart.
_MOST = 0.2


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar of a chart.

    Attributes:
        name: label of the bar.
        value: length of the bar.
        spread: length of the whisker to each side, as a share of `value`.
        text: text at the end of the bar.
        ours: True to highlight the bar.
    """

    name: str
    value: float
    spread: float
    text: str
    ours: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """A line through points.

    Attributes:
        name: label of the line.
        points: (x, y), sorted by x.
        colour: variable of the style sheet.
    """

    name: str
    points: Sequence[tuple[float, float]]
    colour: str


@dataclass(frozen=True, slots=True)
class Block:
    """A part of a lane, from start_s to end_s seconds."""

    kind: str
    start_s: float
    end_s: float


def bars(items: Sequence[Bar]) -> str:
    """Return bars with whiskers, as an HTML list of names and values."""
    # A long whisker neither shortens the bars nor leaves the chart.
    most = max((bar.value * (1 + min(bar.spread, _MOST)) for bar in items), default=0.0) or 1.0
    rows = []
    for bar in items:
        low = bar.value * max(0.0, 1 - bar.spread) / most
        high = min(1.0, bar.value * (1 + bar.spread) / most)
        whisker = ""
        text = bar.text if bar.spread <= 1 else f"{bar.text}, unstable"
        if 0 < bar.spread <= 1:
            whisker = (
                f'<span class="whisker" style="left:{100 * low:.2f}%;'
                f'width:{100 * (high - low):.2f}%"></span>'
            )
        rows.append(
            f'<li{" class=ours" if bar.ours else ""}><span class="name">{escape(bar.name)}</span>'
            f'<span class="track" aria-hidden="true"><span class="bar" '
            f'style="width:{100 * bar.value / most:.2f}%"></span>{whisker}</span>'
            f'<span class="value">{escape(text)}</span></li>'
        )
    return f'<ul class="bars">{"".join(rows)}</ul>'


def table(
    caption: str,
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    ours: str | None = None,
    *,
    prose: bool = False,
) -> str:
    """Return a table whose first column names the row.

    Args:
        caption: title of the table.
        head: names of the columns.
        rows: cells of each row.
        ours: name of the row to highlight; None = no row.
        prose: True if the cells are words rather than numbers.
    """
    cells = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in head)
    lines = []
    for row in rows:
        mark = ' class="ours"' if row[0] == ours else ""
        values = "".join(f"<td>{escape(cell)}</td>" for cell in row[1:])
        lines.append(f'<tr{mark}><th scope="row">{escape(row[0])}</th>{values}</tr>')
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}">'
        f"<table{' class=prose' if prose else ''}><caption>{escape(caption)}</caption>"
        f"<thead><tr>{cells}</tr></thead><tbody>{''.join(lines)}</tbody></table></div>"
    )


def folded(summary: str, content: str) -> str:
    """Return content that the page shows on demand, below its summary."""
    return f"<details><summary>{escape(summary)}</summary>{content}</details>"


def legend(items: Sequence[tuple[str, str]]) -> str:
    """Return a legend of (text, colour) pairs."""
    entries = (
        f'<li><span style="background:var(--{colour})"></span>{escape(text)}</li>'
        for text, colour in items
    )
    return f'<ul class="legend">{"".join(entries)}</ul>'


def lines(
    title: str, items: Sequence[Line], axes: tuple[str, str], most: tuple[float, float], below: str
) -> str:
    """Return a chart of lines over one axis.

    Args:
        title: title of the chart, also read by screen readers.
        items: the lines.
        axes: labels at the ends of the y axis and the x axis.
        most: values at the ends of the x axis and the y axis.
        below: HTML below the chart, such as a table.
    """
    # A margin: a line along the edge would be cut in half.
    x_most, y_most = most[0] or 1.0, 1.03 * most[1] or 1.0
    drawn = []
    for line in items:
        points = " ".join(
            f"{_WIDTH * x / x_most:.1f},{_HEIGHT - _HEIGHT * y / y_most:.2f}"
            for x, y in line.points
        )
        drawn.append(
            f'<polyline points="{points}" fill="none" stroke="var(--{line.colour})" '
            'stroke-width="2" vector-effect="non-scaling-stroke"/>'
        )
    key = legend([(line.name, line.colour) for line in items])
    return _plot(title, "".join(drawn), axes, key + below)


def columns(
    title: str,
    values: Sequence[float],
    marks: Sequence[bool],
    axes: tuple[str, str],
    colours: tuple[str, str],
    below: str,
) -> str:
    """Return a chart of upright bars side by side; marked bars have the second colour."""
    most = max(values, default=0.0) or 1.0
    width = _WIDTH / max(1, len(values))
    drawn = []
    for index, (value, mark) in enumerate(zip(values, marks, strict=True)):
        height = max(0.4, _HEIGHT * value / most)
        drawn.append(
            f'<rect x="{index * width:.2f}" y="{_HEIGHT - height:.2f}" '
            f'width="{max(width * 0.9, 0.5):.2f}" height="{height:.2f}" '
            f'fill="var(--{colours[mark]})"/>'
        )
    return _plot(title, "".join(drawn), axes, below)


def lanes(
    title: str, threads: Sequence[tuple[str, Sequence[Block]]], end_s: float, below: str
) -> str:
    """Return a chart with a lane for each thread, which shows blocks from 0 to `end_s`."""
    rows = []
    for name, blocks in threads:
        drawn = "".join(
            f'<rect x="{_WIDTH * block.start_s / end_s:.2f}" y="0" '
            f'width="{max(_WIDTH * (block.end_s - block.start_s) / end_s, 0.4):.2f}" '
            f'height="{_HEIGHT}" fill="var(--{block.kind})"/>'
            for block in blocks
        )
        rows.append(f"<span>{escape(name)}</span>{_svg(f'{title}: {name}', drawn)}")
    return (
        f"<figure><figcaption>{escape(title)}</figcaption><div class='lanes'>{''.join(rows)}"
        f"<div class='x'><span>0 s</span><span>{end_s:.2f} s</span></div></div>{below}</figure>"
    )


def _plot(title: str, drawn: str, axes: tuple[str, str], below: str) -> str:
    y, x = axes
    return (
        f'<figure><figcaption>{escape(title)}</figcaption><div class="plot">'
        f'<div class="y"><span>{escape(y)}</span><span>0</span></div>{_svg(title, drawn)}'
        f'<div class="x"><span>0</span><span>{escape(x)}</span></div></div>{below}</figure>'
    )


def _svg(title: str, drawn: str) -> str:
    return (
        f'<svg role="img" aria-label="{escape(title)}" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'preserveAspectRatio="none">{drawn}</svg>'
    )
