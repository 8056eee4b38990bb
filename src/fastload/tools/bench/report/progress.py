"""Progress on standard error: one line that changes, or a line for each step."""

from __future__ import annotations

import shutil
import sys


class Progress:
    """A counter of steps.

    Args:
        steps: expected number of steps.
    """

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._done = 0
        self._on_terminal = sys.stderr.isatty()

    def __call__(self, what: str) -> None:
        """Begin a step, and show its name."""
        self._done += 1
        line = f"[{self._done}/{max(self._done, self._steps)}] {what}"
        if self._on_terminal:
            width = shutil.get_terminal_size().columns - 1
            line = "\r" + line[:width].ljust(width)
        print(line, end="" if self._on_terminal else "\n", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Clear the line."""
        if self._on_terminal:
            width = shutil.get_terminal_size().columns - 1
            print("\r" + " " * width + "\r", end="", file=sys.stderr, flush=True)
