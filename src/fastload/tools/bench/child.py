"""One measurement, in a process that does nothing else: `python -m fastload.tools.bench.child`.

The process reads a Job as JSON from standard input and writes the result as JSON to standard
output.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from fastload.errors import FastloadError
from fastload.runtime.cores import available_cores
from fastload.tools.bench import machine
from fastload.tools.bench.check import fingerprint
from fastload.tools.bench.peers import PEERS, REFERENCE, Peer, Work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    import torch

# Another epoch is begun only within this time, unless a number of epochs is given. The first
# epochs are slow, because memory is new to the process: many more epochs should follow.
PATIENCE_S = 2.5
# A second epoch, which has no start-up, is timed unless the first epoch took longer than this.
_SLOW_S = 10.0
# Far longer than any measurement takes: a process that takes longer hangs.
_TIMEOUT_S = 1800


@dataclass(frozen=True, slots=True)
class Job:
    """The task of one process.

    Attributes:
        action: "check" fingerprints one epoch, "time" measures epochs, "roof" asks the core for
            the roof, "profile" watches fastload.
        peer: name of a Peer; ignored by "roof" and "profile".
        work: the rows to read, and how.
        epochs: number of epochs to time; None = as many as begin within `patience_s`.
        limit_s: limit of the epoch of a check, in seconds; None = no limit.
        step_s: seconds of a training step that "profile" simulates.
        patience_s: seconds within which another epoch is begun if `epochs` is None.
        modes: modes of a check, in one process: "in_order", "shuffled" or both.
        kept_limit_bytes: the most bytes of pages that lie decompressed in memory before "roof"
            measures; 0 = none.
        trace: path of the trace that "profile" writes; "" = no trace.
    """

    action: Literal["check", "time", "roof", "profile"]
    peer: str
    work: Work
    epochs: int | None = None
    limit_s: float | None = None
    step_s: float = 0.0
    patience_s: float = PATIENCE_S
    modes: tuple[str, ...] = ("in_order",)
    kept_limit_bytes: int = 0
    trace: str = ""

    def to_json(self) -> str:
        """Convert the job to JSON, for `of_json` in the other process."""
        return json.dumps(asdict(self))

    @classmethod
    def of_json(cls, text: str) -> Job:
        """Return the job that `to_json` converted."""
        fields = json.loads(text)
        work = fields.pop("work")
        work["files"], work["columns"] = tuple(work["files"]), tuple(work["columns"])
        return cls(work=Work(**work), **fields)


Launch: TypeAlias = "Callable[[Job], dict[str, Any]]"


class JobError(RuntimeError):
    """The process of a Job failed; the message is the last line that the process wrote."""


def launch(job: Job) -> dict[str, Any]:
    """Run a Job in a new process and return the result.

    A roof is measured in this process: the core's threads and memory end with the measurement.

    Raises:
        JobError: the process failed or did not end.
    """
    if job.action == "roof":
        try:
            return run(job)
        except (FastloadError, ImportError, OSError, ValueError, RuntimeError) as error:
            raise JobError(f"{type(error).__name__}: {error}") from error
    environment = dict(os.environ)
    if job.work.threads:
        environment["POLARS_MAX_THREADS"] = str(job.work.threads)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "fastload.tools.bench.child"],
            input=job.to_json(),
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise JobError(f"The measurement did not end within {_TIMEOUT_S} s") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        raise JobError(lines[-1])
    result: dict[str, Any] = json.loads(done.stdout)
    return result


@dataclass(frozen=True, slots=True)
class Timing:
    """The time and memory that a contender took in one process.

    Attributes:
        epoch_s: seconds of each epoch; the first epoch begins before the dataset is made.
        first_batch_s: seconds from before the dataset is made to the first batch.
        cpu_s: CPU seconds of the epochs after the first epoch, including worker processes; of
            the first epoch if only one epoch ran.
        imports_rss_bytes: resident memory before the dataset is made.
        peak_rss_bytes: largest resident memory after that, including worker processes.
        bottleneck: the slowest stage that the contender measured; "" if it measures no stages.
        kept_bytes: bytes of decompressed pages that stay in memory from one epoch to the next.
        kept_limit_bytes: the most of these bytes.
    """

    epoch_s: list[float]
    first_batch_s: float
    cpu_s: float
    imports_rss_bytes: int
    peak_rss_bytes: int
    bottleneck: str
    kept_bytes: int = 0
    kept_limit_bytes: int = 0


class _Late(BaseException):
    """The time limit has passed; not an Exception, because a library may catch Exceptions."""


def measure(job: Job) -> Timing:
    """Time the epochs of a Job in this process."""
    contender_class = peer_of(job.peer).load()
    gc.collect()
    imports_rss, cpu_before = machine.resident_bytes(), machine.cpu_s()
    machine.forget_peak()  # imports have their own peaks
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
            cpu_before = machine.cpu_s()
        started = time.perf_counter()
    used = machine.cpu_s() - cpu_before
    bottleneck = contender.bottleneck() if hasattr(contender, "bottleneck") else ""
    # Without a later epoch, no figure is of kept pages.
    kept = contender.kept() if seconds[1:] and hasattr(contender, "kept") else (0, 0)
    peak = machine.peak_bytes()
    if job.work.workers:
        # The system only knows the largest peak of one of the ended worker processes.
        del contender
        gc.collect()
        most = machine.most_of_ended_bytes()
        peak = machine.own_peak_bytes() + job.work.workers * most
    return Timing(seconds, first_batch_s, used, imports_rss, peak, bottleneck, *kept)


def check(job: Job) -> dict[str, Any]:
    """Check the contender in each mode of the Job.

    Returns:
        For each mode the fingerprint of an epoch; if the epoch was cut off, `cut_rows` and
        `cut_s`; if the contender failed, the message as `error`.
    """
    return {mode: _check(job, replace(job.work, shuffle=mode == "shuffled")) for mode in job.modes}


def _check(job: Job, work: Work) -> dict[str, Any]:
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
        contender_class = peer_of(job.peer).load()
        with _limit(job.limit_s):
            return asdict(fingerprint(counted(contender_class(work).epoch(0))))
    except _Late:
        return {"cut_rows": rows, "cut_s": time.perf_counter() - started}
    except Exception as error:  # noqa: BLE001  libraries raise any class; the other mode may work
        return {"error": f"{type(error).__name__}: {error}".strip()}


def run(job: Job) -> dict[str, Any]:
    """Do a Job and return the result as plain JSON values."""
    if job.action == "roof":
        from fastload.tools.bench.roof import Roof

        roof = Roof.of(list(job.work.files), list(job.work.columns))
        threads = job.work.threads or available_cores()
        return {"seconds": roof.measure(threads, kept_limit_bytes=job.kept_limit_bytes)}
    if job.action == "profile":
        from fastload.tools.bench.profile import profile

        return asdict(profile(job.work, job.step_s, job.epochs, job.trace))
    if job.action == "check":
        return check(job)
    return asdict(measure(job))


def main() -> None:
    """Do the Job on standard input."""
    job = Job.of_json(sys.stdin.read())
    # Libraries may print: their output goes to standard error, only the result to standard output.
    out = os.dup(1)
    os.dup2(2, 1)
    import torch

    # The same for all contenders, whatever $OMP_NUM_THREADS says.
    torch.set_num_threads(job.work.threads or available_cores())
    result = json.dumps(run(job))
    with os.fdopen(out, "w") as stream:
        stream.write(result)


def peer_of(name: str) -> Peer:
    """Return the Peer with this name."""
    return next(peer for peer in (REFERENCE, *PEERS) if peer.name == name)


@contextmanager
def _limit(seconds: float | None) -> Iterator[None]:
    """Raise _Late in the main thread after this number of seconds; None = never."""

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
