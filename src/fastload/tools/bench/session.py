"""Session: the order of the measurements, and their medians."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from fastload.tools.bench.check import Fingerprint, fault
from fastload.tools.bench.child import Job, Timing
from fastload.tools.bench.launch import JobError, Launch, launch
from fastload.tools.bench.peers import REFERENCE, Peer, Work

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fastload.tools.bench.profile import Profile
    from fastload.tools.bench.roofline import StageRoofs
    from fastload.tools.bench.survey import Survey
    from fastload.tools.bench.tune import Tuning

# A contender whose epoch takes longer is not timed again: its rank among the others is clear.
_SLOW_S = 10.0

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
        repeats: processes per contender and mode; all contenders take turns within a repeat.
        limit_s: seconds of an epoch after which a contender is cut off.
    """

    survey: Survey
    peers: tuple[Peer, ...]
    modes: tuple[Mode, ...]
    work: Work
    epochs: int | None = None
    repeats: int = 3
    limit_s: float = 20.0


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
        conversion_s: seconds to convert the files before the first epoch; 0 without conversion.
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
    conversion_s: float = 0.0


@dataclass(slots=True)
class Findings:
    """Results of all measurements, and reasons for the missing results.

    Attributes:
        plan: the measurements to make.
        command: the arguments of the command line.
        roof_s: seconds of the roof, a median; None if the roof could not be measured.
        results: medians of each contender in each mode.
        left_out: (name, mode or "", reason) of contenders that were not timed.
        cut_off: rows per second of contenders that were too slow; their rows are unchecked.
        roofline: roof of each stage, or None if not asked for.
        profile: profile of fastload, or None if not asked for.
        tuning: result of the search for a better setting, or None if not asked for.
        versions: name -> version of the installed contenders.
    """

    plan: Plan
    command: tuple[str, ...] = ()
    roof_s: float | None = None
    results: list[Result] = field(default_factory=list)
    left_out: list[tuple[str, str, str]] = field(default_factory=list)
    cut_off: dict[tuple[str, Mode], float] = field(default_factory=dict)
    roofline: StageRoofs | None = None
    profile: Profile | None = None
    tuning: Tuning | None = None
    versions: dict[str, str] = field(default_factory=dict)


def measure(plan: Plan, progress: Callable[[str], None], run: Launch = launch) -> Findings:
    """Check every contender, then time the contenders that gave the right rows.

    Args:
        plan: the measurements to make.
        progress: function called with the name of the next step, at most `steps(plan)` times.
        run: function that does a Job and returns its result.

    Raises:
        JobError: the reference contender cannot read the files.
    """
    findings = Findings(plan)
    present = _present(plan, findings)
    findings.versions = {peer.name: version for peer, version in present}
    checked = _checked(plan, [peer for peer, _ in present], findings, progress, run)
    roofs: list[float] = []
    roof_fault = "the roof is measured on local files only" if plan.survey.remote else ""
    timings: dict[tuple[str, Mode], list[Timing]] = {}
    slow: list[tuple[Mode, Peer]] = []
    for repeat in range(plan.repeats):
        turn = f"repeat {repeat + 1} of {plan.repeats}"
        if not roof_fault:
            progress(f"{turn}: the roof")
            try:
                roofs.append(float(run(Job("roof", "", plan.work))["seconds"]))
            except JobError as error:
                roof_fault = str(error)
        for mode, peer in list(checked):
            progress(f"{turn}: {peer.name}, {_words(mode)}")
            try:
                timing = Timing(**run(Job("time", peer.name, _work(plan, mode), plan.epochs)))
            except JobError as error:
                findings.left_out.append((peer.name, mode, str(error)))
                checked.remove((mode, peer))
                timings.pop((peer.name, mode), None)
                continue
            timings.setdefault((peer.name, mode), []).append(timing)
            if timing.epoch_s[0] > _SLOW_S:
                checked.remove((mode, peer))
                slow.append((mode, peer))
    if roofs:
        findings.roof_s = statistics.median(roofs)
    else:
        findings.left_out.append(("the roof", "", roof_fault or "no repeats"))
    findings.results = [
        _median(peer, findings.versions[peer.name], mode, timings[peer.name, mode])
        for mode, peer in (*checked, *slow)
        if (peer.name, mode) in timings
    ]
    return findings


def steps(plan: Plan) -> int:
    """Return how often `measure` reports progress if no contender is left out."""
    contenders = len(plan.peers) * len(plan.modes)
    return 1 + contenders + plan.repeats * (1 + contenders)


def _present(plan: Plan, findings: Findings) -> list[tuple[Peer, str]]:
    """Return the contenders that can run here with their versions; note why others cannot."""
    present: list[tuple[Peer, str]] = []
    for peer in plan.peers:
        version = peer.version()
        if plan.survey.remote and not peer.stores:
            findings.left_out.append((peer.name, "", "compared on local files only"))
        elif version is None:
            advice = "make peers" if peer.apart else f"pip install {peer.requirement}"
            advice = f"{peer.requirement} is not installed: {advice}"
            findings.left_out.append((peer.name, "", advice))
        else:
            present.append((peer, version))
    return present


def _checked(
    plan: Plan,
    peers: Sequence[Peer],
    findings: Findings,
    progress: Callable[[str], None],
    run: Launch,
) -> list[tuple[Mode, Peer]]:
    """Return the contenders that gave the rows of the reference; note why others are left out."""
    progress("reading the rows with pyarrow, to check the others against")
    expected = Fingerprint(**run(Job("check", REFERENCE.name, _work(plan, "in_order"))))
    right: list[tuple[Mode, Peer]] = []
    for mode in plan.modes:
        for peer in peers:
            progress(f"checking the rows of {peer.name}, {_words(mode)}")
            try:
                checked = run(Job("check", peer.name, _work(plan, mode), limit_s=plan.limit_s))
            except JobError as error:
                findings.left_out.append((peer.name, mode, str(error)))
                continue
            if "cut_s" in checked:
                findings.left_out.append((peer.name, mode, _cut_off(findings, peer, mode, checked)))
                continue
            got = Fingerprint(**checked)
            # DataLoader takes batches of its workers in turn, which is not the stored order.
            ordered = mode == "in_order" and not (peer.loader and plan.work.workers)
            wrong = fault(got, expected, shuffled=mode == "shuffled", ordered=ordered)
            if wrong:
                findings.left_out.append((peer.name, mode, f"refused, its rows are wrong: {wrong}"))
            else:
                right.append((mode, peer))
    return right


def _cut_off(findings: Findings, peer: Peer, mode: Mode, checked: dict[str, Any]) -> str:
    rows, seconds = int(checked["cut_rows"]), float(checked["cut_s"])
    findings.cut_off[peer.name, mode] = rows / seconds
    return (
        f"cut off after {seconds:.0f} s and {rows:,} of {findings.plan.survey.rows:,} rows, "
        f"{rows / seconds:,.0f} rows a second"
    )


def _work(plan: Plan, mode: Mode) -> Work:
    return replace(plan.work, shuffle=mode == "shuffled")


def _words(mode: Mode) -> str:
    return "in order" if mode == "in_order" else "shuffled"


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
        conversion_s=max(t.conversion_s for t in timings),
    )
