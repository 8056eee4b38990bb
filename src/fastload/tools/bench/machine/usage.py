"""Usage of CPU and memory by this process and its descendants: from /proc, or else from `ps`."""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path

from fastload.runtime.platform import LINUX, Process, processes

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_MAXRSS_UNIT = 1 if sys.platform == "darwin" else 1024
# Fields of /proc/PID/stat after the name (proc(5)).
_PARENT = 1
_TIMES = slice(11, 15)


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
