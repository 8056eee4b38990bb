"""Load of other processes, which makes the figures of a measurement too low."""

from __future__ import annotations

import os
import time
from pathlib import Path

from fastload.tools.bench.machine import usage

_STAT = Path("/proc/stat")
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
# Fields of the first line of /proc/stat: user, nice, system, irq, softirq, steal (proc(5)).
_BUSY = (1, 2, 3, 6, 7, 8)


class OtherLoad:
    """The cores that other processes used since this object was made.

    Time that a hypervisor gave to other machines counts.
    """

    def __init__(self) -> None:
        self._start = time.perf_counter(), _busy_s(), usage.cpu_s()

    def cores(self) -> float | None:
        """Return the mean number of cores; None if the system does not count busy time."""
        start_s, start_busy_s, start_own_s = self._start
        busy_s = _busy_s()
        if busy_s is None or start_busy_s is None:
            return None
        others_s = (busy_s - start_busy_s) - (usage.cpu_s() - start_own_s)
        return max(0.0, others_s / max(time.perf_counter() - start_s, 1e-9))


def _busy_s() -> float | None:
    """Return the seconds that all cores of the machine were busy since its start."""
    try:
        fields = _STAT.read_text(encoding="ascii").splitlines()[0].split()
    except OSError:
        return None
    return sum(int(fields[index]) for index in _BUSY) * _TICK_S
