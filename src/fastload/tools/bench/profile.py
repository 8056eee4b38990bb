"""Profile of fastload in a training loop with simulated steps."""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from fastload.dataset.loaders.data_wait import DataWait
from fastload.tools.bench.peers.fastload_dataset import Contender

if TYPE_CHECKING:
    from fastload.tools.bench.peers import Work

# Another epoch is begun only within this time.
_PATIENCE_S = 3.0
_SPANS = 100_000


@dataclass(frozen=True, slots=True)
class Profile:
    """Observations in one process.

    Attributes:
        mode: "shuffled" or "in_order".
        step_s: seconds of a simulated step; 0 = batches are dropped at once.
        workers: number of worker processes of the DataLoader, which record no trace.
        epochs: number of passes; the first pass includes the start-up.
        steps: number of batches handed out.
        waiting_s: seconds that the consumer waited for batches.
        share: waiting_s as a share of the time of all passes.
        bottleneck: the slowest stage, as in `Stats.bottleneck`.
        pauses: the longest waits: {seconds, epoch, index, where}.
    """

    mode: str
    step_s: float
    workers: int
    epochs: int
    steps: int
    waiting_s: float
    share: float
    bottleneck: str
    pauses: list[dict[str, Any]]


def profile(work: Work, step_s: float, epochs: int | None, trace: str = "") -> Profile:
    """Watch fastload for some epochs.

    Args:
        work: the rows to read, and how.
        step_s: seconds that the consumer sleeps after each batch, like a consumer that waits for
            a GPU.
        epochs: number of epochs; None = two, and as many more as begin within a few seconds.
        trace: path of the trace to write; "" = no trace.
    """
    contender = Contender(work)
    dataset = contender.dataset
    loader = DataWait(contender.epoch(0))
    started = time.perf_counter()
    passes = 0
    with dataset.trace(_SPANS) if trace else nullcontext() as spans:
        while passes < (epochs or 2) or (
            epochs is None and time.perf_counter() - started < _PATIENCE_S
        ):
            for _ in loader:
                if step_s:
                    time.sleep(step_s)
            passes += 1
    if spans is not None:
        spans.write(trace)
    report = loader.report()
    return Profile(
        mode="shuffled" if work.shuffle else "in_order",
        step_s=step_s,
        workers=work.workers,
        epochs=passes,
        steps=report.steps,
        waiting_s=report.waiting_s,
        share=report.share,
        bottleneck=dataset.stats().bottleneck,
        pauses=[asdict(pause) for pause in report.pauses],
    )
