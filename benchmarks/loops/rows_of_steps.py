"""How long does `rows_of` take to find the rows of a step, without data?

    python benchmarks/loops/rows_of_steps.py [--row-groups N] [--ranks R]

Printed are, in order and shuffled, the seconds for all ranks of one step, and for 100 steps.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from fastload import IO
from fastload.dataset.step_rows import step_rows
from fastload.plan.options import Options
from fastload.plan.position import Position
from fastload.plan.steps import step_of_leg
from fastload.plan.units.canonical import row_units
from fastload.rows.selection import EpochRows
from fastload.runtime.native import core
from fastload.source.source import Source
from fastload.source.stores.stores import Stores

_ROW_GROUPS_OF_A_FILE = 1000


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--row-groups", type=int, default=10_000_000)
    parser.add_argument("--ranks", type=int, default=8)
    arguments = parser.parse_args()
    number = np.arange(arguments.row_groups)
    rows = np.random.default_rng(1).integers(1, 10_000, arguments.row_groups)
    file, index = np.divmod(number, _ROW_GROUPS_OF_A_FILE)
    source = Source((), rows, file, index, Stores(None, None, IO()))
    kept = EpochRows(source, None, None)
    at = Position(0, 0, ())
    core.permutation(1, 0)  # loads the core
    for shuffle in (False, True):
        options = Options(batch_size=1024, shuffle=shuffle)
        for count in (1, 100):
            began = time.perf_counter()
            steps = [step_of_leg((), arguments.ranks, 0, 1000 + step) for step in range(count)]
            units = row_units(kept.row_groups, options, core.permutation)
            shares = list(units.step_shares(at, steps, None))
            found, _ = step_rows(shares, at, [(source, kept, units)])
            seconds = time.perf_counter() - began
            order = "shuffled" if shuffle else "in order"
            print(f"{order}, {count:3} steps, {len(found['row']):,} rows: {seconds:.3f} s")


if __name__ == "__main__":
    main()
