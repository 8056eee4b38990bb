"""Load of the machine by other processes during a measurement."""

from __future__ import annotations

import os
import time
from pathlib import Path

from support import fractions_of_roof

_STAT = Path("/proc/stat")  # see proc(5)
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class OtherLoad:
    """A meter of the CPU time used by other processes, and by other guests of the same host."""

    def __init__(self) -> None:
        self._before = self._now()

    def share(self) -> float:
        """Return the share of all CPUs since the last call or the start; 0 if unknown."""
        before, self._before = self._before, self._now()
        elapsed_s, busy_s = (now - then for now, then in zip(self._before, before, strict=True))
        return max(0.0, busy_s / elapsed_s / (os.cpu_count() or 1))

    @staticmethod
    def _now() -> tuple[float, float]:
        """Return seconds on the clock, and CPU seconds of others."""
        if not _STAT.exists():
            return time.perf_counter(), 0.0
        # user, nice, system, idle, iowait, irq, softirq, steal
        ticks = [int(field) for field in _STAT.read_text().splitlines()[0].split()[1:9]]
        busy_s = (sum(ticks) - ticks[3] - ticks[4]) / _TICKS_PER_S
        return time.perf_counter(), busy_s - fractions_of_roof.cpu_s()
