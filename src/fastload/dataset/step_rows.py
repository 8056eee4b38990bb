"""The rows of steps, as files, row groups and numbers of rows in their files."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from fastload.plan.intervals import edges_of
from fastload.plan.sequence import EpochSequence
from fastload.plan.steps import delivered_rows, rows_in
from fastload.plan.units.units import RowUnits
from fastload.runtime.native import core

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fastload.plan.intervals import Int64s
    from fastload.plan.kept_rows import FileRows
    from fastload.plan.position import Position
    from fastload.plan.rank_split import Share
    from fastload.plan.read_plan import ReadPlan
    from fastload.plan.steps import StepShare
    from fastload.plan.units.units import Units
    from fastload.rows.selection import EpochRows
    from fastload.source.source import Source

__all__ = ["step_rows"]


def step_rows(
    shares: Sequence[StepShare], at: Position, sources: Sequence[tuple[Source, EpochRows, Units]]
) -> tuple[dict[str, Int64s], Int64s]:
    """Return the rows of shares, one share after the other, as `rows_of` of a dataset returns rows.

    Args:
        shares: the shares.
        at: a position in the epoch.
        sources: files, rows of an epoch and units of each source that `shares` name.

    Returns:
        The rows, and the number of rows of each share, (shares,).
    """
    of_shares: list[Int64s] = [np.zeros((0, 3), np.int64)] * len(shares)
    for source, seed in dict.fromkeys((part.source, part.seed) for part in shares):
        own = [n for n, part in enumerate(shares) if (part.source, part.seed) == (source, seed)]
        files, kept, units = sources[source]
        found = _rows_in(units, replace(at, seed=seed), [shares[n].share for n in own])
        together = np.concatenate(found)
        _number(together, files, kept.files)
        ends = np.cumsum([len(rows) for rows in found])[:-1]
        for n, rows in zip(own, np.split(together, ends), strict=True):
            of_shares[n] = rows
    rows = np.concatenate([np.zeros((0, 3), np.int64), *of_shares])
    named = {name: rows[:, n].copy() for n, name in enumerate(("file", "row_group", "row"))}
    return named, np.array([len(part) for part in of_shares], np.int64)


def _plans(units: Units, at: Position, shares: Sequence[Share]) -> Iterator[ReadPlan]:
    for share in shares:
        yield units.read_plan(at, share, stripe_rows=units.options.batch_size, ramp=False)


def _rows_in(units: Units, at: Position, shares: Sequence[Share]) -> list[Int64s]:
    """Return the rows of each share, (n, 3) as `steps.delivered_rows` returns rows."""
    if not isinstance(units, RowUnits):
        return [delivered_rows(plan, core.permutation) for plan in _plans(units, at, shares)]
    options = replace(units.options, seed=at.seed)
    groups = units.groups_of(at)
    sequence = EpochSequence.of(groups, options, at.epoch, core.permutation)
    rows = rows_in(groups, options, at.epoch, shares, sequence, core.permutation)
    rows = units.rows_of_copies(at, rows)
    return np.split(rows, np.cumsum([share.rows for share in shares])[:-1])


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
