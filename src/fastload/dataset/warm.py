"""The filling of a dataset's cache before passes read from the cache."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from fastload.engine.cache.arrow_format import UncacheableError
from fastload.errors import CacheError, CorruptFileError
from fastload.plan.position import WorkerSlot
from fastload.plan.read_plan import ReadPlan, read_plan
from fastload.runtime.progress import showing

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastload.dataset.process_engine import ProcessEngine
    from fastload.dataset.ranks import Rank
    from fastload.engine.cache.maker import BlockMaker
    from fastload.plan.options import Options
    from fastload.plan.sequence import RowGroups

__all__ = ["warm"]


def warm(
    engines: ProcessEngine,
    options: Options,
    rank: Rank,
    progress: bool | Callable[[int, int], None],
    share: tuple[int, int],
    since_ns: int | None,
) -> None:
    """Fill the cache with a share of a rank's rows; with shuffle, of the rows of all ranks.

    The cache gets the row groups after `preprocess`, or the bytes of the files if no row group can
    be cached.

    Args:
        engines: the arguments for making engines; the engine of the passes is not touched.
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
    row_groups = engines.rows.row_groups
    if engines.blocks is not None and not row_groups.total_rows:
        return  # without rows there is nothing to keep
    began_ns = time.time_ns() if since_ns is None else since_ns
    maker = engines.block_maker()
    if maker is None:
        _warm_files(engines, options, rank, progress, share, began_ns)
        return
    plan = _plan_of(row_groups, options, rank, share, options.batch_size)
    with closing(maker):
        _warm_blocks(maker, plan, progress, began_ns, skip=engines.fixed_stripes)
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
            if engines.blocks is not None and (cause := engines.blocks.failure):
                raise CacheError(
                    f"Expected to keep row groups in the cache, got: {cause}; this dataset has "
                    "stopped keeping row groups: remove the cause, and make the dataset again"
                )
            if storage.has_cache and not engines.source.remote:
                raise CacheError(
                    "Expected files of a store, whose bytes a cache keeps, got local files alone: "
                    "of local files a cache keeps what `preprocess` makes, unless only bytes are "
                    f"kept (Cache(decoded=False), --raw-only) - at {files[0].path}"
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


def _warm_blocks(
    maker: BlockMaker,
    plan: ReadPlan,
    progress: bool | Callable[[int, int], None],
    began_ns: int,
    *,
    skip: bool,
) -> None:
    """Fill the cache with the row groups of a plan after `preprocess`.

    Args:
        maker: makes the cached row groups.
        plan: the plan.
        progress: as for `warm`.
        began_ns: time at which the first share began.
        skip: True to leave out corrupt row groups.

    Raises:
        CacheError: a row group can't be kept in the cache, or `max_bytes` don't hold all of them.
    """
    rows_of: Counter[tuple[int, int]] = Counter()
    for file, row_group, start, stop in plan.pieces.tolist():
        rows_of[file, row_group] += stop - start
    total, rows = plan.rows, 0
    try:
        with showing(progress) as show:
            show(rows, total)
            for entry, error in maker.warm(rows_of):
                if error is not None and not (skip and isinstance(error, CorruptFileError)):
                    raise error
                rows += rows_of[entry]
                show(rows, total)
        maker.check_room_since(began_ns)
    except UncacheableError as error:
        raise CacheError(f"Expected to keep all row groups in the cache, got: {error}") from error


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
