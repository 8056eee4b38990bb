"""Which cores a process may use, and how ranks and workers share them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from torch.utils.data import get_worker_info

from fastload.runtime.platform import launcher_cores, usable_cores

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["RankCores", "available_cores", "rank_cores"]


class RankCores:
    """The cores of a rank, which the processes that read for it share.

    Made in the rank's own process, whose launcher its workers can't see.
    """

    def __init__(self) -> None:
        self._of_rank = rank_cores()

    def of_process(self, workers: int) -> int:
        """Cores for one of `workers` processes, this one, at least 1."""
        if get_worker_info() is None:
            self._of_rank = rank_cores()  # perhaps it came from another machine
        return max(1, min(self._of_rank, available_cores()) // workers)


def rank_cores(environment: Mapping[str, str] = os.environ) -> int:
    """Cores for the rank that this process is, at least 1.

    LOCAL_WORLD_SIZE says how many ranks its launcher has started on this machine (torchrun and Ray
    Train set it): they share the launcher's cores. A rank that is bound to fewer keeps to these.

    Raises:
        ValueError: LOCAL_WORLD_SIZE is no positive integer.
    """
    ranks = environment.get("LOCAL_WORLD_SIZE", "1")
    if not ranks.isdecimal() or not int(ranks):
        raise ValueError(
            f"Expected LOCAL_WORLD_SIZE in the environment as a positive integer, got {ranks!r}"
        )
    own = available_cores()
    if int(ranks) == 1:
        return own
    shared = _within_quota(launcher_cores())
    return max(1, min(own, shared // int(ranks)))


def available_cores() -> int:
    """Cores that this process may use: its CPU affinity and its cgroup's quota, at least 1."""
    return _within_quota(usable_cores())


def _within_quota(cores: int) -> int:
    return max(1, min(cores, int(_cgroup_quota() or cores)))


def _cgroup_quota() -> float | None:
    """Cores granted by the cgroup (v2, else v1); None when there is no limit."""
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
    except (OSError, ValueError):
        v1 = Path("/sys/fs/cgroup/cpu")
        try:
            quota = (v1 / "cpu.cfs_quota_us").read_text().strip()
            period = (v1 / "cpu.cfs_period_us").read_text().strip()
        except OSError:
            return None
    if not quota.isdigit() or not int(period):
        return None
    return max(1.0, int(quota) / int(period))
