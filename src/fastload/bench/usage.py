"""What this process and those that it started have used, from /proc."""

from __future__ import annotations

import os
import resource
from pathlib import Path

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
# Fields of /proc/PID/stat after the name (proc(5)).
_PARENT = 1
_TIMES = slice(11, 15)


def cpu_s() -> float:
    """CPU seconds of this process, of its children that have ended, and of its descendants."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = own.ru_utime + own.ru_stime + ended.ru_utime + ended.ru_stime
    return seconds + sum(sum(map(int, stat[_TIMES])) for _, stat in _descendants()) * _TICK_S


def own_bytes(key: str) -> int:
    """A size of /proc/self/status: VmRSS or VmHWM."""
    return _bytes(Path("/proc/self/status"), key)


def peak_bytes() -> int:
    """The most resident memory of this process and of each of its descendants, added."""
    return own_bytes("VmHWM") + sum(_bytes(path / "status", "VmHWM") for path, _ in _descendants())


def forget_peak() -> None:
    """The high-water mark of resident memory begins anew."""
    # 5 resets it (proc(5)).
    Path("/proc/self/clear_refs").write_text("5")


def _descendants() -> list[tuple[Path, list[str]]]:
    """Directory and stat of each process that descends from this one."""
    children: dict[str, list[tuple[Path, list[str]]]] = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            # The name, in parentheses, may hold blanks.
            stat = (path / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        children.setdefault(stat[_PARENT], []).append((path, stat))
    found: list[tuple[Path, list[str]]] = []
    parents = [str(os.getpid())]
    while parents:
        below = children.get(parents.pop(), [])
        found += below
        parents += [path.name for path, _ in below]
    return found


def _bytes(path: Path, key: str) -> int:
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return 0  # it has ended
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{key}:")), 0)
