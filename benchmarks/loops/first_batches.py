"""What do pages that are kept in memory cost the first batch?

    python benchmarks/loops/first_batches.py [ROW ...] [--datasets N]

Rows of `bench_core.py`, in order, with two threads. Datasets that keep decompressed pages and
datasets that keep none take turns. Printed are milliseconds from `iter()` to the first batch of a
new dataset whose engine is there, the median and the least, and the median for the engine.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from support.core_sections import Setting
from support.fractions_of_roof import keep_no_pages

_FILES = Path(__file__).resolve().parents[2] / "build" / "core-files"
_ROWS = ("click-log-snappy", "one-group", "lineitem", "wide")


def main() -> None:
    """Print a line for each row."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", nargs="*", default=_ROWS)
    parser.add_argument("--datasets", type=int, default=15)
    arguments = parser.parse_args()
    setting = Setting(_FILES, 2, arguments.datasets, 16384, ())
    print(f"{'':18}{'engine':>9}{'kept':>9}{'least':>9}{'none kept':>11}{'least':>9}")
    for row in setting.rows(*arguments.rows):
        engine = []
        seconds: dict[bool, list[float]] = {True: [], False: []}
        for turn in range(2 * arguments.datasets):
            keeps = turn % 2 == 0
            with setting.open(row) as dataset:
                start = time.perf_counter()
                dataset._engines.of_process(1)  # noqa: SLF001
                engine.append(time.perf_counter() - start)
                if not keeps:
                    keep_no_pages(dataset)
                start = time.perf_counter()
                next(iter(dataset))
                seconds[keeps].append(time.perf_counter() - start)
        figures = [statistics.median(engine)]
        for of_way in seconds.values():
            figures += [statistics.median(of_way), min(of_way)]
        widths = (9, 9, 9, 11, 9)
        texts = (f"{1e3 * f:{w}.2f}" for f, w in zip(figures, widths, strict=True))
        print(f"{row.name:18}{''.join(texts)}", flush=True)


if __name__ == "__main__":
    main()
