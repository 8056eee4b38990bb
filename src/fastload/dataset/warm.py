"""Reads what passes over a dataset will ask for, so that its cache has it."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from dataclasses import replace
from queue import SimpleQueue
from typing import TYPE_CHECKING

from fastload.engine.cache.entry_lock import NoRoomError
from fastload.engine.cache.workers import start_workers
from fastload.errors import CacheError, CorruptFileError
from fastload.plan import read_plan as plan
from fastload.runtime.native import core
from fastload.runtime.progress_bar import showing

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastload.dataset.ranks import Rank
    from fastload.engine.cache.maker import BlockMaker
    from fastload.engine.engine import Engine
    from fastload.plan.options import Options
    from fastload.source.source import Source

__all__ = ["warm", "warm_blocks"]


def warm(
    engine: Engine,
    batch_rows: int,
    row_groups: plan.RowGroups,
    options: Options,
    rank: Rank,
    source: Source,
    progress: bool | Callable[[int, int], None],
    share: tuple[int, int],
) -> None:
    """Reads a rank's rows in order, whatever the order of passes; with shuffle those of all ranks.

    share: which part of them, of how many.
    progress: whether to show it on stderr, or what is told how many rows are read, of how many.

    Raises:
        CacheError: nothing is kept of these files, or there was no room for all.
    """
    if not source.storage.keeps(source.files):
        raise CacheError(
            "Expected a dataset with cache= and files of a store, got one of which nothing is kept"
        )
    read_plan = _plan_of(row_groups, options, rank, share, engine.budget.stripe_rows)
    with showing(progress) as told, closing(engine.start(read_plan, batch_rows)) as scan:
        rows = 0
        told(rows, read_plan.rows)
        while (lent := scan.next()) is not None:
            rows += lent.rows
            told(rows, read_plan.rows)
    source.storage.flush()
    if not source.storage.keeps(source.files):
        raise CacheError("Expected room for all that was read, got less: see the warning")


def warm_blocks(
    maker: BlockMaker,
    row_groups: plan.RowGroups,
    options: Options,
    rank: Rank,
    progress: bool | Callable[[int, int], None],
    share: tuple[int, int],
    *,
    skip: bool,
) -> None:
    """Has the blocks of a rank's row groups made; with shuffle those of all ranks.

    progress, share: as `warm` takes them.
    skip: leave out row groups that are corrupt.

    Raises:
        CacheError: there is no room for all.
    """
    read_plan = _plan_of(row_groups, options, rank, share, options.batch_size)
    rows_of: Counter[tuple[int, int]] = Counter()
    for file, row_group, start, stop in read_plan.pieces.tolist():
        rows_of[file, row_group] += stop - start
    total, rows = read_plan.rows, 0
    queue = core.DecodedQueue(maker.at_once)
    requester = _WarmRequester(maker)
    end = start_workers(maker, queue, requester, requester)
    try:
        with showing(progress) as told:
            told(rows, total)
            for place in rows_of:
                queue.ask(*place)
            for _ in rows_of:
                place, error = requester.answers.get()
                if error is not None and not (skip and isinstance(error, CorruptFileError)):
                    raise error
                rows += rows_of[place]
                told(rows, total)
    except NoRoomError as error:
        raise CacheError(f"Expected room for all blocks, got less: {error}") from error
    finally:
        end()


class _WarmRequester:
    """Asks for blocks that need only exist.

    Attributes:
        answers: the file and row group of each block, or of one that can't be, with the reason.
    """

    def __init__(self, maker: BlockMaker) -> None:
        self.answers: SimpleQueue[tuple[tuple[int, int], BaseException | None]] = SimpleQueue()
        self._maker = maker

    def open(self, file: int, row_group: int, name: str, _checksum: int) -> bool | None:
        """Note that a block exists, as `decoded_workers.BlockRequester` has it."""
        if not self._maker.store.touch_if_exists(name):
            return None
        self.answers.put(((file, row_group), None))
        return True

    def failed(self, file: int, row_group: int, error: BaseException) -> None:
        """Note why there is no block."""
        self.answers.put(((file, row_group), error))


def _plan_of(
    row_groups: plan.RowGroups,
    options: Options,
    rank: Rank,
    share: tuple[int, int],
    stripe_rows: int,
) -> plan.ReadPlan:
    """A share of the rows of a rank in order; with shuffle of those of all ranks."""
    # With shuffle other row groups are this rank's in each epoch.
    number, world = (0, 1) if options.shuffle else (rank.rank, rank.world)
    in_order = replace(
        options,
        shuffle=False,
        uneven="keep",
        drop_last=False,
        limit=None if options.shuffle else options.limit,
    )
    return plan.read_plan(
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
