"""One question: what do the threads of `per_block` give?

    python benchmarks/bench_per_block.py [--rows N] [--repeats N]

The step computes a polynomial of degree 200 of two columns of float64, in batches of 65,536 rows:
with a function that numba compiled with nogil=True, then with numpy. The output has medians of the
seconds of a dataset's second pass, for ways that take turns: for a consumer that takes batches as
fast as they come, and for a consumer that sleeps for as long as the step takes, like a consumer
that waits for a device. The batches of every way are checked before any timing.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numba
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from support.step_passes import medians, show

from fastload import FastParquetDataset, per_block

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    Doubles = NDArray[np.float64]

_BATCH_ROWS = 1 << 16
_DEGREE = 200


@numba.njit(nogil=True)
def polynomial(x: Doubles) -> Doubles:
    """Compute the polynomial by Horner's rule, in one loop."""
    out = np.empty_like(x)
    for i in range(len(x)):
        value = x[i]
        for k in range(_DEGREE):
            value = value * x[i] + 1 / (k + 1)
        out[i] = value
    return out


def by_numba(block: dict[str, Any]) -> Mapping[str, Doubles]:
    """Compute the polynomial of both columns with numba."""
    return {name: polynomial(block[name]) for name in ("x", "y")}


def by_numpy(block: dict[str, Any]) -> Mapping[str, Doubles]:
    """Compute the polynomial of both columns with numpy."""
    found = {}
    for name in ("x", "y"):
        found[name] = block[name].copy()
        for k in range(_DEGREE):
            found[name] *= block[name]
            found[name] += 1 / (k + 1)
    return found


STEPS: Mapping[str, Any] = {
    "no steps": None,
    "numba": by_numba,
    "numba, threads=1": per_block(by_numba, threads=1),
    "numba, threads=2": per_block(by_numba, threads=2),
    "numpy": by_numpy,
    "numpy, threads=1": per_block(by_numpy, threads=1),
    "numpy, threads=2": per_block(by_numpy, threads=2),
}
WAYS: Mapping[str, Mapping[str, Any]] = {
    name: {"batch_size": _BATCH_ROWS, "preprocess": step} for name, step in STEPS.items()
}


def check(path: Path) -> None:
    """Raise an AssertionError unless every way delivers the same."""
    for step in list(STEPS.values())[2:]:
        with (
            FastParquetDataset(path, batch_size=_BATCH_ROWS, preprocess=by_numba) as one,
            FastParquetDataset(path, batch_size=_BATCH_ROWS, preprocess=step) as other,
        ):
            for expected, batch in zip(one, other, strict=True):
                for name in batch:
                    torch.testing.assert_close(batch[name], expected[name], rtol=1e-12, atol=0)


def main() -> None:
    """Read the arguments, measure, and print the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=32 * _BATCH_ROWS)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    rng = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "a.parquet"
        columns = {name: rng.random(arguments.rows) for name in ("x", "y")}
        pq.write_table(pa.table(columns), path, row_group_size=arguments.rows // 4)
        check(path)
        at_once = medians(path, WAYS, 0, arguments.repeats)
        show("seconds of a pass", at_once, "{:.3f}".format)
        away_s = (at_once["numba"] - at_once["no steps"]) / (arguments.rows / _BATCH_ROWS)
        title = f"seconds of a pass whose consumer sleeps for {1e3 * away_s:.1f} ms a batch"
        show(title, medians(path, WAYS, away_s, arguments.repeats), "{:.3f}".format)


if __name__ == "__main__":
    main()
