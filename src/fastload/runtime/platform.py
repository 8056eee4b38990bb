"""What systems do differently: Linux has calls of its own, macOS plain POSIX in their place.

The core has the like in `platform.h`. With FASTLOAD_PORTABLE=1 in the environment, for which the
core has to be built, Linux does without its own calls, too: that is how tests there run the rest.
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
    """A descriptor of a new file without a name, to be read and written."""
    if LINUX:
        return os.memfd_create("fastload-record")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def usable_cores() -> int:
    """Cores that this process may run on."""
    if LINUX:
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def launcher_cores() -> int:
    """Cores that the process may run on which has started this one, or this one if that is gone."""
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
    """What a process has: the one that started it, memory in RAM, and CPU time."""

    parent: int
    resident_bytes: int
    cpu_s: float


def processes() -> dict[int, Process]:
    """Every process of this machine, by number, as `ps` tells."""
    lines = subprocess.check_output(
        ["ps", "-axo", "pid=,ppid=,rss=,time="],  # noqa: S607 - wherever it is
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
