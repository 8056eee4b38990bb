"""The filling of a dataset's cache before passes read from the cache."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from fastload.engine.cache.arrow_format import UncacheableError
from fastload.errors import CacheError, CorruptFileError
from fastload.plan.read_plan import ReadPlan, read_plan
from fastload.runtime.progress import showing

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastload.dataset.ranks import Rank
    from fastload.engine.cache.maker import BlockMaker
    from fastload.engine.engine import Engine
    from fastload.plan.options import Options
    from fastload.plan.sequence import RowGroups
    from fastload.source.source import Source

__all__ = ["warm", "warm_blocks"]


def warm(
    engine: Engine,
    batch_rows: int,
    row_groups: RowGroups,
    options: Options,
    rank: Rank,
    source: Source,
    progress: bool | Callable[[int, int], None],
    share: tuple[int, int],
    began_ns: int,
) -> None:
    """Read a rank's rows into the cache in stored order; with shuffle, the rows of all ranks.

    Args:
        engine: the engine that reads the rows.
        batch_rows: number of rows in the core's batches.
        row_groups: all row groups, in canonical order.
        options: the dataset's parameters.
        rank: the rank whose rows are read.
        source: the files.
        progress: True to show the progress on stderr, or a function to call with the number of
            rows read and the number of all rows.
        share: number of the share to read, and number of shares.
        began_ns: time at which the first share began, in ns since the epoch.

    Raises:
        CacheError: the cache keeps nothing of these files, has no room for all rows, or can't be
            written to.
    """
    if not source.storage.keeps(source.files):
        if cause := source.storage.cache_failure:
            raise CacheError(f"Expected to write to the cache, got: {cause}")
        raise CacheError(
            "Expected a dataset with cache= and files of a store, got one with no cached file"
        )
    plan = _plan_of(row_groups, options, rank, share, engine.budget.stripe_rows)
    with showing(progress) as show, closing(engine.start(plan, batch_rows)) as scan:
        rows = 0
        show(rows, plan.rows)
        while (lent := scan.next()) is not None:
            rows += lent.rows
            show(rows, plan.rows)
    source.storage.flush()
    if not source.storage.keeps(source.files):
        raise CacheError("Expected room in the cache for all rows, got less: see the warning")
    source.storage.check_room_since(began_ns)


def warm_blocks(
    maker: BlockMaker,
    row_groups: RowGroups,
    options: Options,
    rank: Rank,
    progress: bool | Callable[[int, int], None],
    share: tuple[int, int],
    began_ns: int,
    *,
    skip: bool,
) -> None:
    """Fill the cache with a rank's row groups after `preprocess`; with shuffle, of all ranks.

    Args:
        maker: makes the cached row groups.
        row_groups: all row groups, in canonical order.
        options: the dataset's parameters.
        rank: the rank whose row groups are cached.
        progress: as for `warm`.
        share: as for `warm`.
        began_ns: as for `warm`.
        skip: True to leave out corrupt row groups.

    Raises:
        CacheError: a row group can't be kept in the cache, or `max_bytes` don't hold all of them.
    """
    plan = _plan_of(row_groups, options, rank, share, options.batch_size)
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
        skip_steps=(),
    )
    return read_plan(
        row_groups,
        in_order,
        0,
        (),
        world,
        number,
        workers=share[1],
        worker=share[0],
        stripe_rows=stripe_rows,
    )
