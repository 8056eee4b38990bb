"""How long does a mix take to draw the source of each batch?

    python benchmarks/loops/mix_draws.py [--draws N] [--repeats N]

Printed are, for 3 and for 200 sources and each value of `stop`, the milliseconds for a million
draws.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from fastload.plan.mix.draws import Stock, draw_sources
from support import turns


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    for sources in (3, 200):
        weights = list(np.random.default_rng(1).random(sources) + 0.1)
        left = np.ceil(np.array(weights) / sum(weights) * arguments.draws).astype(np.int64)
        for stop in ("first", "all", "repeat"):
            work = partial(draw_sources, 1, weights, Stock(left, left, left), stop)
            made = len(work())
            cost = turns.in_turns({"": work}, arguments.repeats)[""]
            ms = cost.seconds / made * 1e9
            print(f"{sources:4} sources, stop={stop!r:9}{ms:8.0f} ms a million", flush=True)


if __name__ == "__main__":
    main()
