"""Progress of long tasks on stderr: a bar on a terminal, or a line every few seconds."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fastload.runtime.units import duration_of, million, size_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.progress import Progress, Task

__all__ = ["ProgressLine", "showing"]

_EVERY_S = 5.0


@contextmanager
def showing(
    progress: bool | Callable[[int, int], None], unit: str = "rows"
) -> Iterator[Callable[[int, int], None]]:
    """Yield a function to call with the amount done and the total, whenever they change.

    Args:
        progress: True to show progress on stderr, with the rate and the time left; False to show
            nothing; or a function to call with the amount done and the total instead.
        unit: name of what is counted.
    """
    if callable(progress):
        yield progress
    elif not progress or sys.stderr is None:  # a daemon may have closed stderr
        yield lambda *_: None
    elif not sys.stderr.isatty():
        yield _Lines(unit)
    else:
        with _bar(unit) as bar:
            task = bar.add_task(unit, total=None)
            yield lambda done, total: bar.update(task, completed=done, total=total)


def line_of(done: int, total: int, unit: str, seconds: float) -> str:
    """Return the line to show without a terminal, `seconds` after the task began."""
    amount = size_of if unit == "bytes" else million
    noun = "" if unit == "bytes" else f" {unit}"
    if done >= total:
        line = f"{amount(done)}{noun} in {duration_of(seconds)}"
        return f"{line}, {amount(done / seconds)} a second" if done and seconds else line
    line = f"{amount(done)} of {amount(total)}{noun} ({100 * done / total:.0f} %)"
    if not done or not seconds:
        return line
    rate = done / seconds
    return f"{line}, {amount(rate)} a second, {duration_of((total - done) / rate)} left"


class ProgressLine:
    """Prints a line every few seconds, for a task that may be long before the first batch.

    A short task prints nothing.

    Args:
        verb: past participle for the line, such as "read".
        total: number of items to be done.
        what: name of the items, such as "footers".
    """

    def __init__(self, verb: str, total: int, what: str) -> None:
        self._verb = verb
        self._total = total
        self._what = what
        self._start = self._shown = time.monotonic()

    def show(self, done: int) -> None:
        """Print a line if the last one is a few seconds old."""
        now = time.monotonic()
        if now - self._shown < _EVERY_S or sys.stderr is None:  # print would take stdout instead
            return
        self._shown = now
        passed = now - self._start
        left = ""
        if done:
            left = f", about {passed / done * (self._total - done):.0f} s left"
        print(
            f"fastload: {self._verb} {done} of {self._total} {self._what} in {passed:.0f} s{left}",
            file=sys.stderr,
            flush=True,
        )


class _Lines:
    """Prints a line every few seconds, and one at the end."""

    def __init__(self, unit: str) -> None:
        self._unit = unit
        self._start = self._shown = time.monotonic()
        self._ended = False

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        ended = done >= total
        due = not self._ended if ended else now - self._shown >= _EVERY_S
        self._ended = ended
        if due:
            self._shown = now
            line = line_of(done, total, self._unit, now - self._start)
            print(line, file=sys.stderr, flush=True)


def _bar(unit: str) -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, ProgressColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar
    from rich.text import Text

    amount = size_of if unit == "bytes" else million
    noun = "" if unit == "bytes" else f" {unit}"

    class Amount(ProgressColumn):
        """The amount done, and its rate over the last few seconds."""

        def render(self, task: Task) -> Text:
            speed = task.finished_speed or task.speed or 0
            total = amount(task.total or 0)
            return Text(f"{amount(task.completed)} of {total}{noun}, {amount(speed)} a second,")

    return Bar(BarColumn(), Amount(), TimeRemainingColumn(), console=Console(stderr=True))
