"""One question: how many times as fast as its peers is fastload, and with how much less CPU?

    python benchmarks/bench_peers.py [SOURCE] [--peers P,...] [--limit-s N]
    python benchmarks/bench_peers.py --results A.json B.json ...

The program runs fastload-bench and compares its figures with the goals; or reads figures from
files that `fastload-bench --json` wrote, where a ratio takes both figures from the same file.
`make peers` installs the other loaders; the programs in `benchmarks/peers/` print their rates by
themselves. A loader that was cut off counts with its rate until then.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastload.tools.bench.peers import LIBRARIES, PEERS
from fastload.tools.bench.report.record import to_json
from fastload.tools.bench.report.text import report
from fastload.tools.bench.run import Options, compare
from fastload.tools.terminal import rendered

# Families of hand-written programs with the fastest libraries, and of loaders.
_BY_HAND = {"in_order": 1.8, "shuffled": 4.0}
_LOADERS = 10.0


@dataclass(frozen=True, slots=True)
class Ratio:
    """fastload compared with one peer in one mode.

    Attributes:
        name: name of the peer.
        mode: "in_order" or "shuffled".
        speed: fastload's rows per second divided by the peer's.
        cpu: CPU seconds per million rows of fastload and of the peer; None if the peer was cut
            off.
    """

    name: str
    mode: str
    speed: float
    cpu: tuple[float, float] | None


def ratios(report: dict[str, Any]) -> list[Ratio]:
    """Return the ratios of all peers that were timed or cut off in one report."""
    mine = {r["mode"]: r for r in report["results"] if r["name"] == "fastload"}
    millions = report["dataset"]["rows"] / 1e6
    found = []
    for other in (*report["results"], *report["left_out"]):
        own = mine.get(other["mode"])
        if own is None or other is own or not other.get("rows_per_s"):
            continue
        cpu = (own["cpu_s"] / millions, other["cpu_s"] / millions) if "cpu_s" in other else None
        speed = own["rows_per_s"] / other["rows_per_s"]
        found.append(Ratio(other["name"], other["mode"], speed, cpu))
    return found


def goals(found: list[Ratio]) -> list[str]:
    """Return a line for each goal: the goal, the measured ratio, and the peer."""
    by_hand = {p.name for p in PEERS if p.by_hand}
    loaders = {p.name for p in PEERS if p.family not in (*LIBRARIES, "fastload", "memory")}
    lines = []
    for mode, least in _BY_HAND.items():
        for title, names, goal in (
            ("hand-written programs", by_hand, least),
            ("loaders", loaders, _LOADERS),
        ):
            speeds = [(r.speed, r.name) for r in found if r.mode == mode and r.name in names]
            if speeds:
                speed, name = min(speeds)
                lines.append(_line(mode, f"the rate of {title}", f">= {goal}", speed, name, goal))
        spent = [(r.cpu[1] / r.cpu[0], r) for r in found if r.mode == mode and r.cpu]
        if spent:
            share, least_cpu = min(spent, key=lambda pair: pair[0])
            own, other = least_cpu.cpu or (0.0, 0.0)
            name = f"{least_cpu.name}, {own:.3f} against {other:.3f} s per million rows"
            lines.append(_line(mode, "CPU of the others", "> 1", share, name, 1.0))
    return lines


def _line(mode: str, what: str, asked: str, got: float, name: str, least: float) -> str:
    verdict = "reached" if got >= least else "short"
    return f"{mode:9s} {what:28s} {asked:8s} {got:7.2f}  {verdict:8s} {name}"


def _of_run(arguments: argparse.Namespace) -> dict[str, Any]:
    peers = tuple(arguments.peers.split(","))
    options = Options(arguments.source, peers=peers, limit_s=arguments.limit_s, repeats=3)
    record = to_json(compare(options))
    print("\n".join([*rendered(report(record, verbose=True)), ""]))
    return record


def main() -> None:
    """Run the benchmark, or read its results, and print the ratios and the goals."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", nargs="?")
    parser.add_argument("--peers", default="all")
    parser.add_argument("--limit-s", type=float, default=20)
    parser.add_argument("--results", nargs="+", type=Path, default=[])
    arguments = parser.parse_args()

    reports = [json.loads(path.read_text()) for path in arguments.results]
    found = [ratio for report in reports or [_of_run(arguments)] for ratio in ratios(report)]
    for ratio in sorted(found, key=lambda ratio: (ratio.mode, ratio.speed)):
        cpu = f"CPU {ratio.cpu[1] / ratio.cpu[0]:6.1f} x" if ratio.cpu else "cut off"
        print(f"{ratio.mode:9s} {ratio.name:24s} {ratio.speed:8.1f} x  {cpu}")
    print()
    print("\n".join(goals(found)))


if __name__ == "__main__":
    main()
