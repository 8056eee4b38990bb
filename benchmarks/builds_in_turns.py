"""How do passes of two builds of fastload compare?

    python benchmarks/builds_in_turns.py [--build NAME=SRC ...] [--row NAME] [--shuffle]
        [--stack N] [--memory-budget SIZE] [--batch-size N] [--repeats N]

SRC is the `src` folder of a built tree. Without --build this tree stands against itself, which
shows the noise. The builds take turns, each turn in a process of its own, over a file of
`bench_core.py`. Printed are medians of steady passes: milliseconds, CPU milliseconds, page faults,
and each as a share of the first build's. With --stack, the first N categories of the click log are
read as one (B, N) tensor instead of the columns of the row.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from support.core_rows import BY_NAME

from fastload import FastParquetDataset, Stack
from support import turns

_ROOT = Path(__file__).resolve().parents[1]
_PASSES = 3
_UNCOUNTED = 2  # the first pass reads nothing ahead


def _passes(arguments: argparse.Namespace) -> turns.Cost:
    """Measure steady passes of the build that this process has imported."""
    row = BY_NAME[arguments.row]
    columns = row.columns
    if arguments.stack:
        names = [f"category_{i:02}" for i in range(1, arguments.stack + 1)]
        columns = {"stack": Stack(names, "int64")}
    with FastParquetDataset(
        row.source(arguments.directory),
        columns=columns,
        shuffle=arguments.shuffle,
        memory_budget=arguments.memory_budget,
        **{"batch_size": arguments.batch_size, **row.options},
    ) as dataset:

        def one_pass() -> None:
            for _batch in dataset:
                pass

        for _ in range(_UNCOUNTED):
            one_pass()
        return turns.median([turns.cost(one_pass) for _ in range(_PASSES)])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", action="append", default=[], metavar="NAME=SRC")
    parser.add_argument("--row", choices=BY_NAME, default="stacks")
    parser.add_argument("--shuffle", action="store_true")
    parser.add_argument("--stack", type=int, default=0)
    parser.add_argument("--memory-budget", default="4GB")
    parser.add_argument("--batch-size", type=int, default=16_384)
    parser.add_argument("--directory", type=Path, default=_ROOT / "build" / "core-files")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(asdict(_passes(arguments))))
        return
    BY_NAME[arguments.row].source(arguments.directory)
    here = str(_ROOT / "src")
    builds = dict(pair.split("=", 1) for pair in arguments.build) or {"this": here, "again": here}
    found: dict[str, list[turns.Cost]] = {name: [] for name in builds}
    for _ in range(arguments.repeats):
        for name, source in builds.items():
            answer = subprocess.run(  # noqa: S603 - this program
                [sys.executable, __file__, "--child", *sys.argv[1:]],
                env={**os.environ, "PYTHONPATH": source},
                stdout=subprocess.PIPE,
                check=True,
            )
            found[name].append(turns.Cost(**json.loads(answer.stdout)))
    medians = {name: turns.median(costs) for name, costs in found.items()}
    order = "shuffled" if arguments.shuffle else "in order"
    turns.show(f"{arguments.row}, {order}, a pass", medians)


if __name__ == "__main__":
    main()
