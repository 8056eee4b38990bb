"""DataWait: measures the time that a training loop waits for data, and where the waits are."""

from __future__ import annotations

import functools
import heapq
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import torch
from torch.profiler import record_function

from fastload.batch.batch import window_of
from fastload.dataset.loaders.loader_pass import LoaderPass

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sized

__all__ = ["DataWait", "Pause", "Step", "WaitReport"]

_Item = TypeVar("_Item")

_LONGEST = 10
_NAME = "data wait"
_END: Any = object()
# Share of the time below which loading is not the bottleneck.
_LITTLE = 0.03


@dataclass(frozen=True, slots=True)
class Step:
    """The time spent on one batch.

    Attributes:
        epoch: number of passes over the loader before this pass.
        index: number of the batch in its pass.
        wait_s: seconds until the loader handed out the batch.
        work_s: seconds from then until the consumer asked for the next batch.
        where: "epoch start" for the first batch of a pass, "window change" for the first batch that
            reaches into another window, otherwise "". Window changes are known only for a
            FastParquetDataset without worker processes.
    """

    epoch: int
    index: int
    wait_s: float
    work_s: float = 0.0
    where: str = ""


@dataclass(frozen=True, slots=True)
class Pause:
    """One of the longest waits.

    Attributes:
        seconds: length of the wait.
        epoch: as in `Step`.
        index: as in `Step`; for the wait after the last batch of a pass, the number of batches.
        where: as in `Step`; "epoch end" for the wait after the last batch of a pass.
    """

    seconds: float
    epoch: int
    index: int
    where: str


@dataclass(frozen=True, slots=True)
class WaitReport:
    """The times that a DataWait has measured.

    Attributes:
        steps: number of batches handed out.
        epochs: number of passes begun.
        waiting_s: seconds spent in the loader.
        working_s: seconds from each batch until the consumer asked for the next batch.
        pauses: the longest waits, longest first.
    """

    steps: int
    epochs: int
    waiting_s: float
    working_s: float
    pauses: tuple[Pause, ...]

    @property
    def share(self) -> float:
        """The share of the time spent waiting for data, between 0 and 1; 0 before any step."""
        total = self.waiting_s + self.working_s
        return self.waiting_s / total if total else 0.0

    def share_since(self, earlier: WaitReport) -> float:
        """Return the share of waiting in the time since an earlier report, between 0 and 1.

        Args:
            earlier: an earlier report of the same DataWait.
        """
        waiting_s = self.waiting_s - earlier.waiting_s
        total = waiting_s + self.working_s - earlier.working_s
        return waiting_s / total if total > 0 else 0.0

    def __str__(self) -> str:
        if not self.steps:
            return "no steps yet"
        text = (
            f"{100 * self.share:.1f} % of the time was spent waiting for data: "
            f"{self.waiting_s:.3f} s in {self.steps:,} steps, "
            f"{1e3 * self.waiting_s / self.steps:.2f} ms of "
            f"{1e3 * (self.waiting_s + self.working_s) / self.steps:.2f} ms a step"
        )
        if self.share < _LITTLE:
            text += "; loading is not the bottleneck"
        return "\n".join((text, *(f"  {_described(pause)}" for pause in self.pauses[:5])))


class DataWait(Generic[_Item]):
    """A loader that hands out the items of any loader, and measures how long the consumer waits.

    Example:
        loader = DataWait(DataLoader(ds, batch_size=None))
        for batch in loader:
            train(batch)
        print(loader.report())

    Time inside the loader counts as waiting. Time between an item and the request for the next item
    counts as work. A GPU keeps working while the host waits, so the share of waiting is that of the
    host: wrap the outermost loader, whose items the training step takes. Each wait is a range
    named "data wait" for torch.profiler, and for NVTX if there is a CUDA device.

    All other attributes are those of the loader: `dataset`, `set_epoch`, `state_dict` and so on.

    Args:
        loader: The loader to measure: a DataLoader, a DevicePrefetcher, a dataset or any iterable.
        on_step: A function to call with each Step when the next step begins or the pass ends.
            `fastload.integrations.tensorboard.WaitWriter` is such a function.

    Raises:
        TypeError: `loader` is not iterable.
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
        return LoaderPass(self._measured())

    def _measured(self) -> Generator[_Item]:
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
                # Keep no reference to the item while the consumer uses the item: the loader may
                # need its memory.
                held = [item]
                del item
                handed_out_at = time.perf_counter()
                yield held.pop()
        finally:
            if step is not None:  # the consumer left the loop
                self._end(step, handed_out_at)

    def __len__(self) -> int:
        """Return the length of the loader."""
        return len(cast("Sized", self._loader))

    def __getattr__(self, name: str) -> Any:
        # Copying and pickling look up attributes before `_loader` exists.
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._loader, name)

    @property
    def loader(self) -> Iterable[_Item]:
        """The wrapped loader."""
        return self._loader

    def report(self) -> WaitReport:
        """Return the times measured since the DataWait was made, or since `reset`."""
        pauses = sorted((pause for _, _, pause in self._longest), key=lambda pause: -pause.seconds)
        return WaitReport(
            self._steps, self._epochs, self._waiting_s, self._working_s, tuple(pauses)
        )

    def reset(self) -> None:
        """Forget all measured times, for example after a warm-up."""
        self._steps = self._epochs = self._waits = 0
        self._waiting_s = self._working_s = 0.0
        self._longest: list[tuple[float, int, Pause]] = []  # a heap, the shortest first

    def _timed(self, call: Callable[[], Any]) -> tuple[Any, float]:
        start = time.perf_counter()
        with record_function(_NAME), _nvtx_range(_NAME):
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


@contextmanager
def _nvtx_range(name: str) -> Generator[None]:
    """Mark the with block as a range for NVIDIA's profilers, if there is a CUDA device."""
    if not _has_cuda():
        yield
        return
    with torch.cuda.nvtx.range(name):
        yield


@functools.cache
def _has_cuda() -> bool:
    return torch.cuda.is_available()
