"""Reads what passes over a dataset will ask for, so that its cache has it."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from fastload import plan
from fastload.errors import CacheError
from fastload.progress_bar import showing

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastload.engine import Engine
    from fastload.options import Options
    from fastload.ranks import Rank
    from fastload.source import Source

__all__ = ["warm"]


def warm(
    engine: Engine,
    batch_rows: int,
    row_groups: plan.RowGroups,
    options: Options,
    rank: Rank,
    source: Source,
    progress: bool | Callable[[int, int], None],
) -> None:
    """Reads a rank's rows in order, whatever the order of passes; with shuffle those of all ranks.

    progress: whether to show it on stderr, or what is told how many rows are read, of how many.

    Raises:
        CacheError: nothing is kept of these files, or there was no room for all.
    """
    if not source.storage.keeps(source.files):
        raise CacheError(
            "Expected a dataset with cache= and files of a store, got one of which nothing is kept"
        )
    # With shuffle other row groups are this rank's in each epoch.
    number, world = (0, 1) if options.shuffle else (rank.rank, rank.world)
    in_order = replace(
        options,
        shuffle=False,
        uneven="keep",
        drop_last=False,
        total_places=None,
        limit=None if options.shuffle else options.limit,
    )
    read_plan = plan.read_plan(
        replace(row_groups, places=None),
        in_order,
        0,
        (),
        world,
        number,
        stripe_rows=engine.budget.stripe_rows,
    )
    with showing(progress) as told, closing(engine.start(read_plan, batch_rows)) as scan:
        rows = 0
        told(rows, read_plan.rows)
        while (lent := scan.next()) is not None:
            rows += lent.rows
            told(rows, read_plan.rows)
    source.storage.flush()
    if not source.storage.keeps(source.files):
        raise CacheError("Expected room for all that was read, got less: see the warning")
