"""Advice on a layout: what costs time, how much, and the remedy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fastload.runtime.units import duration_of, size_of
from fastload.tools.inspect.costs import (
    REQUEST_S,
    REQUESTS_IN_FLIGHT,
    PassCost,
    cost_of,
    decompression_s,
)
from fastload.tools.inspect.rewrite import Rewrite

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastload.tools.inspect.column_layout import ColumnLayout
    from fastload.tools.inspect.dataset_layout import DatasetLayout

__all__ = ["Advice", "advise", "pass_cost", "rewrite_of", "suggested_group_rows"]

# With row groups of 2**17 rows, opening chunks takes less than 2 % of the time, and a window of
# 2**19 rows has at least four row groups.
_GROUP_ROWS = 1 << 17
# Limit of the decoded bytes of a row group: row groups of wide rows have fewer rows.
_GROUP_BYTES = 128 << 20
# A smaller share of a pass is not worth a rewrite.
_LEAST_SHARE = 0.05
_SLOW_CODECS = ("brotli", "gzip")
_SMALL_FILE_BYTES = 8 << 20
_MANY_FILES = 64
# A window of fewer row groups shuffles sorted rows badly: docs/notes/collate.md.
_FEW_GROUPS = 8


@dataclass(frozen=True, slots=True)
class Advice:
    """One property of the layout that costs time.

    Attributes:
        what: the property, in a few words.
        cost: the cost of the property, in a sentence.
        remedy: what to do.
        saved_s: CPU seconds of a pass that the remedy saves; None if the cost is another.
        share: saved_s, or the cost, as a share of the CPU seconds of a pass.
        rewrites: True if the remedy writes the files again.
    """

    what: str
    cost: str
    remedy: str
    saved_s: float | None = None
    share: float | None = None
    rewrites: bool = True


def pass_cost(layout: DatasetLayout) -> PassCost:
    """Return the cost of a pass over all columns."""
    row_bytes = layout.windows.row_bytes if layout.windows else 0
    return cost_of(layout.columns, row_bytes * layout.rows, layout.times)


def suggested_group_rows(layout: DatasetLayout) -> int:
    """Return the rows of a good row group: 2**17, or a power of two that decodes to 128 MiB."""
    row_bytes = layout.windows.row_bytes if layout.windows else 1
    fit = max(1, _GROUP_BYTES // row_bytes)
    return min(_GROUP_ROWS, 1 << (fit.bit_length() - 1))


def advise(layout: DatasetLayout) -> list[Advice]:
    """Return all advice: first costs of CPU time, largest first, then other costs."""
    if not layout.rows or not layout.columns:
        return []
    cost = pass_cost(layout)
    timed = [*_small_groups(layout, cost), *_slow_codecs(layout, cost)]
    timed.sort(key=lambda advice: -(advice.saved_s or 0.0))
    return [
        *timed,
        *_requests(layout),
        *_large_groups(layout),
        *_dictionaries(layout),
        *_page_indexes(layout),
        *_small_files(layout),
    ]


def rewrite_of(layout: DatasetLayout) -> Rewrite | None:
    """Return how to write the files again; None if no advice asks for a rewrite."""
    if not any(advice.rewrites for advice in advise(layout)):
        return None
    codecs = {codec for column in layout.columns for codec in column.codecs}
    slow = codecs.intersection(_SLOW_CODECS) or "zstd" in codecs
    codec = "zstd" if slow or layout.remote else "snappy"
    plain = tuple(column.path for column in layout.columns if _gives_up(column))
    return Rewrite(suggested_group_rows(layout), codec, plain)


def _small_groups(layout: DatasetLayout, cost: PassCost) -> Iterator[Advice]:
    wanted = suggested_group_rows(layout)
    groups = max(layout.files, -(-layout.rows // wanted))
    left_s = cost.chunks * groups / max(1, layout.row_groups)
    saved_s = cost.chunks - left_s
    share = saved_s / cost.total if cost.total else 0.0
    if share < _LEAST_SHARE:
        return
    yield Advice(
        f"row groups of {layout.group_rows.median:,} rows (median)",
        f"{share:.0%} of a pass, {duration_of(saved_s)} of {duration_of(cost.total)}, goes on "
        "opening column chunks",
        f"rewrite with {wanted:,} rows",
        saved_s,
        share,
    )


def _slow_codecs(layout: DatasetLayout, cost: PassCost) -> Iterator[Advice]:
    for codec in _SLOW_CODECS:
        spent_s = cost.codecs.get(codec, 0.0)
        page_bytes = sum(
            column.page_bytes * column.codecs[codec] / column.chunks
            for column in layout.columns
            if column.codecs[codec]
        )
        saved_s = spent_s - decompression_s("zstd", page_bytes) * layout.times
        share = saved_s / cost.total if cost.total else 0.0
        if share >= _LEAST_SHARE:
            yield Advice(
                f"compressed with {codec}",
                f"{share:.0%} of a pass, {duration_of(saved_s)} of {duration_of(cost.total)}, more "
                "than with zstd, whose files are as small",
                "rewrite with zstd",
                saved_s,
                share,
            )
    zstd_s = cost.codecs.get("zstd", 0.0)
    if zstd_s > cost.total / 3 and not layout.remote:
        yield Advice(
            "compressed with zstd on local disk",
            f"{zstd_s / cost.total:.0%} of a pass, {duration_of(zstd_s)} of "
            f"{duration_of(cost.total)}, is decompression; snappy takes a twentieth of that "
            "time, and more bytes",
            "leave it, unless a pass is bound by CPU",
            None,
            zstd_s / cost.total,
            rewrites=False,
        )


def _requests(layout: DatasetLayout) -> Iterator[Advice]:
    """Yield advice for stores: a column read by itself costs one request for each row group."""
    if not layout.remote or layout.group_rows.median * 2 > suggested_group_rows(layout):
        return
    requests = layout.row_groups
    chunk = sum(column.stored_bytes for column in layout.columns) // max(
        1, sum(column.chunks for column in layout.columns)
    )
    yield Advice(
        f"column chunks of {size_of(chunk)} (mean) in a store",
        f"a column read by itself is up to {requests:,} requests, " + _waits(requests),
        f"rewrite with {suggested_group_rows(layout):,} rows a row group",
    )


def _large_groups(layout: DatasetLayout) -> Iterator[Advice]:
    windows = layout.windows
    if windows is None or layout.rows <= windows.shuffled_rows:
        return  # one window holds all: a uniform shuffle
    groups = windows.shuffled_rows / max(1, layout.group_rows.median)
    wanted = suggested_group_rows(layout)
    # Shuffling needs smaller row groups than fast reading does.
    smaller = min(wanted, windows.shuffled_rows // (2 * _FEW_GROUPS))
    if groups < _FEW_GROUPS and layout.group_rows.median >= 2 * wanted:
        yield Advice(
            f"row groups of {layout.group_rows.median:,} rows (median)",
            f"a shuffled window of {windows.shuffled_rows:,} rows mixes {groups:.2g} of them: if "
            "rows lie sorted, a batch says as much as so few independent rows",
            f"rewrite with {wanted:,} rows or fewer, down to {smaller:,}",
        )


def _gives_up(column: ColumnLayout) -> bool:
    return column.fallbacks * 2 > column.chunks


def _dictionaries(layout: DatasetLayout) -> Iterator[Advice]:
    given_up = [column for column in layout.columns if _gives_up(column)]
    wasted = int(sum(column.dictionary_bytes for column in given_up) * layout.times)
    stored = sum(column.stored_bytes for column in layout.columns) * layout.times
    if not wasted or wasted < _LEAST_SHARE / 2 * stored:
        return
    names = ", ".join(f"`{column.name}`" for column in given_up[:3])
    more = f" and {len(given_up) - 3} more" if len(given_up) > 3 else ""
    yield Advice(
        f"dictionaries given up in {names}{more}",
        f"{size_of(wasted)} of dictionaries ({wasted / stored:.0%} of what is read) hold values "
        "that hardly repeat",
        "rewrite without dictionaries for these columns",
    )


def _page_indexes(layout: DatasetLayout) -> Iterator[Advice]:
    lacking = [column for column in layout.columns if column.page_indexes < column.chunks]
    # If a dataset is one row group of few pages, a page index can't skip pages.
    if not lacking or layout.rows < _GROUP_ROWS:
        return
    largest = max(lacking, key=lambda column: column.stored_bytes)
    mean = largest.stored_bytes // max(1, largest.chunks)
    yield Advice(
        f"no page index in {len(lacking)} of {len(layout.columns)} columns",
        "nothing without filters=; with them, a row group of which one row stays is read and "
        f"decoded whole, {size_of(mean)} of `{largest.name}` (mean)",
        "write_page_index=True, when the files are written again",
        rewrites=False,
    )


def _small_files(layout: DatasetLayout) -> Iterator[Advice]:
    mean = layout.file_bytes // layout.files
    if layout.files < _MANY_FILES or mean > _SMALL_FILE_BYTES:
        return
    cost = "a start reads a footer of each, once for each version of a file"
    if layout.remote:
        cost += f": {_waits(layout.files)}"
    yield Advice(
        f"{layout.files:,} files of {size_of(mean)} (mean)", cost, "rewrite as fewer files"
    )


def _waits(requests: int) -> str:
    """Say how long a number of requests takes."""
    seconds = duration_of(requests * REQUEST_S / REQUESTS_IN_FLIGHT)
    return f"{seconds} at {duration_of(REQUEST_S)} with {REQUESTS_IN_FLIGHT} in flight"
