"""DataWait: how much of a training loop's time goes on waiting for data, and where."""

from __future__ import annotations

import heapq
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from torch.profiler import record_function

from fastload.batch.batch import window_of
from fastload.dataset.loaders.prefetcher import nvtx_range

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sized

__all__ = ["DataWait", "Pause", "Step", "WaitReport"]

_Item = TypeVar("_Item")

_LONGEST = 10
_NAME = "data wait"
_END: Any = object()
# A share of the time below which loading is not what to work on.
_LITTLE = 0.03


@dataclass(frozen=True, slots=True)
class Step:
    """One batch and what was done with it.

    epoch: passes over the loader before this one.
    index: of the batch in its pass.
    wait_s: seconds until the loader gave it.
    work_s: seconds from then until the next one was asked for.
    where: "epoch start" (the first batch of a pass), "window change" (the first to reach into
        another window, known of a FastParquetDataset without worker processes) or "".
    """

    epoch: int
    index: int
    wait_s: float
    work_s: float = 0.0
    where: str = ""


@dataclass(frozen=True, slots=True)
class Pause:
    """A wait that was among the longest.

    seconds: of the wait.
    epoch, index, where: as `Step` has them; where is "epoch end" for the wait after the last
        batch of a pass, whose index is that of the batch which did not come.
    """

    seconds: float
    epoch: int
    index: int
    where: str


@dataclass(frozen=True, slots=True)
class WaitReport:
    """What a DataWait has seen.

    steps: batches handed out.
    epochs: passes begun.
    waiting_s: seconds in the loader.
    working_s: seconds between one batch and the next one asked for.
    pauses: the longest waits, the longest first.
    """

    steps: int
    epochs: int
    waiting_s: float
    working_s: float
    pauses: tuple[Pause, ...]

    @property
    def share(self) -> float:
        """The share of time spent waiting for data, between 0 and 1; 0 before any step."""
        total = self.waiting_s + self.working_s
        return self.waiting_s / total if total else 0.0

    def share_since(self, earlier: WaitReport) -> float:
        """The share of the time since an earlier report of the same DataWait."""
        waiting_s = self.waiting_s - earlier.waiting_s
        total = waiting_s + self.working_s - earlier.working_s
        return waiting_s / total if total > 0 else 0.0

    def __str__(self) -> str:
        if not self.steps:
            return "no steps yet"
        text = (
            f"{100 * self.share:.1f} % of the time went on waiting for data: "
            f"{self.waiting_s:.3f} s in {self.steps:,} steps, "
            f"{1e3 * self.waiting_s / self.steps:.2f} ms of "
            f"{1e3 * (self.waiting_s + self.working_s) / self.steps:.2f} ms a step"
        )
        if self.share < _LITTLE:
            text += "; loading is not the bottleneck"
        return "\n".join((text, *(f"  {_described(pause)}" for pause in self.pauses[:5])))


class DataWait(Generic[_Item]):
    """Hands out the items of any loader, and measures how long it is waited for.

        loader = DataWait(DataLoader(ds, batch_size=None))
        for batch in loader:
            train(batch)
        print(loader.report())

    What counts as waiting is the time inside the loader; all the time between an item and the
    next one asked for is work. A GPU works on while the host waits: wrap the loader whose
    items the step takes, and read the share as that of the host. Each wait is a range called
    "data wait" for torch.profiler, and for NVTX where there is a CUDA device.

    Every other attribute is the loader's: `dataset`, `set_epoch`, `state_dict` and so on.

    Args:
        loader: an iterable: a DataLoader, a DevicePrefetcher, a dataset, or somebody else's.
        on_step: called with each Step when the next one begins, or the pass ends; such as
            `fastload.integrations.tensorboard.WaitWriter`.

    Raises:
        TypeError: loader is not iterable.
    """

    def __init__(
        self, loader: Iterable[_Item], on_step: Callable[[Step], None] | None = None
    ) -> None:
        if not hasattr(loader, "__iter__"):
            raise TypeError(f"Expected loader to be iterable, got {type(loader).__name__}")
        self._loader = loader
        self._on_step = on_step
        self.reset()

    def __repr__(self) -> str:
        return f"DataWait({type(self._loader).__name__})"

    def __iter__(self) -> Iterator[_Item]:
        epoch = self._epochs
        self._epochs += 1
        taken, wait_s = self._timed(lambda: iter(self._loader))
        iterator = cast("Iterator[_Item]", taken)
        step: Step | None = None
        window: int | None = None
        handed_out_at = 0.0
        index = 0
        try:
            while True:
                if step is not None:
                    self._end(step, handed_out_at)
                    step = None
                item, seconds = self._timed(lambda: next(iterator, _END))
                wait_s += seconds
                if item is _END:
                    self._wait(Pause(wait_s, epoch, index, "epoch end"))
                    return
                before, window = window, window_of(item)
                where = "" if index else "epoch start"
                if index and window is not None and before is not None and window != before:
                    where = "window change"
                step = Step(epoch, index, wait_s, where=where)
                self._steps += 1
                self._wait(Pause(wait_s, epoch, index, where))
                wait_s = 0.0
                index += 1
                # Not kept here while the consumer has it: its memory may be needed.
                held = [item]
                del item
                handed_out_at = time.perf_counter()
                yield held.pop()
        finally:
            if step is not None:  # the loop was left
                self._end(step, handed_out_at)

    def __len__(self) -> int:
        """Return the length of the loader."""
        return len(cast("Sized", self._loader))

    def __getattr__(self, name: str) -> Any:
        # Copies and pickles ask before there is a loader.
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._loader, name)

    @property
    def loader(self) -> Iterable[_Item]:
        """What is wrapped."""
        return self._loader

    def report(self) -> WaitReport:
        """What was seen since it was made, or since `reset`."""
        pauses = sorted((pause for _, _, pause in self._longest), key=lambda pause: -pause.seconds)
        return WaitReport(
            self._steps, self._epochs, self._waiting_s, self._working_s, tuple(pauses)
        )

    def reset(self) -> None:
        """Forgets what was seen: after a warm-up, say."""
        self._steps = self._epochs = self._waits = 0
        self._waiting_s = self._working_s = 0.0
        self._longest: list[tuple[float, int, Pause]] = []  # a heap, the shortest first

    def _timed(self, call: Callable[[], Any]) -> tuple[Any, float]:
        start = time.perf_counter()
        with record_function(_NAME), nvtx_range(_NAME):
            result = call()
        return result, time.perf_counter() - start

    def _wait(self, pause: Pause) -> None:
        self._waits += 1
        self._waiting_s += pause.seconds
        entry = (pause.seconds, self._waits, pause)
        if len(self._longest) < _LONGEST:
            heapq.heappush(self._longest, entry)
        else:
            heapq.heappushpop(self._longest, entry)

    def _end(self, step: Step, handed_out_at: float) -> None:
        step = replace(step, work_s=time.perf_counter() - handed_out_at)
        self._working_s += step.work_s
        if self._on_step is not None:
            self._on_step(step)


def _described(pause: Pause) -> str:
    where = f", {pause.where}" if pause.where else ""
    return f"{1e3 * pause.seconds:.1f} ms before batch {pause.index} of pass {pause.epoch}{where}"
