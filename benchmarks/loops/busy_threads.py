"""How many of the core's tasks run at the same time?

    python benchmarks/loops/busy_threads.py [--threads N] [--passes N]

The click log of `bench_core.py`, 2 M rows in row groups of 2**18: as two stacks, as three columns,
as all 40 columns; in order and shuffled. Printed are, from the spans of `dataset.trace()`, the
mean and the largest number of tasks that run at the same time, while any runs. Where --threads is
more than there are cores, tasks also wait for a core.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from support.core_rows import BY_NAME

from fastload import FastParquetDataset

if TYPE_CHECKING:
    from fastload.dataset.trace import Trace

_ROOT = Path(__file__).resolve().parents[2]
_TASKS = {"prepare", "stage", "count", "fill", "merge", "kernels"}


def at_once(trace: Trace) -> tuple[float, int]:
    """Return the mean and the largest number of tasks that run at the same time."""
    spans = [span for span in trace.spans if span.stage in _TASKS]
    edges = sorted([(s.start_ns, 1) for s in spans] + [(s.end_ns, -1) for s in spans])
    running = most = busy_ns = task_ns = before_ns = 0
    for now_ns, change in edges:
        task_ns += running * (now_ns - before_ns)
        busy_ns += (now_ns - before_ns) if running else 0
        running += change
        most = max(most, running)
        before_ns = now_ns
    return task_ns / busy_ns, most


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=16)
    parser.add_argument("--passes", type=int, default=4)
    parser.add_argument("--directory", type=Path, default=_ROOT / "build" / "core-files")
    arguments = parser.parse_args()
    print(f"{arguments.threads} threads{'':22}{'mean':>6}{'most':>6}")
    for name in ("stacks", "three-columns", "click-log-snappy"):
        row = BY_NAME[name]
        for shuffle in (False, True):
            with (
                FastParquetDataset(
                    row.source(arguments.directory),
                    columns=row.columns,
                    batch_size=16_384,
                    shuffle=shuffle,
                    threads=arguments.threads,
                ) as dataset,
                dataset.trace() as trace,
            ):
                for _ in range(arguments.passes):
                    for _batch in dataset:
                        pass
            mean, most = at_once(trace)
            print(
                f"{name:20}{'shuffled' if shuffle else 'in order':12}{mean:6.1f}{most:6}",
                flush=True,
            )


if __name__ == "__main__":
    main()
