"""One measurement, in a process that does nothing else: `python -m fastload.tools.bench.child`.

Reads a Job as JSON from standard input and writes its result as JSON to standard output.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from fastload.tools.bench import usage
from fastload.tools.bench.check import fingerprint
from fastload.tools.bench.peers import PEERS, REFERENCE, Peer, Work

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import torch

# An epoch more is begun only within this time, unless a number of epochs was asked for. The
# first ones are slow, as memory is new to the process: there should be many more of the others.
_PATIENCE_S = 2.5
# A second epoch, which has no start-up, is waited for unless the first took longer.
_SLOW_S = 10.0
# Converting may take so many times the limit of an epoch.
_CONVERSION_LIMITS = 4


@dataclass(frozen=True, slots=True)
class Job:
    """What one process is to do.

    action: "check" fingerprints one epoch, "time" measures, "roof" asks the core for the roof,
        "roofline" for that of each stage, "profile" watches fastload at work.
    peer: a Peer's name; for "roof", "roofline" and "profile" it means nothing.
    epochs: to time; None = as many as begin within a few seconds.
    limit_s: for the epoch of a check; None = none.
    step_s: seconds of a training step that "profile" simulates.
    patience_s: the few seconds.
    """

    action: Literal["check", "time", "roof", "roofline", "profile"]
    peer: str
    work: Work
    epochs: int | None = None
    limit_s: float | None = None
    step_s: float = 0.0
    patience_s: float = _PATIENCE_S

    @property
    def package(self) -> str:
        """What has to be installed where the job is done."""
        own = self.action in ("roof", "roofline", "profile")
        return "fastload" if own else peer_of(self.peer).package

    def to_json(self) -> str:
        """For `of_json` in the other process."""
        return json.dumps(asdict(self))

    @classmethod
    def of_json(cls, text: str) -> Job:
        """What `to_json` gave."""
        fields = json.loads(text)
        work = fields.pop("work")
        work["files"], work["columns"] = tuple(work["files"]), tuple(work["columns"])
        return cls(work=Work(**work), **fields)


@dataclass(frozen=True, slots=True)
class Timing:
    """What a contender took, in one process.

    epoch_s: seconds of each epoch; the first begins before the dataset is made.
    first_batch_s: from before the dataset is made to its first batch.
    cpu_s: CPU seconds over the epochs after the first, of worker processes too; of the first if
        there is no other.
    imports_rss_bytes: resident memory before the dataset is made.
    peak_rss_bytes: the most resident memory from then on, worker processes added.
    bottleneck: as the contender measured it; empty if it doesn't.
    conversion_s: seconds that the contender took to convert the files, before all this; 0 if it
        reads them in place.
    """

    epoch_s: list[float]
    first_batch_s: float
    cpu_s: float
    imports_rss_bytes: int
    peak_rss_bytes: int
    bottleneck: str
    conversion_s: float = 0.0


class _Late(BaseException):
    """The limit has passed; not an Exception, which a library may catch."""


def measure(job: Job) -> Timing:
    """Times the epochs of a Job in this process."""
    contender_class = peer_of(job.peer).load()
    gc.collect()
    imports_rss, cpu_before = usage.resident_bytes(), usage.cpu_s()
    usage.forget_peak()  # imports have their own peaks
    begun = started = time.perf_counter()
    contender = contender_class(job.work)
    seconds: list[float] = []
    first_batch_s = 0.0
    while job.epochs is None or len(seconds) < job.epochs:
        for _ in contender.epoch(len(seconds)):
            first_batch_s = first_batch_s or time.perf_counter() - begun
        now = time.perf_counter()
        seconds.append(now - started)
        if job.epochs is None and now - begun > (job.patience_s if seconds[1:] else _SLOW_S):
            break
        if not seconds[1:] and job.epochs != 1:
            cpu_before = usage.cpu_s()
        started = time.perf_counter()
    used = usage.cpu_s() - cpu_before
    bottleneck = contender.bottleneck()
    conversion_s = getattr(contender, "conversion_s", 0.0)
    peak = usage.peak_bytes()
    if job.work.workers:
        # Of those that have ended, the most that one had is known.
        del contender
        gc.collect()
        most = usage.most_of_ended_bytes()
        peak = usage.own_peak_bytes() + job.work.workers * most
    return Timing(seconds, first_batch_s, used, imports_rss, peak, bottleneck, conversion_s)


def check(job: Job) -> dict[str, Any]:
    """The fingerprint of an epoch; of one cut off, `cut_rows` and `cut_s` instead."""
    contender_class = peer_of(job.peer).load()
    rows = 0

    def counted(
        batches: Iterable[Mapping[str, torch.Tensor]],
    ) -> Iterator[Mapping[str, torch.Tensor]]:
        nonlocal rows
        for batch in batches:
            rows += len(next(iter(batch.values())))
            yield batch

    started = time.perf_counter()
    try:
        with _limit(job.limit_s and job.limit_s * _CONVERSION_LIMITS):
            contender = contender_class(job.work)
        started = time.perf_counter()
        with _limit(job.limit_s):
            return asdict(fingerprint(counted(contender.epoch(0))))
    except _Late:
        return {"cut_rows": rows, "cut_s": time.perf_counter() - started}


def run(job: Job) -> dict[str, Any]:
    """The result of a Job, as JSON can hold it."""
    if job.action == "roof":
        from fastload.runtime.cores import available_cores
        from fastload.tools.bench.roof import measure as roof

        threads = job.work.threads or available_cores()
        return {"seconds": roof(list(job.work.files), list(job.work.columns), threads)}
    if job.action == "roofline":
        from fastload.tools.bench.roofline import measure as roofline

        return asdict(roofline(job.work))
    if job.action == "profile":
        from fastload.tools.bench.profile import profile

        return asdict(profile(job.work, job.step_s, job.epochs))
    if job.action == "check":
        return check(job)
    return asdict(measure(job))


def main() -> None:
    """Does the Job on standard input."""
    job = Job.of_json(sys.stdin.read())
    # Libraries may print: what they say goes to standard error, and the result alone here.
    out = os.dup(1)
    os.dup2(2, 1)
    if job.work.threads:
        import torch

        torch.set_num_threads(job.work.threads)
    result = json.dumps(run(job))
    with os.fdopen(out, "w") as stream:
        stream.write(result)


def peer_of(name: str) -> Peer:
    """The contender of this name."""
    return next(peer for peer in (REFERENCE, *PEERS) if peer.name == name)


@contextmanager
def _limit(seconds: float | None) -> Iterator[None]:
    """Raises _Late in the main thread when the time has passed."""

    def stop(*_: object) -> None:
        raise _Late

    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds or 0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


if __name__ == "__main__":
    main()
