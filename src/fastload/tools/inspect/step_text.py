"""The rows of a step of a run as lines of text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fastload.runtime.units import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fastload.plan.intervals import Int64s

__all__ = ["step_lines"]


def step_lines(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a report of `step_report`.

    The lines show the rows of each row group, ascending, or the documents of each packed row.
    """
    rows = {name: np.array(values, np.int64) for name, values in report["rows"].items()}
    places = np.stack([rows["file"], rows["row_group"], rows["row"]])
    groups = np.unique(places[:2], axis=1).T.tolist()
    packed = "packed_row" in rows
    what = counted(places.shape[1], "row")
    if packed:
        ranks = np.repeat(np.arange(len(report["rank_rows"])), report["rank_rows"])
        packed_rows = np.unique(np.stack([ranks, rows["packed_row"]]), axis=1).shape[1]
        documents = np.unique(places, axis=1).shape[1]
        what = f"{counted(packed_rows, 'packed row')} of {counted(documents, 'document')}"
    yield (
        f"step {report['step']} of epoch {report['epoch']} on "
        f"{counted(report['world_size'], 'rank')}: {what} of "
        f"{counted(len(groups), 'row group')} in "
        f"{counted(len(report['files']), 'file')}"
    )
    if packed:
        yield from _packed_lines(report["files"], ranks, rows)
        return
    for file, group in groups:
        own = places[2, (places[0] == file) & (places[1] == group)]
        path = report["files"][str(file)]
        yield f"{path}, row group {group}: {counted(len(own), 'row')}: {_ranges(np.sort(own))}"


def _packed_lines(
    files: Mapping[str, str], ranks: Int64s, rows: Mapping[str, Int64s]
) -> Iterator[str]:
    """Yield the documents of each packed row, in order."""
    latest = None
    for segment in zip(ranks.tolist(), *(values.tolist() for values in rows.values()), strict=True):
        rank, of_segment = segment[0], dict(zip(rows, segment[1:], strict=True))
        packed_row = of_segment["packed_row"]
        if latest != (rank, packed_row):
            latest = rank, packed_row
            yield f"rank {rank}, packed row {packed_row}:"
        path = files[str(of_segment["file"])]
        yield (
            f"  {path}, row group {of_segment['row_group']}, row {of_segment['row']}: "
            f"{_tokens(of_segment)}"
        )


def _tokens(segment: Mapping[str, int]) -> str:
    first, tokens = segment["first_token"], segment["tokens"]
    if tokens == segment["document_tokens"]:
        return counted(tokens, "token")
    last = first + tokens - 1
    span = f"token {first}" if tokens == 1 else f"tokens {first}-{last}"
    return f"{span} of {segment['document_tokens']:,}"


def _ranges(rows: Int64s) -> str:
    """Return ascending numbers as text, such as "3, 5-9"."""
    starts = np.flatnonzero(np.diff(rows, prepend=-2) != 1)
    stops = np.append(starts[1:], len(rows)) - 1
    pairs = zip(rows[starts].tolist(), rows[stops].tolist(), strict=True)
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in pairs)
