"""A program in a session of its own, and what outlives the program."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from support.forked import Forked
from support.shared_memory import own_files

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Self

LEFT_S = 5  # the system may take as long to end processes and remove files
# What multiprocessing's tracker prints of a semaphore that was removed without a word to the
# tracker: DataLoader leaves the feeder threads of its queues behind, and a program that ends stops
# such a thread between both.
REMOVED_UNTOLD = re.compile(
    r"^\S+resource_tracker\.py:\d+: UserWarning: resource_tracker: There appear to be (\d+) leaked "
    r"semaphore objects .*\n +warnings\.warn\(.*\n"
    r"((?:\S+resource_tracker\.py:\d+: UserWarning: resource_tracker: .*\[Errno 2\] .*\n"
    r" +warnings\.warn\(.*\n)+)",
    re.MULTILINE,
)


class Session:
    """A program, started in a session of its own, which ends with the context.

    The program calls `name_semaphores` before it starts processes.

    Args:
        command: the command.
        forked: True for a fork in place of a new interpreter, with the command of a `Forked`.
        options: options of Popen.
    """

    def __init__(self, command: Sequence[str], *, forked: bool = False, **options: Any) -> None:
        self._shm = set(Path("/dev/shm").iterdir())
        self.process: Forked | subprocess.Popen[str]
        if forked:
            self.process = Forked(command, **options)
            return
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            **options,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._kill()
        self.process.communicate()

    def output(self, timeout_s: float) -> tuple[str, str]:
        """Return what the program wrote to stdout and stderr, until its last process ended.

        Kills all processes of the program that live after `timeout_s` seconds.
        """
        try:
            out, err = self.process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            self._kill()
            out, err = self.process.communicate()
        return out, REMOVED_UNTOLD.sub(_but_for_removed, err)

    def living(self) -> list[int]:
        """Return the processes of the session that have not ended."""
        return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if self.has(pid)]

    def has(self, pid: int) -> bool:
        """Return True if a process belongs to the session and has not ended."""
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return False
        state, _, _, session, *_ = stat.rsplit(")", 1)[1].split()
        return state != "Z" and int(session) == self.process.pid

    def left(self) -> list[str]:
        """Return the processes of the program, and its files in /dev/shm, that outlive it."""
        deadline = time.monotonic() + LEFT_S
        while True:
            living = self.living()
            files = own_files(set(Path("/dev/shm").iterdir()) - self._shm, self.process.pid, living)
            left = [*map(str, living), *map(str, files)]
            if not left or time.monotonic() > deadline:
                return left
            time.sleep(0.1)

    def _kill(self) -> None:
        for pid in self.living():
            os.kill(pid, signal.SIGKILL)


def _but_for_removed(warned: re.Match[str]) -> str:
    """Return the tracker's warnings if any of the semaphores was there still, else nothing."""
    return "" if warned[2].count("[Errno 2]") == int(warned[1]) else warned[0]
