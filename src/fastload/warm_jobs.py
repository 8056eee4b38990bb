"""Warms a cache in several processes, each of which reads a share of the dataset."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from fastload.dataset import FastParquetDataset
from fastload.progress_bar import showing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fastload.cache import Cache

__all__ = ["Description", "warm_jobs"]

_POLL_S = 0.2
_BATCH_ROWS = 4096


@dataclass(frozen=True, slots=True)
class Description:
    """The dataset, in the words of `FastParquetDataset`."""

    source: str
    cache: Cache
    columns: Sequence[str] | None = None
    filters: Any = None
    rank: int | None = None
    world_size: int | None = None

    def open(self) -> FastParquetDataset:
        """The dataset."""
        return FastParquetDataset(
            self.source,
            columns=None if self.columns is None else list(self.columns),
            filters=self.filters,
            batch_size=_BATCH_ROWS,
            cache=self.cache,
            rank=self.rank,
            world_size=self.world_size,
        )

    def share(self, number: int, jobs: int) -> Description:
        """One of so many parts of it."""
        rank, world = self.rank or 0, self.world_size or 1
        return replace(self, rank=rank * jobs + number, world_size=world * jobs)


def warm_jobs(description: Description, jobs: int, *, progress: bool) -> dict[str, int]:
    """Warms the cache in so many processes, in this one if it is one.

    progress: whether to show it on stderr.

    Returns:
        How many rows of how many files are there.

    Raises what `FastParquetDataset` and its `warm_cache` do.
    """
    if description.rank is None and description.world_size is None:
        description = replace(description, rank=0, world_size=1)
    counts: dict[int, tuple[int, int]] = {}
    with showing(progress) as told:

        def add_up(number: int, done: int, total: int) -> None:
            counts[number] = done, total
            told(*map(sum, zip(*counts.values(), strict=True)))

        if jobs == 1:
            files = _warm(description, lambda done, total: add_up(0, done, total))
        else:
            files = _warm_shares(description, jobs, add_up)
    return {"rows": sum(total for _, total in counts.values()), "files": files}


def _warm_shares(description: Description, jobs: int, told: Callable[[int, int, int], None]) -> int:
    context = multiprocessing.get_context("spawn")
    # Of each share what is done, and of how many rows.
    counts = context.Array("q", 2 * jobs)
    with ProcessPoolExecutor(
        jobs, mp_context=context, initializer=_begin, initargs=(counts,)
    ) as pool:
        running = [
            pool.submit(_warm_share, description.share(number, jobs), number)
            for number in range(jobs)
        ]
        left: set[Future[int]] = set(running)
        while left:
            left = wait(left, _POLL_S).not_done
            for number in range(jobs):
                told(number, counts[2 * number], counts[2 * number + 1])
        return max(each.result() for each in running)


_counts: Any = None  # of the parent of this process


def _begin(counts: Any) -> None:
    global _counts  # noqa: PLW0603
    _counts = counts


def _warm_share(description: Description, number: int) -> int:
    def told(done: int, total: int) -> None:
        _counts[2 * number], _counts[2 * number + 1] = done, total

    return _warm(description, told)


def _warm(description: Description, told: Callable[[int, int], None]) -> int:
    with description.open() as dataset:
        dataset.warm_cache(told)
        return len(dataset.files)
