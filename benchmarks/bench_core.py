"""One question: how far is the core from the limit of the machine, on every kind of data?

    python benchmarks/bench_core.py [--sections NAME ...] [--only ROW ...] [--repeats N] [--quick]
        [--threads N] [--directory DIR] [--compare]

Each figure is printed beside its goal, with "short" if it misses the goal. Sections:

- roof: passes as a share of the roof (libparquet reads and decompresses the pages, and the output
  is copied once, by as many threads, in turns with the passes), in order and shuffled. These
  datasets keep no pages in memory. "kept" is the same for datasets that keep decompressed pages,
  and the share of a roof likewise: the pages lie decompressed in memory, and are read there. The
  goals were set for the former
- first-batch: seconds from the first iter() to the first batch, beyond what Python and torch take
  for a pass without data (floor_s), in roofs of that batch
- waits: the longest wait of a consumer that takes half of the possible rate, in its steps
- memory: the speed with memory_budget="256MB" as a share of the speed with "4GB"
- threads: how many times as fast 2, 4, 8 ... threads, up to all, are as one thread, and the same
  of the roof, which shows what the machine gains
- filters: the speed with a filter that 1 % of the rows meet, against pyarrow.dataset and polars

All figures are medians of runs that take turns. Results are stored in benchmarks/results, with one
file per kind of host, unless other programs kept the machine busy. --compare shows the results
beside the stored results; neither --compare nor --quick stores results.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from support.core_rows import BY_NAME
from support.core_sections import SECTIONS, Setting

from fastload.runtime.cores import available_cores
from fastload.tools.bench.machine import OtherLoad
from support import core_results

if TYPE_CHECKING:
    from support.core_results import Figure

_REPEATS = 7
_QUICK_REPEATS = 3
# Share of the CPUs: if other programs used more, times are not stored.
_BUSY = 0.1
_FILES = Path(__file__).parents[1] / "build" / "core-files"


def line(figure: Figure, before: Figure | None) -> str:
    """Return the line of a figure.

    Args:
        figure: the figure.
        before: the stored figure of the same name, to compare with, or None.
    """
    text = f"{figure.row:18}{figure.mode:20}{figure.value:7.2f}"
    if figure.goal is not None:
        bound = "at most" if figure.most else "of"
        text += f" {bound} {figure.goal:.2f} {'short' if figure.short else '':5}"
    if before is not None:
        text += f"  {before.value:.2f} kept, {figure.value / before.value - 1:+.0%}"
    details = (f"{name} {value:.4g}" for name, value in figure.details.items())
    return f"{text}  {', '.join(details)}".rstrip()


def main() -> None:
    """Run the benchmark and print its tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sections", nargs="+", choices=SECTIONS, default=list(SECTIONS))
    parser.add_argument("--only", nargs="+", choices=[*BY_NAME, "conditions"], default=[])
    parser.add_argument("--repeats", type=int, default=_REPEATS)
    parser.add_argument("--quick", action="store_true", help="few repeats; nothing is kept")
    parser.add_argument("--threads", type=int, default=available_cores())
    parser.add_argument("--batch-size", type=int, default=16384)
    parser.add_argument("--directory", type=Path, default=_FILES)
    parser.add_argument("--compare", action="store_true", help="beside what was kept")
    arguments = parser.parse_args()
    repeats = _QUICK_REPEATS if arguments.quick else arguments.repeats
    setting = Setting(
        arguments.directory,
        arguments.threads,
        repeats,
        arguments.batch_size,
        tuple(arguments.only),
    )
    before = core_results.stored() if arguments.compare else {}
    figures = []
    load = OtherLoad()
    cores = os.cpu_count() or 1
    for section in arguments.sections:
        print(f"{section}: medians of {repeats}, {setting.threads} threads", flush=True)
        for figure in SECTIONS[section](setting):
            figure.details["others_cpu_share"] = (load.cores() or 0.0) / cores
            load = OtherLoad()
            print(f"  {line(figure, before.get(figure.name))}", flush=True)
            figures.append(figure)
    short = sum(figure.short for figure in figures)
    print(f"{len(figures)} figures, {short} short of their goals")
    quiet = [figure for figure in figures if figure.details["others_cpu_share"] <= _BUSY]
    if len(quiet) < len(figures):
        busy = len(figures) - len(quiet)
        print(f"{busy} figures are of a busy machine (others_cpu_share): measure these again")
    if quiet and not arguments.compare and not arguments.quick:
        print(f"{len(quiet)} kept in {core_results.store(quiet, repeats)}")


if __name__ == "__main__":
    main()
