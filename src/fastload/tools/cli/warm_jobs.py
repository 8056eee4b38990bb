"""Warms a cache in several processes, each of which reads a share of the dataset."""

from __future__ import annotations

import importlib
import multiprocessing
from concurrent.futures import Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from fastload.dataset.dataset import FastParquetDataset
from fastload.runtime.progress import showing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fastload.runtime.disk.cache import Cache

__all__ = ["Description", "steps_of", "warm_jobs", "warm_share"]

_POLL_S = 0.2


@dataclass(frozen=True, slots=True)
class Description:
    """The dataset, in the words of `FastParquetDataset`.

    columns: names, or where the columns are as "module:name".
    preprocess: where the steps are, each as "module:name".
    batch_size: rows that are read at once; it doesn't matter to what is kept.
    part: which share of the rank's rows is meant, of how many.
    """

    source: str
    cache: Cache
    columns: Sequence[str] | str | None = None
    filters: Any = None
    preprocess: Sequence[str] = ()
    batch_size: int | None = 4096
    rank: int | None = None
    world_size: int | None = None
    threads: int | None = None
    memory_budget: str = "4GB"
    part: tuple[int, int] = (0, 1)

    def open(self) -> FastParquetDataset:
        """The dataset."""
        return FastParquetDataset(
            self.source,
            columns=_columns_of(self.columns),
            filters=self.filters,
            preprocess=steps_of(self.preprocess),
            batch_size=self.batch_size,
            cache=self.cache,
            rank=self.rank,
            world_size=self.world_size,
            threads=self.threads,
            memory_budget=self.memory_budget,
        )

    def share(self, number: int, jobs: int) -> Description:
        """One of so many parts of what the rank reads."""
        return replace(self, part=(number, jobs))


def steps_of(places: Sequence[str]) -> list[Any] | None:
    """The steps at these places, such as "package.module:function", or lists of steps.

    Raises:
        ValueError: it is no such place, or nothing is there.
    """
    steps: list[Any] = []
    for place in places:
        found = _found_at(place, "a step")
        steps.extend(found if isinstance(found, (list, tuple)) else [found])
    return steps or None


def _columns_of(columns: Sequence[str] | str | None) -> Any:
    """What `FastParquetDataset` takes as columns."""
    if columns is None:
        return None
    return _found_at(columns, "columns") if isinstance(columns, str) else list(columns)


def _found_at(place: str, what: str) -> Any:
    module, _, path = place.partition(":")
    if not module or not path:
        raise ValueError(f"Expected {what} as module:name, got {place!r}")
    found: Any = importlib.import_module(module)
    for name in path.split("."):
        if not hasattr(found, name):
            raise ValueError(f"Expected {what} at {place}, found no `{name}` in {module}")
        found = getattr(found, name)
    return found


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
            files = warm_share(description, lambda done, total: add_up(0, done, total))[1]
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

    return warm_share(description, told)[1]


def warm_share(description: Description, told: Callable[[int, int], None]) -> tuple[int, int]:
    """Warms the cache with a share, in this process.

    Args:
        description: of that share.
        told: called with how many rows are read, of how many.

    Returns:
        Rows of the share, and files of the dataset.
    """
    rows = 0

    def count(done: int, total: int) -> None:
        nonlocal rows
        rows = total
        told(done, total)

    with description.open() as dataset:
        dataset._warm(count, description.part)  # noqa: SLF001
        return rows, len(dataset.files)
