"""CPU cores that a process may use, and their division among ranks and workers."""

from __future__ import annotations

import os
import time
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from torch.utils.data import get_worker_info

from fastload.runtime.platform import launcher_cores, usable_cores

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["RankCores", "available_cores"]

# The variables in which launchers say how many ranks they have started on this machine: torchrun
# and Ray Train, then those of MPI: Open MPI, MVAPICH2, MPICH and Intel MPI.
_LOCAL_SIZES = (
    "LOCAL_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "MV2_COMM_WORLD_LOCAL_SIZE",
    "MPI_LOCALNRANKS",
)


class RankCores:
    """The CPU cores of a rank, shared by the rank's process and its workers.

    The object is made in the rank's own process, because a worker can't look up the launcher that
    started the rank.
    """

    def __init__(self) -> None:
        self._of_rank = rank_cores()

    def of_process(self, workers: int) -> int:
        """Return the number of cores for this process, one of `workers`; at least 1."""
        if get_worker_info() is None:
            # The object may have been pickled on another machine.
            cores = self._of_rank = rank_cores()
        else:
            cores = min(self._of_rank, available_cores())
        return max(1, cores // workers)


def rank_cores(environment: Mapping[str, str] = os.environ) -> int:
    """Return the number of cores for this process as a rank, at least 1.

    LOCAL_WORLD_SIZE is the number of ranks that the launcher has started on this machine (torchrun
    and Ray Train set it; those of MPI have names of their own). These ranks share the launcher's
    cores. A rank that is bound to fewer cores than its share uses only the cores that it is bound
    to.

    Args:
        environment: the environment variables.

    Raises:
        ValueError: LOCAL_WORLD_SIZE, or MPI's variable, is not a positive integer.
    """
    name = next(filter(environment.__contains__, _LOCAL_SIZES), "")
    ranks = environment[name] if name else "1"
    if not ranks.isdecimal() or not int(ranks):
        raise ValueError(f"Expected {name} in the environment as a positive integer, got {ranks!r}")
    own = available_cores()
    if int(ranks) == 1:
        return own
    shared = _within_quota(launcher_cores())
    return max(1, min(own, shared // int(ranks)))


def available_cores() -> int:
    """Return the number of cores that affinity and cgroup quota allow this process; at least 1."""
    return _within_quota(usable_cores())


def _within_quota(cores: int) -> int:
    return max(1, min(cores, int(_cgroup_quota() or cores)))


def _cgroup_quota() -> float | None:
    """Return the number of cores that the cgroup grants; None without a limit.

    The limit may change while a process runs. To open a dataset, several parts ask at once.
    """
    return _quota_in(int(time.monotonic()))


@lru_cache(maxsize=1)
def _quota_in(second: int) -> float | None:  # noqa: ARG001 - the cache forgets earlier seconds
    """Read the limit from the files of the cgroup, v2 or else v1."""
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
