"""Run of fastload-bench, from the options to the exit status."""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from fastload.source.stores.io import IO
from fastload.tools.bench.child import Job
from fastload.tools.bench.launch import launch
from fastload.tools.bench.peers import FAMILIES, PEERS, Peer, Work
from fastload.tools.bench.profile import Profile
from fastload.tools.bench.profile import report as profile_report
from fastload.tools.bench.report.page import page
from fastload.tools.bench.report.progress import Progress
from fastload.tools.bench.report.record import to_json
from fastload.tools.bench.report.text import heading, remarks, table
from fastload.tools.bench.roofline import StageRoofs
from fastload.tools.bench.roofline import report as roofline_report
from fastload.tools.bench.sample import sample
from fastload.tools.bench.session import Findings, Plan, measure, steps
from fastload.tools.bench.survey import survey
from fastload.tools.bench.tune import remarks as tuning_remarks
from fastload.tools.bench.tune import table as tuning_table
from fastload.tools.bench.tune import tune
from fastload.tools.cli.output import print_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fastload.tools.bench.session import Mode


@dataclass(frozen=True, slots=True)
class Options:
    """Options of the command line.

    Attributes:
        source: file, directory, glob or URL; None = the click-log sample.
        columns: columns to read; None = all columns that every contender can read.
        batch_size: rows of a batch.
        shuffle: True = only shuffled, False = only in order, None = both.
        epochs: epochs of each process; None = as many as begin within a few seconds.
        threads: threads of every contender; None = all cores.
        workers: number of DataLoader worker processes.
        peers: families of contenders beside fastload, or "all".
        limit_s: seconds of an epoch after which a peer is cut off.
        step_ms: milliseconds of a simulated training step; None = no simulation.
        cache_dir: directory in which fastload keeps remote bytes.
        roofline: True to measure the roof of each stage.
        tune: True to search for a better setting.
        tune_s: seconds of that search.
        json: path of the JSON file to write, or None.
        html: path of the HTML page to write, or None.
        trace: path of the trace to write, or None.
        command: the arguments as given.
    """

    source: str | None = None
    columns: tuple[str, ...] | None = None
    batch_size: int = 16384
    shuffle: bool | None = None
    epochs: int | None = None
    threads: int | None = None
    workers: int = 0
    peers: tuple[str, ...] = ("all",)
    limit_s: float = 20.0
    step_ms: float | None = None
    cache_dir: str | None = None
    roofline: bool = False
    tune: bool = False
    tune_s: float = 90.0
    json: str | None = None
    html: str | None = None
    trace: str | None = None
    command: tuple[str, ...] = ()

    @property
    def profiles(self) -> bool:
        """True if the options ask for a profile of fastload."""
        return bool(self.step_ms is not None or self.html or self.trace)


def run(options: Options) -> int:
    """Measure, print the results, and write the reports.

    Returns:
        The exit status: 0, or 1 if fastload itself could not be timed in a mode, or 2 if the
        results could not be printed.

    Raises:
        FastloadError, ValueError, OSError: the source or an option is wrong.
    """
    # A report that can't be written is an error before the measurements, not after.
    for path in (options.json, options.html, options.trace):
        if path and not Path(path).absolute().parent.is_dir():
            raise ValueError(f"Expected a directory to write to, got none - at {path}")
    findings = compare(options)
    shown = print_lines("fastload-bench", _parts(findings, options))
    if options.json:
        Path(options.json).write_text(json.dumps(to_json(findings), indent=2) + "\n")
    if options.html:
        Path(options.html).write_text(page(to_json(findings), findings.profile), encoding="utf-8")
    if options.trace and findings.profile:
        findings.profile.trace().write(options.trace)
    timed = [result for result in findings.results if result.peer.family == "fastload"]
    if not shown:
        return 2
    return 0 if len(timed) == len(findings.plan.modes) else 1


def compare(options: Options) -> Findings:
    """Measure as the options say, and show the progress on standard error.

    Raises:
        FastloadError, ValueError, OSError: the source or an option is wrong.
    """
    peers = _peers(options.peers)
    files = _files(options.source)
    surveyed = survey(files, options.columns)
    if options.roofline and surveyed.remote:
        raise ValueError("Expected local files for --roofline, got files of a store")
    modes: tuple[Mode, ...] = ("in_order", "shuffled")
    if options.shuffle is not None:
        modes = ("shuffled",) if options.shuffle else ("in_order",)
    with tempfile.TemporaryDirectory(prefix="fastload-bench-") as scratch:
        work = Work(
            files=surveyed.files,
            columns=surveyed.columns,
            batch_size=options.batch_size,
            shuffle=False,
            threads=options.threads,
            workers=options.workers,
            scratch=scratch,
            cache_dir=options.cache_dir or "",
        )
        plan = Plan(surveyed, peers, modes, work, options.epochs, limit_s=options.limit_s)
        progress = Progress(steps(plan) + options.roofline + options.profiles)
        try:
            findings = measure(plan, progress)
            findings.command = options.command
            # Shuffled, as most training is, unless the options ask for reads in order only.
            look_closer(findings, options, replace(work, shuffle="shuffled" in modes), progress)
        finally:
            progress.end()
    return findings


def look_closer(
    findings: Findings, options: Options, work: Work, progress: Callable[[str], None]
) -> None:
    """Measure fastload alone: the roofline, the profile and the tuning that the options ask for."""
    if options.roofline:
        progress("the roof of each stage")
        findings.roofline = StageRoofs(**launch(Job("roofline", "", work)))
    if options.profiles:
        progress("fastload in a training loop")
        step_s = (options.step_ms or 0.0) / 1e3
        job = Job("profile", "", work, options.epochs, step_s=step_s)
        findings.profile = Profile(**launch(job))
    if options.tune:
        read = findings.plan.survey
        findings.tuning = tune(work, read.rows, options.tune_s, progress, remote=read.remote)


def _parts(findings: Findings, options: Options) -> list[str]:
    parts = [heading(findings), "", table(findings), remarks(findings)]
    if findings.roofline:
        parts += ["", roofline_report(findings.roofline)]
    if findings.profile:
        parts += ["", profile_report(findings.profile)]
    if findings.tuning:
        source = options.source or findings.plan.survey.files[0]
        read = findings.plan.survey
        columns = read.columns if options.columns or read.left_out else ()
        parts += ["", tuning_table(findings.tuning), ""]
        parts.append(tuning_remarks(findings.tuning, source, columns, findings.plan.work))
    return parts


def _files(source: str | None) -> list[str]:
    if source is None:
        print("No SOURCE given: measuring a click-log sample", file=sys.stderr, flush=True)
        return [str(sample())]
    from fastload.source.local_paths import find_files
    from fastload.source.stores.stores import Stores

    storage = Stores(None, None, IO())
    try:
        return [file.path for file in find_files(source, storage.find)]
    finally:
        storage.close()


def _peers(names: Sequence[str]) -> tuple[Peer, ...]:
    for name in names:
        if name not in (*FAMILIES, "all", "none"):
            raise ValueError(
                f"Expected peers out of {', '.join(FAMILIES)}, all or none, got {name}"
            )
    return tuple(
        peer
        for peer in PEERS
        if peer.family == "fastload" or "all" in names or peer.family in names
    )
