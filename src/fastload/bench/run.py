"""fastload-bench from its options to its exit status."""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fastload.bench.peers import FAMILIES, PEERS, Peer, Work
from fastload.bench.progress import Progress
from fastload.bench.report import heading, remarks, table, to_json
from fastload.bench.sample import sample
from fastload.bench.session import Findings, Plan, measure, steps
from fastload.bench.survey import survey

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastload.bench.session import Mode


@dataclass(frozen=True, slots=True)
class Options:
    """The command line.

    source: None = the sample.
    shuffle: None = measure both in order and shuffled.
    epochs: None = as many as begin within a few seconds, in each process.
    peers: families of contenders beside fastload, or "all".
    limit_s: a peer is cut off whose epoch takes longer.
    json: a file to write, or None.
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
    json: str | None = None


def run(options: Options) -> int:
    """Measures and prints; 0 unless fastload itself could not be timed in a mode.

    Raises:
        FastloadError, ValueError, OSError: as the source or the options deserve.
    """
    findings = compare(options)
    _show(findings)
    if options.json:
        Path(options.json).write_text(json.dumps(to_json(findings), indent=2) + "\n")
    timed = [result for result in findings.results if result.peer.family == "fastload"]
    return 0 if len(timed) == len(findings.plan.modes) else 1


def compare(options: Options) -> Findings:
    """Measures what the options say; says on standard error how far it is.

    Raises:
        FastloadError, ValueError, OSError: as `run`.
    """
    peers = _peers(options.peers)
    files = _files(options.source)
    surveyed = survey(files, options.columns)
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
        )
        plan = Plan(surveyed, peers, modes, work, options.epochs, limit_s=options.limit_s)
        progress = Progress(steps(plan))
        try:
            return measure(plan, progress)
        finally:
            progress.end()


def _show(findings: Findings) -> None:
    for part in (heading(findings), "", table(findings), remarks(findings)):
        print(part)


def _files(source: str | None) -> list[str]:
    if source is None:
        print("no SOURCE given: measuring a click-log sample", file=sys.stderr, flush=True)
        return [str(sample())]
    from fastload.paths import find_files

    return [file.path for file in find_files(source)]


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
