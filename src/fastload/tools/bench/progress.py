"""Progress on standard error: a line every few seconds."""

from __future__ import annotations

import sys
import time

from fastload.runtime.units import duration_of

_EVERY_S = 5.0


class ShownProgress:
    """A counter of steps, shown on stderr, which never goes back."""

    def __init__(self) -> None:
        self._steps = 0
        self._expected_s: float | None = None
        self._start = self._shown = time.monotonic()

    def __call__(self, what: str, left: int) -> None:
        """Begin a step, after which `left` steps are left at most, and show its name."""
        first = not self._steps
        self._steps = self._steps or left + 1
        now = time.monotonic()
        if not first and now - self._shown < _EVERY_S:
            return
        self._shown = now
        passed_s, done = now - self._start, self._steps - left - 1
        left_s = passed_s / done * (left + 1) if done else 0.0
        if self._expected_s is not None:
            left_s = self._expected_s - passed_s
        ends = f", about {duration_of(round(left_s))} left" if left_s >= 1 else ""
        print(f"[{done + 1}/{self._steps}] {what}{ends}", file=sys.stderr, flush=True)

    def takes(self, seconds: float, limit_s: float | None) -> None:
        """Take this number of seconds as that of all steps; say so if it is above the limit."""
        self._expected_s = seconds if limit_s is None else max(seconds, limit_s)
        if limit_s is not None and seconds > limit_s:
            text = f"This takes about {duration_of(round(seconds))}: the machine is slow or busy."
            print(text, file=sys.stderr, flush=True)
