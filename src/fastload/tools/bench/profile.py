"""Profile of fastload in a training loop with simulated steps."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from fastload.dataset.loaders.data_wait import DataWait, Step
from fastload.dataset.trace import Span, Trace
from fastload.tools.bench.machine import usage
from fastload.tools.bench.peers.fastload_dataset import Contender

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastload.dataset.dataset import FastParquetDataset
    from fastload.tools.bench.peers import Work

# Another epoch is begun only within this time.
_PATIENCE_S = 3.0
_SAMPLE_S = 0.02
# More spans than a page can show.
_SPANS = 100_000
_STEPS = 4000


@dataclass(frozen=True, slots=True)
class Profile:
    """Observations in one process. Times are seconds from the beginning of the profile.

    Attributes:
        shuffled: True if the rows were shuffled.
        step_s: seconds of a simulated step; 0 = batches are dropped at once.
        workers: number of worker processes of the DataLoader.
        epochs: number of passes; the first pass includes the start-up.
        seconds: seconds of all passes.
        bottleneck: the slowest stage, as in `Stats.bottleneck`.
        stages: seconds of all threads by stage.
        waiting_s: seconds that the consumer waited for batches.
        working_s: seconds that the consumer worked on batches.
        share: waiting_s as a share of waiting_s + working_s.
        number_of_steps: number of batches handed out.
        pauses: the longest waits: {seconds, epoch, index, where}.
        steps: the first steps: {epoch, index, wait_s, work_s, where}.
        memory: samples over time: {at_s, resident, read, staged, batches}, in bytes.
        spans: (stage, thread, start in ns, end in ns, index, column, bytes), as in `trace.Span`.
        threads: number -> name of each thread.
        dropped_spans: number of spans that the trace had no room for.
        start_ns: the beginning of the profile, on the clock of the spans.
    """

    shuffled: bool
    step_s: float
    workers: int
    epochs: int
    seconds: float
    bottleneck: str
    stages: dict[str, float]
    waiting_s: float
    working_s: float
    share: float
    number_of_steps: int
    pauses: list[dict[str, Any]]
    steps: list[dict[str, Any]]
    memory: list[dict[str, float]]
    spans: list[list[Any]]
    threads: dict[str, str]
    dropped_spans: int
    start_ns: int

    def trace(self) -> Trace:
        """Return the spans as a Trace; the consumer's steps are also spans."""
        threads = {int(number): name for number, name in self.threads.items()}
        return Trace([Span(*span) for span in self.spans], threads, self.dropped_spans)


def report(seen: Profile) -> str:
    """Describe in a few sentences how long the consumer waited, and when."""
    step = f"with steps of {1e3 * seen.step_s:g} ms" if seen.step_s else "with steps of no length"
    text = (
        f"In a loop {step}, {'shuffled' if seen.shuffled else 'in order'}: "
        f"{100 * seen.share:.1f} % of the time went on waiting for data, "
        f"{1e3 * seen.waiting_s / max(1, seen.number_of_steps):.2f} ms a step "
        f"({seen.number_of_steps} steps in {seen.epochs} epochs)."
    )
    lines = [text]
    for pause in seen.pauses[:3]:
        where = f" ({pause['where']})" if pause["where"] else ""
        lines.append(
            f"  {1e3 * pause['seconds']:.1f} ms before batch {pause['index']} of epoch "
            f"{pause['epoch']}{where}"
        )
    if seen.workers:
        lines.append(
            "  Worker processes record no trace: the trace holds only the spans of the trainer."
        )
    return "\n".join(lines)


def profile(work: Work, step_s: float, epochs: int | None) -> Profile:
    """Watch fastload for some epochs.

    Args:
        work: the rows to read, and how.
        step_s: seconds that the consumer sleeps after each batch, like a consumer that waits for
            a GPU.
        epochs: number of epochs; None = two, and as many more as begin within a few seconds.
    """
    contender = Contender(work)
    dataset = contender.dataset
    steps: list[dict[str, Any]] = []
    spans: list[Span] = []

    def on_step(step: Step) -> None:
        if len(steps) < _STEPS:
            steps.append(asdict(step))

    loader = DataWait(contender.epoch(0), on_step)
    start_ns = time.perf_counter_ns()
    passes = 0
    with _memory_samples(dataset, start_ns) as memory, dataset.trace(_SPANS) as trace:
        while passes < (epochs or 2) or (epochs is None and _since_s(start_ns) < _PATIENCE_S):
            for _ in loader:
                if step_s:
                    begun_ns = time.perf_counter_ns()
                    time.sleep(step_s)
                    _note(spans, begun_ns, len(spans))
            passes += 1
    seconds = _since_s(start_ns)
    report = loader.report()
    stats = dataset.stats()
    trace.spans += spans[: max(0, _SPANS - len(trace.spans))]
    trace.threads.setdefault(threading.get_native_id(), "consumer")
    return Profile(
        shuffled=work.shuffle,
        step_s=step_s,
        workers=work.workers,
        epochs=passes,
        seconds=seconds,
        bottleneck=stats.bottleneck,
        stages={
            "read": stats.read.working_s + stats.read_ahead.working_s,
            "decode": stats.decode.working_s,
            "kernels": stats.kernels.working_s,
        },
        waiting_s=report.waiting_s,
        working_s=report.working_s,
        share=report.share,
        number_of_steps=report.steps,
        pauses=[asdict(pause) for pause in report.pauses],
        steps=steps,
        memory=memory,
        spans=[
            [s.stage, s.thread, s.start_ns, s.end_ns, s.index, s.column, s.bytes]
            for s in trace.spans
        ],
        threads={str(number): name for number, name in trace.threads.items()},
        dropped_spans=trace.dropped,
        start_ns=start_ns,
    )


def _note(spans: list[Span], begun_ns: int, index: int) -> None:
    if len(spans) < _STEPS:
        now_ns = time.perf_counter_ns()
        spans.append(Span("train", threading.get_native_id(), begun_ns, now_ns, index))


def _since_s(start_ns: int) -> float:
    return (time.perf_counter_ns() - start_ns) / 1e9


@contextmanager
def _memory_samples(dataset: FastParquetDataset, start_ns: int) -> Iterator[list[dict[str, float]]]:
    """Sample resident and counted bytes every few milliseconds, until the block ends."""
    samples: list[dict[str, float]] = []
    over = threading.Event()

    def watch() -> None:
        while True:
            held = dataset.stats().memory
            samples.append(
                {
                    "at_s": _since_s(start_ns),
                    "resident": usage.resident_bytes(),
                    "read": held.read,
                    "staged": held.staged,
                    "batches": held.batches,
                }
            )
            if over.wait(_SAMPLE_S):
                return

    watcher = threading.Thread(target=watch, name="memory samples", daemon=True)
    watcher.start()
    try:
        yield samples
    finally:
        over.set()
        watcher.join()
