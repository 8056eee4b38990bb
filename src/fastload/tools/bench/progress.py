"""Progress on standard error: a line every few seconds."""

from __future__ import annotations

import sys
import time

from fastload.runtime.units import duration_of

_EVERY_S = 5.0


class ShownProgress:
    """A counter of steps, shown on stderr."""

    def __init__(self) -> None:
        self._steps = 0
        self._begun = 0
        self._start = self._shown = time.monotonic()

    def __call__(self, what: str) -> None:
        """Begin a step, and show its name."""
        done = self._begun
        self._begun += 1
        self._steps = max(self._steps, self._begun)
        now = time.monotonic()
        if self._begun == 1 or now - self._shown >= _EVERY_S:
            self._shown = now
            passed_s = now - self._start
            left = f", {duration_of(passed_s / done * (self._steps - done))} left" if done else ""
            print(f"[{self._begun}/{self._steps}] {what}{left}", file=sys.stderr, flush=True)

    def expect(self, steps: int) -> None:
        """Take this number as that of all steps."""
        self._steps = max(steps, self._begun)
