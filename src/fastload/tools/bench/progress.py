"""Progress on standard error: a bar on a terminal, or a line every few seconds in a pipe."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Protocol

from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from fastload.runtime.units import duration_of
from fastload.tools.terminal import console

if TYPE_CHECKING:
    from rich.progress import TaskID
    from typing_extensions import Self

_EVERY_S = 5.0


class Progress(Protocol):
    """The receiver of the progress of measurements."""

    def __call__(self, what: str) -> None:
        """Begin the next step, with its name."""

    def expect(self, steps: int) -> None:
        """Take this number as that of all steps, begun or not."""


class ShownProgress:
    """A counter of steps, shown on stderr. A context manager: the last step ends with it."""

    def __init__(self) -> None:
        self._steps = 0
        self._begun = 0
        self._start = self._shown = time.monotonic()
        self._bar: Bar | None = None
        self._task: TaskID | None = None
        if sys.stderr.isatty():
            columns = (
                TextColumn("{task.description}"),
                BarColumn(bar_width=20),
                MofNCompleteColumn(),
                TimeRemainingColumn(compact=True),
            )
            self._bar = Bar(*columns, console=console(stderr=True), transient=True)
            self._task = self._bar.add_task("", total=None)

    def __enter__(self) -> Self:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar:
            self._bar.stop()

    def __call__(self, what: str) -> None:
        """Begin a step, and show its name."""
        done = self._begun
        self._begun += 1
        self._steps = max(self._steps, self._begun)
        if self._bar and self._task is not None:
            self._bar.update(self._task, description=what, completed=done, total=self._steps)
            return
        now = time.monotonic()
        if self._begun == 1 or now - self._shown >= _EVERY_S:
            self._shown = now
            passed_s = now - self._start
            left = f", {duration_of(passed_s / done * (self._steps - done))} left" if done else ""
            print(f"[{self._begun}/{self._steps}] {what}{left}", file=sys.stderr, flush=True)

    def expect(self, steps: int) -> None:
        """Take this number as that of all steps."""
        self._steps = max(steps, self._begun)
        if self._bar and self._task is not None:
            self._bar.update(self._task, total=self._steps)
