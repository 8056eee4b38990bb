"""Costs of runs in time and memory, their medians, and a table."""

from __future__ import annotations

import resource
import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of one run of a way: wall time, and what the process used meanwhile.

    Attributes:
        seconds: wall time.
        cpu_s: CPU time of all threads of the process.
        faults: page faults that read no disk.
        switches: times that a thread of the process gave up its core to wait.
    """

    seconds: float
    cpu_s: float
    faults: int
    switches: int


def cost(work: Callable[[], object]) -> Cost:
    """Run `work` once and return the cost."""
    before, start = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    work()
    seconds, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF)
    return Cost(
        seconds,
        after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        after.ru_minflt - before.ru_minflt,
        after.ru_nvcsw - before.ru_nvcsw,
    )


def median(costs: Sequence[Cost]) -> Cost:
    """Return the median of each attribute."""
    return Cost(
        statistics.median(c.seconds for c in costs),
        statistics.median(c.cpu_s for c in costs),
        int(statistics.median(c.faults for c in costs)),
        int(statistics.median(c.switches for c in costs)),
    )


def show(title: str, costs: Mapping[str, Cost]) -> None:
    """Print a table: each cost, and each time as a share of the first line's.

    Args:
        title: first line.
        costs: name of each line -> cost.
    """
    width = max(map(len, costs))
    first = next(iter(costs.values()))
    print(f"{title}\n{'':{width}}{'ms':>10}{'of first':>10}{'CPU ms':>10}{'of first':>10}", end="")
    print(f"{'faults':>10}{'switches':>10}")
    for name, one in costs.items():
        line = f"{name:{width}}{one.seconds * 1e3:10.2f}{one.seconds / first.seconds:10.2f}"
        line += f"{one.cpu_s * 1e3:10.2f}{one.cpu_s / max(first.cpu_s, 1e-9):10.2f}"
        print(f"{line}{one.faults:10}{one.switches:10}", flush=True)
