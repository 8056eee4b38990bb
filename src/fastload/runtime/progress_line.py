"""A line on stderr every few seconds, for a task that takes long before the first batch."""

from __future__ import annotations

import sys
import time

__all__ = ["Progress"]

_EVERY_S = 5.0


class Progress:
    """Prints how much of a long task is done; prints nothing for a short task.

    Args:
        verb: past participle for the line, such as "read".
        total: number of items to be done.
        what: name of the items, such as "footers".
    """

    def __init__(self, verb: str, total: int, what: str) -> None:
        self._verb = verb
        self._total = total
        self._what = what
        self._start = time.monotonic()
        self._next = self._start + _EVERY_S

    def show(self, done: int) -> None:
        """Print a line if the last one is a few seconds old."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _EVERY_S
        passed = now - self._start
        left = ""
        if done:
            left = f", about {passed / done * (self._total - done):.0f} s left"
        print(
            f"fastload: {self._verb} {done} of {self._total} {self._what} in {passed:.0f} s{left}",
            file=sys.stderr,
            flush=True,
        )
