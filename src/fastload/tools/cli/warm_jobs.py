"""Warming of a cache in several processes, each of which reads a share of the dataset."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import time
from concurrent.futures import Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from fastload.dataset.dataset import FastParquetDataset
from fastload.runtime.child_processes import end_with_parent
from fastload.runtime.progress import showing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from multiprocessing.context import BaseContext

    from fastload.runtime.disk.cache import Cache
    from fastload.schema.projection import Nulls

__all__ = ["Description", "steps_of", "warm_jobs", "warm_share"]

_POLL_S = 0.2


@dataclass(frozen=True, slots=True)
class Description:
    """The arguments of a `FastParquetDataset`, in a form that can be sent to other processes.

    Attributes:
        source: as the argument of the dataset.
        cache: the cache to fill.
        columns: names of columns, or the location of the columns argument as "module:name".
        filters: as the argument of the dataset.
        nulls: as the argument of the dataset.
        preprocess: locations of the steps, each as "module:name".
        batch_size: rows that are read at once; has no effect on the cached entries.
        rank: as the argument of the dataset.
        world_size: as the argument of the dataset.
        threads: as the argument of the dataset.
        memory_budget: as the argument of the dataset.
        part: (number of the share, number of shares) of the rank's rows.
        since_ns: time, in ns since the epoch, at which the first share began; None = this share
            is the only one. No entry used since then may have made room for others.
    """

    source: str
    cache: Cache
    columns: Sequence[str] | str | None = None
    filters: Any = None
    nulls: Nulls = "raise"
    preprocess: Sequence[str] = ()
    batch_size: int = 4096
    rank: int | None = None
    world_size: int | None = None
    threads: int | None = None
    memory_budget: str = "4GB"
    part: tuple[int, int] = (0, 1)
    since_ns: int | None = None

    def open(self) -> FastParquetDataset:
        """Open the dataset."""
        return FastParquetDataset(
            self.source,
            columns=_columns_of(self.columns),
            filters=self.filters,
            nulls=self.nulls,
            preprocess=steps_of(self.preprocess),
            batch_size=self.batch_size,
            cache=self.cache,
            rank=self.rank,
            world_size=self.world_size,
            threads=self.threads,
            memory_budget=self.memory_budget,
        )

    def share(self, number: int, jobs: int) -> Description:
        """Return the description of share `number` of `jobs` shares of the rank's rows."""
        return replace(self, part=(number, jobs))


def steps_of(locations: Sequence[str]) -> list[Any] | None:
    """Import steps, or lists of steps; None if there are none.

    Args:
        locations: locations of the steps, such as "package.module:function".

    Raises:
        ValueError: a location has another form, or the module has no such name.
    """
    steps: list[Any] = []
    for location in locations:
        found = _import_from(location, "a step")
        steps.extend(found if isinstance(found, (list, tuple)) else [found])
    return steps or None


def _columns_of(columns: Sequence[str] | str | None) -> Any:
    """Return the columns argument of the dataset."""
    if columns is None:
        return None
    return _import_from(columns, "columns") if isinstance(columns, str) else list(columns)


def _import_from(location: str, what: str) -> Any:
    module, _, path = location.partition(":")
    if not module or not path:
        raise ValueError(f"Expected {what} as module:name, got {location!r}")
    found: Any = importlib.import_module(module)
    for name in path.split("."):
        if not hasattr(found, name):
            raise ValueError(f"Expected {what} at {location}, found no `{name}` in {module}")
        found = getattr(found, name)
    return found


def warm_jobs(description: Description, jobs: int, *, progress: bool) -> dict[str, int]:
    """Warm the cache in several processes; with one job, in this process.

    Args:
        description: the dataset.
        jobs: number of processes.
        progress: True to show the progress on stderr.

    Returns:
        The number of rows and of files in the cache.

    The errors are those of `FastParquetDataset` and its `warm_cache`.
    """
    if description.rank is None and description.world_size is None:
        description = replace(description, rank=0, world_size=1)
    with showing(progress) as report:
        if jobs == 1:
            rows, files = warm_share(description, report)
        else:
            rows, files = _warm_shares(description, jobs, report)
    return {"rows": rows, "files": files}


def _warm_shares(
    description: Description, jobs: int, report: Callable[[int, int], None]
) -> tuple[int, int]:
    description = replace(description, since_ns=time.time_ns())
    context = _context()
    # For each share: rows read so far, and all rows; -1 until the share's process knows.
    # No lock: a process that is killed would never release the lock.
    counts = context.RawArray("q", [-1] * (2 * jobs))
    with ProcessPoolExecutor(
        jobs, mp_context=context, initializer=_begin, initargs=(counts, dict(os.environ))
    ) as pool:
        running = [
            pool.submit(_warm_share, description.share(number, jobs), number)
            for number in range(jobs)
        ]
        left: set[Future[tuple[int, int]]] = set(running)
        while left:
            left = wait(left, _POLL_S).not_done
            latest = counts[:]
            if min(latest) >= 0:
                report(sum(latest[::2]), sum(latest[1::2]))
        warmed = [each.result() for each in running]
    return sum(rows for rows, _ in warmed), max(files for _, files in warmed)


def _context() -> BaseContext:
    """Return the way to start processes: a fork server imports torch once for all of them."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    return context


_counts: Any = None  # the shared counts of the parent process


def _begin(counts: Any, environment: Mapping[str, str]) -> None:
    global _counts  # noqa: PLW0603
    end_with_parent()  # the queue of the pool stays open when the parent is killed
    os.environ.update(environment)  # a fork server has the environment of its start
    _counts = counts


def _warm_share(description: Description, number: int) -> tuple[int, int]:
    def report(done: int, total: int) -> None:
        _counts[2 * number], _counts[2 * number + 1] = done, total

    return warm_share(description, report)


def warm_share(description: Description, report: Callable[[int, int], None]) -> tuple[int, int]:
    """Warm the cache with one share, in this process.

    Args:
        description: the share of the dataset.
        report: function called with the number of rows read and the number of all rows.

    Returns:
        The number of rows of the share, and the number of files of the dataset.
    """
    rows = 0

    def count(done: int, total: int) -> None:
        nonlocal rows
        rows = total
        report(done, total)

    with description.open() as dataset:
        dataset._warm(count, description.part, description.since_ns)  # noqa: SLF001
        return rows, len(dataset.files)
