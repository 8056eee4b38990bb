"""The machine of a measurement, its versions, and the CPU and memory that processes use.

Usage of this process and its descendants comes from /proc, or else from `ps`.
"""

from __future__ import annotations

import os
import platform
import resource
import sys
import time
from importlib import metadata
from pathlib import Path
from typing import Any

from fastload.runtime.cores import available_cores
from fastload.runtime.platform import LINUX, Process, processes

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_MAXRSS_UNIT = 1 if sys.platform == "darwin" else 1024
# Fields of /proc/PID/stat after the name (proc(5)).
_PARENT = 1
_TIMES = slice(11, 15)
_STAT = Path("/proc/stat")
# Fields of the first line of /proc/stat: user, nice, system, irq, softirq, steal (proc(5)).
_BUSY = (1, 2, 3, 6, 7, 8)


def host() -> dict[str, Any]:
    """Return the number of cores, the processor, the system and the versions."""
    cpu = platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            names = [line.split(":", 1)[1].strip() for line in lines if "model name" in line]
        cpu = names[0] if names else cpu
    except OSError:
        pass
    return {
        "cores": available_cores(),
        "cpu": cpu,
        "system": platform.platform(),
        "python": platform.python_version(),
        "torch": metadata.version("torch"),
    }


def version_of(package: str) -> str | None:
    """Return the version of an installed distribution; None if it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


class OtherLoad:
    """The cores that other processes used since this object was made.

    Time that a hypervisor gave to other machines counts.
    """

    def __init__(self) -> None:
        self._start = time.perf_counter(), _busy_s(), cpu_s()

    def cores(self) -> float | None:
        """Return the mean number of cores; None if the system does not count busy time."""
        start_s, start_busy_s, start_own_s = self._start
        busy_s = _busy_s()
        if busy_s is None or start_busy_s is None:
            return None
        others_s = (busy_s - start_busy_s) - (cpu_s() - start_own_s)
        return max(0.0, others_s / max(time.perf_counter() - start_s, 1e-9))


def _busy_s() -> float | None:
    """Return the seconds that all cores of the machine were busy since its start."""
    try:
        fields = _STAT.read_text(encoding="ascii").splitlines()[0].split()
    except OSError:
        return None
    return sum(int(fields[index]) for index in _BUSY) * _TICK_S


def cpu_s() -> float:
    """Return the CPU seconds of this process, its ended children, and its descendants."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = own.ru_utime + own.ru_stime + ended.ru_utime + ended.ru_stime
    return seconds + sum(process.cpu_s for process in _descendants().values())


def resident_bytes() -> int:
    """Return the bytes of this process's memory that are in RAM."""
    return _status_bytes(os.getpid(), "VmRSS") if LINUX else processes()[os.getpid()].resident_bytes


def own_peak_bytes() -> int:
    """Return the peak of `resident_bytes` since `forget_peak`; off Linux, since the start."""
    if LINUX:
        return _status_bytes(os.getpid(), "VmHWM")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _MAXRSS_UNIT


def most_of_ended_bytes() -> int:
    """Return the largest peak of resident bytes among the ended children."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * _MAXRSS_UNIT


def peak_bytes() -> int:
    """Return the sum of the peaks of this process and its descendants.

    Off Linux, the present resident bytes of the descendants stand for their peaks.
    """
    descendants = _descendants()
    if LINUX:
        return own_peak_bytes() + sum(_status_bytes(pid, "VmHWM") for pid in descendants)
    return own_peak_bytes() + sum(process.resident_bytes for process in descendants.values())


def forget_peak() -> None:
    """Reset the peak of resident memory, on Linux; do nothing elsewhere."""
    if LINUX:
        Path("/proc/self/clear_refs").write_text("5")  # resets it (proc(5))


def _descendants() -> dict[int, Process]:
    """Return the descendants of this process by process number."""
    found: dict[int, Process] = {}
    known = _processes_of_proc() if LINUX else processes()
    children: dict[int, list[int]] = {}
    for pid, process in known.items():
        children.setdefault(process.parent, []).append(pid)
    parents = [os.getpid()]
    while parents:
        below = children.get(parents.pop(), [])
        found.update({pid: known[pid] for pid in below})
        parents += below
    return found


def _processes_of_proc() -> dict[int, Process]:
    """Return every process by number, without memory, which takes longer to read."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            # The process name, in parentheses, may contain blanks.
            stat = (path / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        cpu_s = sum(map(int, stat[_TIMES])) * _TICK_S
        found[int(path.name)] = Process(int(stat[_PARENT]), 0, cpu_s)
    return found


def _status_bytes(pid: int, key: str) -> int:
    """Return a size from /proc/PID/status, such as VmRSS or VmHWM; 0 if the process has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0  # it has ended
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{key}:")), 0)
