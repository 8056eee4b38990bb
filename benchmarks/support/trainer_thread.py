"""Speed of a trainer's own Python code while data is loaded in the same process."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import signal
import statistics
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

_SCHEDSTAT = Path("/proc/thread-self/schedstat")
_LOOPS = 2_000
_PASSES = 2  # of one repeat
_REST_S = 0.3  # what is read ahead for the next pass is read by then
_STEP_S = 0.025  # five of Python's switch intervals


@dataclass(frozen=True, slots=True)
class Speed:
    """The speed of the trainer's thread in its steps.

    Attributes:
        loops_per_s: loops of pure Python per second.
        gil_share: share of the steps' time in which the thread neither ran nor waited for a CPU.
        cpus: CPUs that this process's other threads, and other processes, used meanwhile.
    """

    loops_per_s: float
    gil_share: float
    cpus: float


@dataclass(frozen=True, slots=True)
class Kept:
    """Medians of the speed beside loading in this process and in another process.

    Attributes:
        loading: speed while this process loads.
        elsewhere: speed while another process loads.
        share: ratio of the two speeds.
    """

    loading: Speed
    elsewhere: Speed
    share: float


def compare(
    batches: Callable[[], Iterable[object]],
    elsewhere: Sequence[str],
    server: int | None,
    repeats: int,
) -> Kept:
    """Time the same steps beside loading in this process, and beside loading in another process.

    The trainer's thread takes as many batches as the loader yields in a step's time, then works in
    Python for a step, while loading continues; only these steps are timed. A step is longer than
    the interval in which Python threads take turns, so that other threads' requests for the GIL
    have an effect. The other process takes as many batches and sleeps for as long: the same work,
    with the same use of memory and caches, without this process's GIL.

    Args:
        batches: function that begins a pass.
        elsewhere: command that loads in another process; the number of batches and the seconds
            are appended. The command prints a line when loading has begun, and runs until it is
            killed.
        server: number of the server's process, whose CPU time counts as CPU time of loading; None
            = no server.
        repeats: number of measurements of each kind.
    """
    for _ in batches():
        pass
    start = time.perf_counter()
    count = sum(1 for _ in batches())
    batch_s = (time.perf_counter() - start) / count
    every = min(count, math.ceil(_STEP_S / batch_s))
    rounds = _rounds(every * batch_s)
    # Steps also run while the next pass is read ahead.
    step_s = rounds * _LOOPS / _speed(batches(), every, rounds, []).loops_per_s
    pairs, servers = [], [] if server is None else [server]
    with _running([*elsewhere, str(every), str(step_s)]) as pid:
        for _ in range(repeats):
            with _stopped(pid):
                passes = (batches() for _ in range(_PASSES))
                loading = _speed(itertools.chain.from_iterable(passes), every, rounds, servers)
            time.sleep(_REST_S)
            steps = range(_PASSES * count)
            pairs.append((loading, _speed(steps, every, rounds, [*servers, pid])))
    return Kept(
        _median([loading for loading, _ in pairs]),
        _median([other for _, other in pairs]),
        statistics.median(loading.loops_per_s / other.loops_per_s for loading, other in pairs),
    )


def _work(rounds: int) -> int:
    total = 0
    for i in range(rounds * _LOOPS):
        total += i * i % 7
    return total


def _rounds(seconds: float) -> int:
    """Return the number of rounds that take about `seconds` without loading."""
    start = time.perf_counter()
    _work(50)
    return max(1, round(seconds / ((time.perf_counter() - start) / 50)))


def _speed(batches: Iterable[object], every: int, rounds: int, processes: list[int]) -> Speed:
    """Measure steps, with one step after each `every` batches."""
    clocks = [_clock(pid) for pid in processes]

    def others() -> float:
        of_threads = time.process_time() - time.thread_time()
        return of_threads + sum(time.clock_gettime(clock) for clock in clocks)

    wall = cpu = scheduled = 0.0
    steps = 0
    for number, _ in enumerate(batches, 1):
        if number % every:
            continue
        before, ready, start = others(), _scheduled_s(), time.perf_counter()
        _work(rounds)
        wall += time.perf_counter() - start
        scheduled += _scheduled_s() - ready
        cpu += others() - before
        steps += 1
    return Speed(steps * rounds * _LOOPS / wall, max(0.0, 1 - scheduled / wall), cpu / wall)


def _scheduled_s() -> float:
    """Return the seconds that this thread has run or waited for a CPU."""
    ran_ns, waited_ns, _ = _SCHEDSTAT.read_text().split()
    return (int(ran_ns) + int(waited_ns)) / 1e9


def _clock(pid: int) -> int:
    """Return the number of a process's CPU clock on Linux: clock_getcpuclockid(3)."""
    return (~pid << 3) | 2


@contextlib.contextmanager
def _running(command: Sequence[str]) -> Iterator[int]:
    """Run a command inside a with block; wait until the command prints that it is ready."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - our own
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield process.pid
        finally:
            process.kill()


@contextlib.contextmanager
def _stopped(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def _median(speeds: list[Speed]) -> Speed:
    return Speed(
        statistics.median(speed.loops_per_s for speed in speeds),
        statistics.median(speed.gil_share for speed in speeds),
        statistics.median(speed.cpus for speed in speeds),
    )
