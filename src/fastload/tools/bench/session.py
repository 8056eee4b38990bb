"""Session: the order of the measurements, and their medians."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from fastload.runtime.cores import available_cores
from fastload.tools.bench.check import Fingerprint, fault
from fastload.tools.bench.child import PATIENCE_S, Job, JobError, Launch, Timing, launch
from fastload.tools.bench.machine import OtherLoad
from fastload.tools.bench.peers import REFERENCE, Peer, Work

if TYPE_CHECKING:
    from fastload.tools.bench.profile import Profile
    from fastload.tools.bench.progress import ShownProgress
    from fastload.tools.bench.survey import Survey

# A contender whose epoch takes longer is not timed again: its rank among the others is clear.
_SLOW_S = 10.0
# Processes per contender and mode.
REPEATS = 3
# Rows are checked in this part of the copies of small files, for as long as its epoch may take.
_CHECKED = 8
_LEAST_LIMIT_S = 10.0
# A process begins further epochs for at least this long, however short the time is.
_LEAST_PATIENCE_S = 0.2

Mode: TypeAlias = Literal["in_order", "shuffled"]


@dataclass(frozen=True, slots=True)
class Plan:
    """The measurements to make.

    Attributes:
        survey: the files and columns to read.
        peers: the contenders.
        modes: "in_order", "shuffled" or both.
        work: the options of reading.
        epochs: epochs timed in each process; None = as many as begin within a few seconds.
        repeats: processes per contender and mode, at most; all contenders take turns within a
            repeat.
        limit_s: seconds of an epoch after which a contender is cut off.
        budget_s: seconds within which another repeat has to end; None = no limit. The first
            repeat always takes place.
        patience_s: seconds of a process within which another epoch is begun, at most.
        roof: True to measure the roof.
    """

    survey: Survey
    peers: tuple[Peer, ...]
    modes: tuple[Mode, ...]
    work: Work
    epochs: int | None = None
    repeats: int = REPEATS
    limit_s: float = 20.0
    budget_s: float | None = None
    patience_s: float = PATIENCE_S
    roof: bool = True


@dataclass(frozen=True, slots=True)
class Result:
    """Medians over the repeats of one contender in one mode, without first epochs.

    Attributes:
        peer: the contender.
        version: version of the contender's package.
        mode: "in_order" or "shuffled".
        epoch_s: seconds of an epoch after the first epoch.
        first_batch_s: seconds from before the dataset is made to the first batch.
        cpu_s: CPU seconds of an epoch after the first epoch.
        imports_rss_bytes: resident memory before the dataset is made.
        peak_rss_bytes: largest resident memory after that, including worker processes.
        bottleneck: the slowest stage that the contender measured; "" if it measures no stages.
        repeats: number of processes.
        spread: half of the distance between the quartiles of the epochs, as a share of epoch_s.
        busy_cores: mean number of cores at work in epochs after the first.
        kept_bytes: bytes of decompressed pages that stayed in memory from one epoch to the next.
        first_epoch_s: seconds of the first epoch, from before the dataset is made.
    """

    peer: Peer
    version: str
    mode: Mode
    epoch_s: float
    first_batch_s: float
    cpu_s: float
    imports_rss_bytes: int
    peak_rss_bytes: int
    bottleneck: str
    repeats: int
    spread: float = 0.0
    busy_cores: float = 0.0
    kept_bytes: int = 0
    first_epoch_s: float = 0.0


@dataclass(slots=True)
class Findings:
    """Results of all measurements, and reasons for the missing results.

    Attributes:
        plan: the measurements to make.
        command: the arguments of the command line.
        roof_s: seconds of the roof, a median; None if not asked for, or not measured.
        results: medians of each contender in each mode.
        left_out: (name, mode or "", reason) of contenders that were not timed.
        cut_off: rows per second of contenders that were too slow; their rows are unchecked.
        profile: profile of fastload, or None if not asked for.
        versions: name -> version of the installed contenders.
        other_cores: cores that other processes used meanwhile; None if unknown.
        interrupted: True if the measurements were stopped before the first end of all.
        kept_roof_s: mode -> seconds of the roof over as many pages that lie decompressed in memory
            as fastload kept in this mode, a median; no entry if no pages were kept.
    """

    plan: Plan
    command: tuple[str, ...] = ()
    roof_s: float | None = None
    results: list[Result] = field(default_factory=list)
    left_out: list[tuple[str, str, str]] = field(default_factory=list)
    cut_off: dict[tuple[str, Mode], float] = field(default_factory=dict)
    profile: Profile | None = None
    versions: dict[str, str] = field(default_factory=dict)
    other_cores: float | None = None
    interrupted: bool = False
    kept_roof_s: dict[Mode, float] = field(default_factory=dict)


def measure(plan: Plan, progress: ShownProgress, run: Launch = launch) -> Findings:
    """Check every contender, then time the contenders that gave the right rows.

    Ctrl-C ends the measurements: the findings hold the results until then.

    Args:
        plan: the measurements to make.
        progress: the progress to report each step to.
        run: function that does a Job and returns its result.

    Raises:
        JobError: the reference contender cannot read the files.
    """
    session = _Session(plan, progress, run)
    load = OtherLoad()
    try:
        session.check()
        session.time()
    except KeyboardInterrupt:
        session.findings.interrupted = True
    session.findings.other_cores = load.cores()
    session.sum_up()
    return session.findings


class _Session:
    """The contenders that are still measured, and their timings so far."""

    def __init__(self, plan: Plan, progress: ShownProgress, run: Launch) -> None:
        self.findings = Findings(plan)
        self._plan = plan
        self._progress = progress
        self._run = run
        self._start = time.monotonic()
        # Seconds of a process that reads few rows, which is mostly its imports.
        self._process_s = 0.0
        self._right: list[tuple[Mode, Peer]] = []
        self._slow: list[tuple[Mode, Peer]] = []
        self._timings: dict[tuple[str, Mode], list[Timing]] = {}
        self._roofs: list[float] = []
        self._kept_roofs: dict[Mode, list[float]] = {}
        self._roof_fault = ""
        self._measures_roof = plan.roof and not plan.survey.remote

    def check(self) -> None:
        """Find the contenders that give the rows of the reference; note why others are left out."""
        plan = self._plan
        present = self._present()
        timings = plan.repeats * len(plan.modes)
        self._progress("reading the rows with pyarrow", len(present) * (1 + timings))
        work, part = self._checked_work()
        begun = time.monotonic()
        reference = self._run(Job("check", REFERENCE.name, work))["in_order"]
        if "error" in reference:
            raise JobError(reference["error"])
        self._process_s = time.monotonic() - begun
        self._foresee(len(present))
        expected = Fingerprint(**reference)
        limit_s = max(plan.limit_s * part, min(plan.limit_s, _LEAST_LIMIT_S))
        right: list[tuple[Mode, Peer]] = []
        for number, peer in enumerate(present, 1):
            unchecked = len(present) - number
            left = unchecked + plan.repeats * (len(right) + (1 + unchecked) * len(plan.modes))
            self._progress(f"checking {peer.name}", left)
            job = Job("check", peer.name, work, limit_s=limit_s, modes=plan.modes)
            try:
                checked = self._run(job)
            except JobError as error:
                checked = {mode: {"error": str(error)} for mode in plan.modes}
            for mode in plan.modes:
                reason = self._fault(peer, mode, checked[mode], expected, part)
                if reason:
                    self.findings.left_out.append((peer.name, mode, reason))
                else:
                    right.append((mode, peer))
        self._right = [pair for mode in plan.modes for pair in right if pair[0] == mode]

    def time(self) -> None:
        """Time the contenders in turns, as often as planned or as there is time for."""
        for repeat in range(self._plan.repeats):
            begun = time.monotonic()
            self._add_roof(self._roofs, 0)
            turns, later = list(self._right), self._plan.repeats - repeat - 1
            for turn, (mode, peer) in enumerate(turns, 1):
                left = len(turns) - turn + later * len(self._right)
                self._progress(f"measuring {peer.name}, {mode.replace('_', ' ')}", left)
                self._time(mode, peer, len(turns) - turn + 1)
            if not self._repeats_left(repeat + 1, time.monotonic() - begun):
                return

    def sum_up(self) -> None:
        """Put the medians of all timings into the findings."""
        findings = self.findings
        if self._roofs:
            findings.roof_s = statistics.median(self._roofs)
        elif self._roof_fault:
            findings.left_out.append(("the roof", "", self._roof_fault))
        findings.kept_roof_s = {
            mode: statistics.median(roofs) for mode, roofs in self._kept_roofs.items() if roofs
        }
        findings.results = [
            _median(peer, findings.versions[peer.name], mode, self._timings[peer.name, mode])
            for mode, peer in (*self._right, *self._slow)
            if (peer.name, mode) in self._timings
        ]

    def _checked_work(self) -> tuple[Work, float]:
        """Return the work to check contenders with, and its share of the rows."""
        work, survey = self._plan.work, self._plan.survey
        if survey.copies == 1:
            return work, 1.0
        copies = -(-survey.copies // _CHECKED)
        files = survey.files[: copies * len(survey.originals)]
        return replace(work, files=files), copies / survey.copies

    def _foresee(self, peers: int) -> None:
        """Tell the progress how long all will take, once the first process has ended."""
        plan = self._plan
        repeats = 1 if plan.budget_s is not None else plan.repeats
        timings = repeats * peers * len(plan.modes)
        processes = 1 + peers + timings
        least_s = _LEAST_PATIENCE_S if plan.budget_s is not None else plan.patience_s
        self._progress.takes(processes * self._process_s + timings * least_s, plan.budget_s)

    def _present(self) -> list[Peer]:
        """Return the contenders that can run here; note their versions, or why they can't."""
        present: list[Peer] = []
        for peer in self._plan.peers:
            version = peer.version()
            if self._plan.survey.remote and not peer.stores:
                self.findings.left_out.append((peer.name, "", "compared on local files only"))
            elif version is None:
                advice = f"{peer.package} is not installed: pip install {peer.package}"
                self.findings.left_out.append((peer.name, "", advice))
            else:
                self.findings.versions[peer.name] = version
                present.append(peer)
        return present

    def _fault(
        self, peer: Peer, mode: Mode, checked: dict[str, Any], expected: Fingerprint, part: float
    ) -> str:
        """Return why a contender is not timed in a mode; "" if its rows are right."""
        if "error" in checked:
            return str(checked["error"])
        if "cut_s" in checked:
            rows, seconds = int(checked["cut_rows"]), float(checked["cut_s"])
            all_rows = round(self._plan.survey.rows * part)
            self.findings.cut_off[peer.name, mode] = rows / seconds
            return (
                f"cut off after {seconds:.0f} s and {rows:,} of {all_rows:,} rows, "
                f"{rows / seconds:,.0f} rows a second"
            )
        # DataLoader takes batches of its workers in turn, which is not the stored order.
        ordered = mode == "in_order" and not (peer.loader and self._plan.work.workers)
        got = Fingerprint(**checked)
        wrong = fault(got, expected, shuffled=mode == "shuffled", ordered=ordered)
        return wrong and f"refused, its rows are wrong: {wrong}"

    def _add_roof(self, roofs: list[float], kept_limit_bytes: int) -> None:
        """Measure the roof over pages of which so many bytes lie decompressed in memory."""
        if self._roof_fault or not self._measures_roof:
            return
        job = Job("roof", "", self._plan.work, kept_limit_bytes=kept_limit_bytes)
        try:
            roofs.append(float(self._run(job)["seconds"]))
        except JobError as error:
            self._roof_fault = str(error)

    def _time(self, mode: Mode, peer: Peer, left: int) -> None:
        """Time a contender in a mode; `left` timings of this repeat are left, with this one."""
        plan, patience_s = self._plan, self._plan.patience_s
        if plan.budget_s is not None:
            left_s = plan.budget_s - (time.monotonic() - self._start)
            patience_s = min(patience_s, max(_LEAST_PATIENCE_S, left_s / left - self._process_s))
        work = replace(plan.work, shuffle=mode == "shuffled")
        job = Job("time", peer.name, work, plan.epochs, patience_s=patience_s)
        try:
            timing = Timing(**self._run(job))
        except JobError as error:
            self.findings.left_out.append((peer.name, mode, str(error)))
            self._right.remove((mode, peer))
            self._timings.pop((peer.name, mode), None)
            return
        self._timings.setdefault((peer.name, mode), []).append(timing)
        if timing.kept_bytes:
            self._add_roof(self._kept_roofs.setdefault(mode, []), timing.kept_limit_bytes)
        if timing.epoch_s[0] > _SLOW_S:
            self._right.remove((mode, peer))
            self._slow.append((mode, peer))

    def _repeats_left(self, done: int, repeat_s: float) -> int:
        left = self._plan.repeats - done
        if self._plan.budget_s is None:
            return left
        left_s = self._plan.budget_s - (time.monotonic() - self._start)
        return max(0, min(left, int(left_s / max(repeat_s, 1e-3))))


def _median(peer: Peer, version: str, mode: Mode, timings: list[Timing]) -> Result:
    # The first epoch of a process includes the start-up.
    epochs = [s for timing in timings for s in timing.epoch_s[1:] or timing.epoch_s]
    epoch_s = statistics.median(epochs)
    low, _, high = statistics.quantiles(epochs, method="inclusive") if epochs[1:] else [epoch_s] * 3
    return Result(
        peer=peer,
        version=version,
        mode=mode,
        epoch_s=epoch_s,
        first_batch_s=statistics.median(timing.first_batch_s for timing in timings),
        cpu_s=statistics.median(t.cpu_s / max(1, len(t.epoch_s) - 1) for t in timings),
        imports_rss_bytes=int(statistics.median(t.imports_rss_bytes for t in timings)),
        peak_rss_bytes=int(statistics.median(t.peak_rss_bytes for t in timings)),
        bottleneck=statistics.mode(timing.bottleneck for timing in timings),
        repeats=len(timings),
        spread=(high - low) / 2 / epoch_s,
        # Of the same epochs: a median of seconds beside a mean of CPU seconds may be more
        # cores than there are.
        busy_cores=min(sum(t.cpu_s for t in timings) / sum(epochs), available_cores()),
        kept_bytes=int(statistics.median(t.kept_bytes for t in timings)),
        first_epoch_s=statistics.median(timing.epoch_s[0] for timing in timings),
    )
