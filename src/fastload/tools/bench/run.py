"""Run of fastload-bench, from the options to the exit status."""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from fastload.runtime.cores import available_cores
from fastload.source.stores.io import IO
from fastload.tools.bench.child import Job, launch
from fastload.tools.bench.peers import DEFAULT, FAMILIES, PEERS, Peer, Work
from fastload.tools.bench.profile import Profile
from fastload.tools.bench.progress import ShownProgress
from fastload.tools.bench.report.page import page
from fastload.tools.bench.report.picture import svg
from fastload.tools.bench.report.record import to_json
from fastload.tools.bench.report.text import report
from fastload.tools.bench.sample import sample
from fastload.tools.bench.session import REPEATS, Findings, Plan, measure
from fastload.tools.bench.survey import copies_of, survey, with_copies
from fastload.tools.terminal import complain, print_lines, rendered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from fastload.tools.bench.session import Mode

# A run without --repeats or --epochs answers in about a minute: no repeat is begun that would
# take longer, and processes begin epochs for a shorter time.
_BUDGET_S = 60.0
_PATIENCE_S = 1.5
_INTERRUPTED = 128


@dataclass(frozen=True, slots=True)
class Options:
    """Options of the command line, named as there: `fastload-bench --help` describes them.

    `command` holds the arguments as given.
    """

    source: str | None = None
    columns: Sequence[str] | None = None
    batch_size: int = 16384
    shuffle: bool | None = None
    epochs: int | None = None
    threads: int | None = None
    workers: int = 0
    peers: Sequence[str] = ("default",)
    repeats: int | None = None
    copies: int | None = None
    limit_s: float = 20.0
    step_ms: float | None = None
    cache_dir: str | None = None
    roofline: bool = False
    json: str | None = None
    html: str | None = None
    svg: str | None = None
    trace: str | None = None
    verbose: bool = False
    command: tuple[str, ...] = ()


def run(options: Options) -> int:
    """Measure, print the results, and write the reports.

    Ctrl-C or SIGTERM ends the measurements; results until then are printed and written.

    Returns:
        The exit status: 0, or 1 if fastload itself could not be timed in a mode, or 128 and the
        number of the signal that ended the measurements.

    Raises:
        FastloadError, ValueError, OSError: the source or an option is wrong.
    """
    # A report that can't be written is an error before the measurements, not after.
    for path in (options.json, options.html, options.svg, options.trace):
        if path:
            check_path(path)
    with _terminations() as signals:
        findings = compare(options)
    record = to_json(findings)
    lines = rendered(report(record, verbose=options.verbose)) if findings.results else []
    printed = print_lines("fastload-bench", lines)
    if options.json:
        Path(options.json).write_text(json.dumps(record, indent=2) + "\n")
    if options.html:
        Path(options.html).write_text(page(record), encoding="utf-8")
    if options.svg and findings.results:
        Path(options.svg).write_text(svg(record), encoding="utf-8")
    if findings.interrupted:
        if not findings.results:
            complain("fastload-bench", "interrupted before the first result")
        return _INTERRUPTED + (signals[0] if signals else signal.SIGINT)
    timed = [result for result in findings.results if result.peer.family == "fastload"]
    if not printed:
        return 2
    return 0 if len(timed) == len(findings.plan.modes) else 1


def check_path(path: str) -> None:
    """Raise ValueError if no file can be written to a path."""
    target = Path(path).absolute()
    if not target.parent.is_dir():
        raise ValueError(f"Expected a directory to write to, got none - at {path}")
    if target.is_dir():
        raise ValueError(f"Expected a file to write, got a directory - at {path}")
    if not os.access(target if target.exists() else target.parent, os.W_OK):
        raise ValueError(f"Expected a file that may be written, got one that may not - at {path}")


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
    if options.copies and options.copies > 1 and surveyed.remote:
        raise ValueError("Expected local files for --copies, got files of a store")
    modes: tuple[Mode, ...] = ("shuffled", "in_order")
    if options.shuffle is not None:
        modes = ("shuffled",) if options.shuffle else ("in_order",)
    with tempfile.TemporaryDirectory(prefix="fastload-bench-") as scratch:
        cores = min(options.threads or available_cores(), available_cores())
        copies = options.copies or copies_of(surveyed, cores)
        surveyed = with_copies(surveyed, copies, scratch)
        work = Work(
            files=surveyed.files,
            columns=surveyed.columns,
            batch_size=options.batch_size,
            shuffle=False,
            threads=options.threads,
            workers=options.workers,
            cache_dir=options.cache_dir or "",
        )
        plan = Plan(
            surveyed,
            peers,
            modes,
            work,
            options.epochs,
            repeats=options.repeats or REPEATS,
            limit_s=options.limit_s,
            roof=options.roofline,
        )
        if options.repeats is None and options.epochs is None:
            plan = replace(plan, budget_s=_BUDGET_S, patience_s=_PATIENCE_S)
        progress = ShownProgress()
        findings = measure(plan, progress)
        findings.command = options.command
        if not findings.interrupted:
            try:
                # Shuffled, as most training is, unless the options ask for reads in order.
                shuffle = "shuffled" in modes
                look_closer(findings, options, replace(work, shuffle=shuffle), progress)
            except KeyboardInterrupt:
                findings.interrupted = True
    return findings


def look_closer(
    findings: Findings, options: Options, work: Work, progress: Callable[[str, int], None]
) -> None:
    """Measure fastload alone: the profile that the options ask for."""
    if options.step_ms is not None or options.trace:
        progress("fastload in a training loop", 0)
        step_s = (options.step_ms or 0.0) / 1e3
        trace = options.trace or ""
        job = Job("profile", "", work, options.epochs, step_s=step_s, trace=trace)
        findings.profile = Profile(**launch(job))


@contextmanager
def _terminations() -> Iterator[list[int]]:
    """Raise KeyboardInterrupt at SIGTERM; yield the list of the signals that came."""
    signals: list[int] = []

    def stop(number: int, _: object) -> None:
        signals.append(number)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield signals
    finally:
        signal.signal(signal.SIGTERM, before)


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
        if name not in (*FAMILIES, "default", "all", "none"):
            raise ValueError(
                f"Expected peers out of {', '.join(FAMILIES)}, default, all or none, got {name}"
            )

    def is_named(peer: Peer) -> bool:
        return (
            peer.family == "fastload"
            or "all" in names
            or peer.family in names
            or ("default" in names and peer.name in DEFAULT)
        )

    return tuple(filter(is_named, PEERS))
