"""The rows of steps, as files, row groups and numbers of rows in their files."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from fastload.plan.intervals import edges_of
from fastload.plan.permutation import stream_key
from fastload.plan.sequence import ROW_GROUP_STREAM
from fastload.plan.steps import rows_in
from fastload.runtime.native import core

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from fastload.plan.intervals import Int64s
    from fastload.plan.kept_rows import FileRows
    from fastload.plan.options import Options
    from fastload.plan.steps import StepShare
    from fastload.rows.epoch_rows import EpochRows
    from fastload.source.source import Source

__all__ = ["step_rows"]


def step_rows(
    shares: Sequence[StepShare], epoch: int, sources: Sequence[tuple[Source, EpochRows, Options]]
) -> dict[str, Int64s]:
    """Return the rows of shares, one share after the other, as `rows_of` of a dataset returns rows.

    Args:
        shares: the shares.
        epoch: number of the epoch.
        sources: files, rows of an epoch and options of each source that `shares` name.
    """
    edges = edges_of(np.array([part.share.rows for part in shares], np.int64))
    rows = np.empty((int(edges[-1]), 3), np.int64)
    for source, seed in dict.fromkeys((part.source, part.seed) for part in shares):
        own = [n for n, part in enumerate(shares) if (part.source, part.seed) == (source, seed)]
        files, kept, options = sources[source]
        options = replace(options, seed=seed)
        found = rows_in(
            kept.row_groups,
            options,
            epoch,
            [shares[n].share for n in own],
            _order(kept, options, epoch),
            _permuted,
        )
        _number(found, files, kept.files)
        rows[np.concatenate([np.arange(edges[n], edges[n + 1]) for n in own])] = found
    return {name: rows[:, n].copy() for n, name in enumerate(("file", "row_group", "row"))}


def _order(kept: EpochRows, options: Options, epoch: int) -> Int64s | None:
    """Return the order of row groups in a shuffled epoch, which the core computes fastest."""
    if not options.shuffle:
        return None
    key = stream_key(options.seed, epoch, ROW_GROUP_STREAM)
    return core.permutation(key, len(kept.row_groups.rows)).astype(np.int64)


def _permuted(rows: int, key: int) -> NDArray[np.integer]:
    return core.permutation(key, rows)


def _number(rows: Int64s, source: Source, files: Sequence[FileRows]) -> None:
    """Replace the third column, the number among the rows that stay, by the number in the file."""
    file, group = rows[:, 0], rows[:, 1]
    first = np.searchsorted(source.row_group_file, file)
    if files:
        by_group = np.lexsort((group, file))
        breaks = np.flatnonzero(np.diff((first + group)[by_group])) + 1
        for places in np.split(by_group, breaks) if len(rows) else ():
            own = files[int(file[places[0]])]
            rows[places, 2] = _stored(own, int(group[places[0]]), rows[places, 2])
    before = edges_of(source.row_group_rows)
    rows[:, 2] += before[first + group] - before[first]


def _stored(kept: FileRows, group: int, rows: Int64s) -> Int64s:
    """Return the numbers in the row group of rows that stay, given as numbers among these rows."""
    offset = int(kept.offsets[group])
    if offset < 0:  # all rows stay
        return rows
    stops = kept.offsets[kept.offsets > offset]
    bits = kept.bits[offset : int(stops.min()) if len(stops) else None]
    stay: Int64s = np.flatnonzero(np.unpackbits(bits, bitorder="little"))
    return stay[rows]
