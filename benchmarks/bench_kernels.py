"""One question: what do kernels cost, and what the same code called from Python?

    python benchmarks/bench_kernels.py [FILE] [--repeats N] [--batch-size N]

FILE is a click log (`label`, `numeric_01` to `numeric_13` float32, `category_01` to `category_26`
int64), as make bench-core writes; without FILE, a click log of 2**20 rows is made. All 40 columns
are read, and three elementwise steps are added: a ratio and a product of two columns, and a column
scaled in place; then also log1p of a column, which costs more than copying the column. The output
has the seconds of a pass for ways that take turns: without steps, with kernels, with the same
functions compiled by numba and called from Python, and with numpy; in order and shuffled; for a
consumer that takes batches as fast as they come. A figure is of a dataset's second to fourth pass.
Every way's batches are compared before any timing.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numba
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from support.fractions_of_roof import seconds_of_pass

from fastload import FastParquetDataset, kernel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    Floats = NDArray[np.float32]
    Block = dict[str, Any]

_ROWS = 1 << 20
_PASSES = 3


def ratio(x: Floats, y: Floats, out: Floats) -> None:
    """Divide two columns."""
    for i in range(len(out)):
        out[i] = x[i] / (y[i] + np.float32(1))


def product(x: Floats, y: Floats, out: Floats) -> None:
    """Multiply two columns."""
    for i in range(len(out)):
        out[i] = x[i] * y[i]


def scale(x: Floats, out: Floats) -> None:
    """Scale a column to about [-1, 1]."""
    for i in range(len(out)):
        out[i] = (x[i] - np.float32(0.5)) * np.float32(2)


def log(x: Floats, out: Floats) -> None:
    """Compute log1p of a column."""
    for i in range(len(out)):
        out[i] = np.log1p(x[i])


KERNELS = [
    kernel(("numeric_01", "numeric_05"), {"ratio": "float32"})(ratio),
    kernel(("numeric_02", "numeric_03"), {"product": "float32"})(product),
    kernel("numeric_04", {"numeric_04": "float32"})(scale),
]
LOG = kernel("numeric_06", {"log": "float32"})(log)
_RATIO, _PRODUCT, _SCALE, _LOG = (
    numba.njit(fn, nogil=True, error_model="numpy") for fn in (ratio, product, scale, log)
)


def called_ratio(block: Block) -> Mapping[str, Any]:
    """Call `ratio` from Python."""
    x, y = block["numeric_01"], block["numeric_05"]
    out = np.empty_like(x)
    _RATIO(x, y, out)
    return {"ratio": out}


def called_product(block: Block) -> Mapping[str, Any]:
    """Call `product` from Python."""
    x, y = block["numeric_02"], block["numeric_03"]
    out = np.empty_like(x)
    _PRODUCT(x, y, out)
    return {"product": out}


def called_scale(block: Block) -> Mapping[str, Any]:
    """Call `scale` from Python."""
    x = block["numeric_04"]
    out = np.empty_like(x)
    _SCALE(x, out)
    return {"numeric_04": out}


def called_log(block: Block) -> Mapping[str, Any]:
    """Call `log` from Python."""
    x = block["numeric_06"]
    out = np.empty_like(x)
    _LOG(x, out)
    return {"log": out}


def numpy_ratio(block: Block) -> Mapping[str, Any]:
    """Compute `ratio` with numpy."""
    x, y = block["numeric_01"], block["numeric_05"]
    return {"ratio": x / (y + np.float32(1))}


def numpy_product(block: Block) -> Mapping[str, Any]:
    """Compute `product` with numpy."""
    return {"product": block["numeric_02"] * block["numeric_03"]}


def numpy_scale(block: Block) -> Mapping[str, Any]:
    """Compute `scale` with numpy."""
    return {"numeric_04": (block["numeric_04"] - np.float32(0.5)) * np.float32(2)}


def numpy_log(block: Block) -> Mapping[str, Any]:
    """Compute `log` with numpy."""
    return {"log": np.log1p(block["numeric_06"])}


_CALLED = [called_ratio, called_product, called_scale]
_NUMPY = [numpy_ratio, numpy_product, numpy_scale]
WAYS: Mapping[str, list[Any]] = {
    "no steps": [],
    "kernels": KERNELS,
    "numba, called from Python": _CALLED,
    "numpy": _NUMPY,
    "kernels, log1p too": [*KERNELS, LOG],
    "numba, log1p too": [*_CALLED, called_log],
    "numpy, log1p too": [*_NUMPY, numpy_log],
}
_MOST = "kernels, log1p too"
ORDERS: Mapping[str, bool] = {"in order": False, "shuffled": True}


def write_click_log(path: Path) -> None:
    """Write columns like those of the click log that make bench-core writes."""
    rng = np.random.default_rng(1)
    columns: dict[str, Any] = {"label": rng.integers(0, 2, _ROWS, np.int32)}
    for number in range(1, 14):
        columns[f"numeric_{number:02}"] = rng.random(_ROWS, np.float32)
    for number in range(1, 27):
        columns[f"category_{number:02}"] = rng.zipf(1.3, _ROWS) % 100_000
    pq.write_table(pa.table(columns), path, row_group_size=_ROWS // 4)


def dataset_of(path: Path, name: str, batch_size: int, *, shuffled: bool) -> FastParquetDataset:
    """Open a dataset of one way."""
    return FastParquetDataset(
        path, preprocess=WAYS[name] or None, batch_size=batch_size, shuffle=shuffled
    )


def check(path: Path, batch_size: int) -> None:
    """Raise an AssertionError unless every way delivers the same."""
    for name in [name for name in WAYS if WAYS[name] and name != _MOST]:
        with (
            dataset_of(path, _MOST, batch_size, shuffled=True) as most,
            dataset_of(path, name, batch_size, shuffled=True) as dataset,
        ):
            for expected, batch in zip(most, dataset, strict=True):
                for column in batch:
                    # numpy's log1p of float32 may differ from the C library's in the last bit.
                    torch.testing.assert_close(
                        batch[column], expected[column], rtol=1e-6, atol=0, equal_nan=True
                    )


def medians(path: Path, batch_size: int, repeats: int, *, shuffled: bool) -> dict[str, list[float]]:
    """Return the median and the least seconds of a pass for each way."""
    seconds: dict[str, list[float]] = {name: [] for name in WAYS}
    for _ in range(repeats):
        for name, of_way in seconds.items():
            with dataset_of(path, name, batch_size, shuffled=shuffled) as dataset:
                seconds_of_pass(dataset)
                of_way.append(seconds_of_pass(dataset, _PASSES))
    return {name: [statistics.median(values), min(values)] for name, values in seconds.items()}


def main() -> None:
    """Read the arguments, measure, and print the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path, nargs="?")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--batch-size", type=int, default=8192)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        path = arguments.file or Path(directory) / "click-log.parquet"
        if arguments.file is None:
            write_click_log(path)
        check(path, arguments.batch_size)
        for order, shuffled in ORDERS.items():
            print(f"{order}: seconds of a pass, median and least, and times those of no steps")
            found = medians(path, arguments.batch_size, arguments.repeats, shuffled=shuffled)
            for name, (middle, least) in found.items():
                of_none = [middle / found["no steps"][0], least / found["no steps"][1]]
                print(f"  {name:28} {middle:.3f} {least:.3f}  {of_none[0]:.2f} {of_none[1]:.2f}")


if __name__ == "__main__":
    main()
