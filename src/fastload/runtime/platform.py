"""System calls that differ between systems: Linux has calls of its own, macOS only POSIX.

The core's counterpart is `platform.h`. With FASTLOAD_PORTABLE=1 in the environment, and a core
built for this setting, Linux uses only POSIX, too. Tests on Linux run the portable code this way.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path

__all__ = [
    "LINUX",
    "Process",
    "anonymous_file",
    "launcher_cores",
    "processes",
    "thread_name",
    "usable_cores",
]

LINUX = sys.platform.startswith("linux") and os.environ.get("FASTLOAD_PORTABLE") != "1"


def anonymous_file() -> int:
    """Create a file without a name, and return its descriptor for reading and writing."""
    if LINUX:
        return os.memfd_create("fastload-record")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def usable_cores() -> int:
    """Return the number of cores that this process may run on."""
    if LINUX:
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def launcher_cores() -> int:
    """Return the number of cores in the affinity mask of the parent process.

    If the parent process has ended, or the system is not Linux, return this process's number.
    """
    if LINUX:
        with contextlib.suppress(OSError):
            return len(os.sched_getaffinity(os.getppid()))
    return usable_cores()


def thread_name(number: int) -> str:
    """Return the name of a thread of this process, or its number if the name is unknown."""
    if LINUX:
        try:
            return Path(f"/proc/self/task/{number}/comm").read_text().strip()
        except OSError:
            pass
    names = {thread.native_id: thread.name for thread in threading.enumerate()}
    return names.get(number, f"thread {number}")


@dataclass(frozen=True, slots=True)
class Process:
    """A running process.

    Attributes:
        parent: number of the process that started this one.
        resident_bytes: memory in RAM.
        cpu_s: CPU time used so far.
    """

    parent: int
    resident_bytes: int
    cpu_s: float


def processes() -> dict[int, Process]:
    """Return every process that `ps` lists on this machine, by number."""
    lines = subprocess.check_output(
        ["ps", "-axo", "pid=,ppid=,rss=,time="],  # noqa: S607 - its path differs among systems
        text=True,
    ).splitlines()
    found = {}
    for pid, parent, kilobytes, time in map(str.split, lines):
        found[int(pid)] = Process(int(parent), int(kilobytes) * 1024, _seconds(time))
    return found


def _seconds(time: str) -> float:
    """Convert `[days-][hours:]minutes:seconds` to seconds."""
    days, _, clock = time.rpartition("-")
    seconds = 86400.0 * int(days or 0)
    for factor, part in zip((1, 60, 3600), reversed(clock.split(":")), strict=False):
        seconds += factor * float(part)
    return seconds
