"""Warms a cache on a Ray cluster, whose tasks each read a share of the dataset."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fastload.errors import CacheError
from fastload.runtime.disk.private_directory import open_private
from fastload.runtime.progress import showing
from fastload.tools.cli.warm_jobs import warm_share

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from fastload.runtime.disk.cache import Cache
    from fastload.tools.cli.warm_jobs import Description

__all__ = ["warm_on_ray"]

# A share that is read anew is a quarter of what a CPU has to do, at most; more of them would
# have files opened more often.
_SHARES_PER_CPU = 4
# Of a task whose worker dies; what a worker has read until then stays.
_RETRIES = 10
_POLL_S = 0.2
_TELL_S = 0.5
_CONNECT_S = 10.0
_MEMORY = "1GB"  # of a task; a node has as many of them as CPUs


def warm_on_ray(
    description: Description, address: str | None, shares: int | None, *, progress: bool
) -> dict[str, int]:
    """Warms the cache by tasks of Ray, into a directory that all nodes read.

    Args:
        description: of the dataset. Nodes open it by themselves, with credentials of their own.
        address: of the cluster, as `ray.init` takes it; None = $RAY_ADDRESS, else one that runs
            on this machine, else one that is begun and ended here.
        shares: tasks; None = four for each CPU of the cluster.
        progress: whether to show it on stderr.

    Returns:
        How many rows of how many files are there.

    Raises what `FastParquetDataset` and its `warm_cache` do, and also:
        ModuleNotFoundError: Ray is not installed.
        ConnectionError: there is no cluster at that address.
        CacheError: a task was given up, or its node does not see the directory.
    """
    if description.rank is None and description.world_size is None:
        description = replace(description, rank=0, world_size=1)
    # Relative to where this process is.
    cache = replace(description.cache, directory=description.cache.path)
    description = replace(description, cache=cache, threads=1, memory_budget=_MEMORY)
    with contextlib.ExitStack() as stack:
        # What is wrong with the description is told here; and footers are in the cache then.
        dataset = stack.enter_context(replace(description, batch_size=None).open())
        rows = len(dataset)
        dataset.close()
        # Ray tells there of workers that have died; it is for the result.
        stack.enter_context(contextlib.redirect_stdout(sys.stderr))
        ray = stack.enter_context(_cluster(address))
        mark = stack.enter_context(_marked(cache))
        told = stack.enter_context(showing(progress))
        shares = shares or _SHARES_PER_CPU * max(1, int(ray.cluster_resources().get("CPU", 1)))
        return _run(ray, description, shares, rows, mark, told)


def _run(
    ray: Any,
    description: Description,
    shares: int,
    rows: int,
    mark: Path,
    told: Callable[[int, int], None],
) -> dict[str, int]:
    # It holds counts alone: without it, or begun anew, less is shown.
    counts = ray.remote(_Counts).options(num_cpus=0, max_restarts=-1).remote()
    task = ray.remote(_warm_share).options(num_cpus=1, max_retries=_RETRIES)
    running = {
        task.remote(description.share(number, shares), number, counts, mark): number
        for number in range(shares)
    }
    left, done, warmed = list(running), {}, []
    try:
        while left:
            ended, left = ray.wait(left, num_returns=len(left), timeout=_POLL_S)
            for each in ended:
                warmed.append(ray.get(each))
                done[running[each]] = warmed[-1][0]
            with contextlib.suppress(ray.exceptions.RayError):
                done = ray.get(counts.all.remote(), timeout=_TELL_S) | done
            told(sum(done.values()) if left else rows, rows)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from None
    except ray.exceptions.RayError as error:
        raise CacheError(
            f"Expected Ray to do each task within {_RETRIES} retries, got "
            f"{type(error).__name__}: {error}"
        ) from error
    finally:
        for each in left:
            ray.cancel(each)
        ray.kill(counts)
    return {"rows": sum(each[0] for each in warmed), "files": max(each[1] for each in warmed)}


class _Counts:
    """Rows that tasks have read so far; an actor."""

    def __init__(self) -> None:
        self._done: dict[int, int] = {}

    def tell(self, number: int, done: int) -> None:
        self._done[number] = done

    def all(self) -> dict[int, int]:
        return self._done


def _warm_share(description: Description, number: int, counts: Any, mark: Path) -> tuple[int, int]:
    """A task: rows of a share, and files of the dataset. Done twice, it finds all there."""
    if not mark.exists():
        raise CacheError(
            "Expected a directory that all nodes of the cluster read, got one on "
            f"{os.uname().nodename} that is another - at {mark.parent}"
        )
    shown = time.monotonic()

    def told(done: int, _total: int) -> None:
        nonlocal shown
        if time.monotonic() - shown >= _TELL_S:
            shown = time.monotonic()
            counts.tell.remote(number, done)

    return warm_share(description, told)


@contextlib.contextmanager
def _cluster(address: str | None) -> Iterator[Any]:
    """Ray, connected; left as it was found."""
    try:
        import ray
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "Expected Ray for --engine ray, got none: pip install 'fastload[ray]'", name="ray"
        ) from None
    if ray.is_initialized():
        yield ray
        return
    _check_reached(address or os.environ.get("RAY_ADDRESS", ""))
    # One that is begun here tells nobody else of it.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray.init(address, log_to_driver=False, logging_level="ERROR")
    try:
        yield ray
    finally:
        ray.shutdown()


def _check_reached(address: str) -> None:
    """Refuses an address that nobody listens at; Ray tries these for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not port.isdecimal():
        return  # "auto", "local" and the like
    try:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_S).close()
    except OSError as error:
        raise ConnectionError(f"Expected a Ray cluster at {address}, got {error}") from error


@contextlib.contextmanager
def _marked(cache: Cache) -> Iterator[Path]:
    """A file in the cache's directory as long as this goes on, for other nodes to look for."""
    open_private(cache.path)
    mark = cache.path / f".warming-{secrets.token_hex(8)}"
    mark.touch()
    try:
        yield mark
    finally:
        mark.unlink(missing_ok=True)
