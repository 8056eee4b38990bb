"""Warming of a cache on a Ray cluster, whose tasks each read a share of the dataset."""

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

# A failed share repeats at most a quarter of a CPU's work; more shares would open files more
# often.
_SHARES_PER_CPU = 4
# Retries of a task whose worker dies; rows that the worker has cached stay in the cache.
_RETRIES = 10
_POLL_S = 0.2
_REPORT_S = 0.5
_CONNECT_S = 10.0
_MEMORY = "1GB"  # of a task; a node runs as many tasks as it has CPUs


def warm_on_ray(
    description: Description, address: str | None, shares: int | None, *, progress: bool
) -> dict[str, int]:
    """Warm the cache by tasks of Ray, in a directory that all nodes share.

    Args:
        description: the dataset. Each node opens the dataset with its own credentials.
        address: address of the cluster, as `ray.init` takes it; None = $RAY_ADDRESS, else a
            cluster that runs on this machine, else a cluster that is started and stopped here.
        shares: number of tasks; None = four for each CPU of the cluster.
        progress: True to show the progress on stderr.

    Returns:
        The number of rows and of files in the cache.

    Raises:
        ModuleNotFoundError: Ray is not installed.
        ConnectionError: no cluster answers at the address.
        CacheError: a task failed too often, or its node does not share the directory.
        FastloadError, ValueError, TypeError, OSError: as `FastParquetDataset` and its
            `warm_cache` raise them.
    """
    if description.rank is None and description.world_size is None:
        description = replace(description, rank=0, world_size=1)
    # Nodes have other working directories, so the path must be absolute.
    cache = replace(description.cache, directory=description.cache.path)
    description = replace(
        description, cache=cache, threads=1, memory_budget=_MEMORY, since_ns=time.time_ns()
    )
    with contextlib.ExitStack() as stack:
        # A wrong description fails here, before Ray starts; and the footers are cached.
        dataset = stack.enter_context(replace(description, batch_size=1).open())
        rows = len(dataset)
        dataset.close()
        # Ray prints messages about dead workers to stdout, which is for the result.
        stack.enter_context(contextlib.redirect_stdout(sys.stderr))
        ray = stack.enter_context(_cluster(address))
        mark = stack.enter_context(_marked(cache))
        report = stack.enter_context(showing(progress))
        shares = shares or _SHARES_PER_CPU * max(1, int(ray.cluster_resources().get("CPU", 1)))
        return _run(ray, description, shares, rows, mark, report)


def _run(
    ray: Any,
    description: Description,
    shares: int,
    rows: int,
    mark: Path,
    report: Callable[[int, int], None],
) -> dict[str, int]:
    # The actor holds only counts: if the actor dies, the progress shows fewer rows.
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
                done = ray.get(counts.all.remote(), timeout=_REPORT_S) | done
            report(sum(done.values()) if left else rows, rows)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from None
    except ray.exceptions.RayError as error:
        raise CacheError(
            f"Expected Ray to finish each task within {_RETRIES} retries, got "
            f"{type(error).__name__}: {error}"
        ) from error
    finally:
        for each in left:
            ray.cancel(each)
        ray.kill(counts)
    return {"rows": sum(each[0] for each in warmed), "files": max(each[1] for each in warmed)}


class _Counts:
    """An actor that counts the rows that tasks have read so far."""

    def __init__(self) -> None:
        self._done: dict[int, int] = {}

    def report(self, number: int, done: int) -> None:
        self._done[number] = done

    def all(self) -> dict[int, int]:
        return self._done


def _warm_share(description: Description, number: int, counts: Any, mark: Path) -> tuple[int, int]:
    """Warm one share, as a task of Ray; return its rows, and the files of the dataset.

    A task that runs twice finds its rows in the cache the second time.
    """
    if not mark.exists():
        raise CacheError(
            "Expected a directory that all nodes of the cluster share, got another directory on "
            f"{os.uname().nodename} - at {mark.parent}"
        )
    shown = time.monotonic()

    def report(done: int, _total: int) -> None:
        nonlocal shown
        if time.monotonic() - shown >= _REPORT_S:
            shown = time.monotonic()
            counts.report.remote(number, done)

    return warm_share(description, report)


@contextlib.contextmanager
def _cluster(address: str | None) -> Iterator[Any]:
    """Connect to Ray inside a with block; a connection that exists already stays open."""
    try:
        import ray
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "Expected Ray for --engine ray, got none: pip install ray", name="ray"
        ) from None
    if ray.is_initialized():
        yield ray
        return
    _check_reached(address or os.environ.get("RAY_ADDRESS", ""))
    # A cluster that is started here sends no usage statistics.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray.init(address, log_to_driver=False, logging_level="ERROR")
    try:
        yield ray
    finally:
        ray.shutdown()


def _check_reached(address: str) -> None:
    """Raise ConnectionError if the address does not answer; Ray would retry for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not port.isdecimal():
        return  # "auto", "local" and the like
    try:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_S).close()
    except OSError as error:
        raise ConnectionError(f"Expected a Ray cluster at {address}, got {error}") from error


@contextlib.contextmanager
def _marked(cache: Cache) -> Iterator[Path]:
    """Keep a file in the cache's directory inside a with block, for other nodes to check."""
    open_private(cache.path)
    mark = cache.path / f".warming-{secrets.token_hex(8)}"
    mark.touch()
    try:
        yield mark
    finally:
        mark.unlink(missing_ok=True)
