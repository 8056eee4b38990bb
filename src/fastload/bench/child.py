"""One measurement, in a process that does nothing else: `python -m fastload.bench.child`.

Reads a Job as JSON from standard input and writes its result as JSON to standard output.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from fastload.bench.check import fingerprint
from fastload.bench.peers import PEERS, REFERENCE, Work

# An epoch more is begun only within this time, unless a number of epochs was asked for.
_PATIENCE_S = 4.0
_DEFAULT_EPOCHS = 5


@dataclass(frozen=True, slots=True)
class Job:
    """What one process is to do.

    action: "check" fingerprints one epoch, "time" measures, "roof" asks the core for the roof.
    peer: a Peer's name; for "roof" it means nothing.
    epochs: to time; None = up to three, fewer if they are slow.
    """

    action: Literal["check", "time", "roof"]
    peer: str
    work: Work
    epochs: int | None = None

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
    cpu_s: CPU seconds over all epochs, of worker processes too.
    imports_rss_bytes: resident memory before the dataset is made.
    peak_rss_bytes: the most resident memory from then on, worker processes added.
    bottleneck: as the contender measured it; empty if it doesn't.
    """

    epoch_s: list[float]
    first_batch_s: float
    cpu_s: float
    imports_rss_bytes: int
    peak_rss_bytes: int
    bottleneck: str


def measure(job: Job) -> Timing:
    """Times the epochs of a Job in this process."""
    contender_class = _peer(job.peer).load()
    gc.collect()
    imports_rss, cpu = _status_bytes("VmRSS"), _cpu_s()
    # 5 resets the high-water mark of resident memory (proc(5)): imports have their own peaks.
    Path("/proc/self/clear_refs").write_text("5")
    begun = started = time.perf_counter()
    contender = contender_class(job.work)
    seconds: list[float] = []
    first_batch_s = 0.0
    limit = job.epochs or _DEFAULT_EPOCHS
    while len(seconds) < limit:
        for _ in contender.epoch(len(seconds)):
            first_batch_s = first_batch_s or time.perf_counter() - begun
        now = time.perf_counter()
        seconds.append(now - started)
        started = now
        if job.epochs is None and now - begun > _PATIENCE_S:
            break
    bottleneck = contender.bottleneck()
    peak, used = _status_bytes("VmHWM"), _cpu_s() - cpu
    # Worker processes are counted once they have ended.
    del contender
    gc.collect()
    if job.work.workers:
        peak += job.work.workers * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
        used = _cpu_s() - cpu
    return Timing(seconds, first_batch_s, used, imports_rss, peak, bottleneck)


def run(job: Job) -> dict[str, Any]:
    """The result of a Job, as JSON can hold it."""
    if job.action == "roof":
        from fastload.budget import available_cores
        from fastload.roof import measure as roof

        threads = job.work.threads or available_cores()
        return {"seconds": roof(list(job.work.files), list(job.work.columns), threads)}
    if job.action == "check":
        return asdict(fingerprint(_peer(job.peer).load()(job.work).epoch(0)))
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


def _peer(name: str) -> Any:
    return next(peer for peer in (REFERENCE, *PEERS) if peer.name == name)


def _cpu_s() -> float:
    own = resource.getrusage(resource.RUSAGE_SELF)
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + ended.ru_utime + ended.ru_stime


def _status_bytes(key: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"Expected {key} in /proc/self/status, got none")


if __name__ == "__main__":
    main()
