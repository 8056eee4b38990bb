"""The filling of a dataset's cache before passes read from the cache."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from fastload.dataset.preparing.errors import UnpreparableError
from fastload.errors import CacheError
from fastload.plan.position import WorkerSlot
from fastload.plan.read_plan import ReadPlan, read_plan
from fastload.runtime.progress import showing

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastload.dataset.preparing.prepared import PreparedRows
    from fastload.dataset.process_engine import ProcessEngine
    from fastload.dataset.ranks import Rank
    from fastload.plan.options import Options
    from fastload.plan.sequence import RowGroups

__all__ = ["warm"]


def warm(
    engines: ProcessEngine,
    prepared: PreparedRows | None,
    options: Options,
    rank: Rank,
    progress: bool | Callable[[int, int], None],
    share: tuple[int, int],
    since_ns: int | None,
) -> None:
    """Fill the cache with a share of a rank's rows; with shuffle, of the rows of all ranks.

    With `preprocess`, the cache gets all rows after these steps. Otherwise it gets the bytes of the
    files.

    Args:
        engines: the arguments for making engines; the engine of the passes is not touched.
        prepared: the prepared rows in the cache; None = the cache gets the bytes of the files.
        options: the options that decide which rows are the rank's.
        rank: the rank.
        progress: True to show the progress on stderr, or a function to call with the number of
            rows read and the number of all rows.
        share: number of the share to read, and number of shares.
        since_ns: time at which the first share began, in ns since the epoch; None = now.

    Raises:
        CacheError: the cache keeps nothing of these files, has no room for all rows, or can't be
            written to.
    """
    began_ns = time.time_ns() if since_ns is None else since_ns
    if prepared is None:
        _warm_files(engines, options, rank, progress, share, began_ns)
        return
    if not engines.rows.row_groups.total_rows:
        return  # without rows there is nothing to keep
    folder = None
    with showing(progress) as show:
        try:
            if prepared.usable:
                folder = prepared.write(engines, show, share=share)
        except UnpreparableError as error:
            raise CacheError(f"Expected to keep all rows in the cache, got: {error}") from error
    if folder is None:
        cause = prepared.failure or "files of a store that gives no versions"
        raise CacheError(f"Expected to keep all rows in the cache, got: {cause}")
    folder.close()
    engines.source.storage.flush()


def _warm_files(
    engines: ProcessEngine,
    options: Options,
    rank: Rank,
    progress: bool | Callable[[int, int], None],
    share: tuple[int, int],
    began_ns: int,
) -> None:
    """Read rows in stored order, so that the cache keeps the bytes of the files."""
    files, storage = engines.source.files, engines.source.storage
    with closing(engines.another()) as engine:
        if not storage.keeps(files):
            if cause := storage.cache_failure:
                raise CacheError(f"Can't keep more in the cache: {cause}")  # as its warning
            if storage.has_cache and not engines.source.remote:
                raise CacheError(
                    "Expected files of a store, whose bytes a cache keeps, got local files alone: "
                    f"of local files a cache keeps what `preprocess` makes - at {files[0].path}"
                )
            raise CacheError(
                "Expected a dataset with cache= and files of a store, got one with no cached file"
            )
        row_groups, stripe_rows = engines.rows.row_groups, engine.budget.stripe_rows
        plan = _plan_of(row_groups, options, rank, share, stripe_rows)
        with showing(progress) as show, closing(engine.start(plan, engines.batch_rows)) as scan:
            rows = 0
            show(rows, plan.rows)
            while (lent := scan.next()) is not None:
                rows += lent.rows
                show(rows, plan.rows)
        storage.flush()
        if not storage.keeps(files):
            raise CacheError("Expected room in the cache for all rows, got less: see the warning")
        storage.check_room_since(began_ns)


def _plan_of(
    row_groups: RowGroups,
    options: Options,
    rank: Rank,
    share: tuple[int, int],
    stripe_rows: int,
) -> ReadPlan:
    """Return the plan of a share of a rank's rows in stored order; with shuffle, of all ranks."""
    # With shuffle, each epoch gives this rank other row groups.
    number, world = (0, 1) if options.shuffle else (rank.rank, rank.world)
    in_order = replace(
        options,
        shuffle=False,
        uneven="keep",
        drop_last=False,
        limit=None if options.shuffle else options.limit,
        offset=0 if options.shuffle else options.offset,
    )
    part = WorkerSlot(world, workers=share[1], worker=share[0], rank=number)
    return read_plan(row_groups, in_order, 0, part, stripe_rows=stripe_rows)
