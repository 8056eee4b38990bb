"""Sample of fastload-bench: a click log of 40 columns, made once and kept."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fastload.runtime.disk.private_directory import cache_home, publish

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

# Change this name with every change below that changes the sample.
RECIPE = "click-log-2"
ROW_GROUP_ROWS = 1 << 18
ROW_GROUPS = 4
NUMERIC = 13
CATEGORICAL = 26

# Distinct values of the categorical columns: from a flag to user ids, evenly in the logarithm.
_CARDINALITIES = np.geomspace(3, 1_000_000, CATEGORICAL).astype(np.int64)
_CLICK_RATE = 0.26
_METADATA_KEY = b"fastload.sample"


def schema() -> pa.Schema:
    """Return the schema: label int32, numeric_01.. float32, category_01.. int64, without nulls."""
    fields = [pa.field("label", pa.int32(), nullable=False)]
    fields += [pa.field(f"numeric_{j:02}", pa.float32(), False) for j in range(1, NUMERIC + 1)]
    fields += [pa.field(f"category_{j:02}", pa.int64(), False) for j in range(1, CATEGORICAL + 1)]
    return pa.schema(fields, metadata={_METADATA_KEY: RECIPE.encode()})


def row_group(index: int, rows: int = ROW_GROUP_ROWS) -> pa.Table:
    """Return the row group with this index; the values are the same on every machine."""
    uniform = np.random.Generator(np.random.Philox(key=[index, 0xC11C])).random
    arrays: list[npt.NDArray[np.generic]] = [(uniform(rows) < _CLICK_RATE).astype(np.int32)]
    arrays += [_numeric(j, uniform, rows).astype(np.float32) for j in range(NUMERIC)]
    for j, cardinality in enumerate(_CARDINALITIES):
        # Rank r of a Zipf law of exponent 1 is uniform in log r.
        ranks = np.exp(uniform(rows) * np.log(cardinality + 1)).astype(np.uint64) - np.uint64(1)
        arrays.append(_hashed_id(ranks, j))
    return pa.table([pa.array(array) for array in arrays], schema=schema())


def make(path: Path, row_groups: int = ROW_GROUPS, rows: int = ROW_GROUP_ROWS) -> None:
    """Write the sample to `path`, which appears complete or not at all."""
    options: dict[str, Any] = {"compression": "snappy", "use_dictionary": repeating_columns()}
    with publish(path) as file, pq.ParquetWriter(file, schema(), **options) as writer:
        for index in range(row_groups):
            writer.write_table(row_group(index, rows), row_group_size=rows)


def is_intact(path: Path, row_groups: int = ROW_GROUPS, rows: int = ROW_GROUP_ROWS) -> bool:
    """Return whether `path` is a finished sample of this recipe."""
    try:
        metadata = pq.read_metadata(path)
    except (OSError, pa.ArrowInvalid):
        return False
    recipe = (metadata.metadata or {}).get(_METADATA_KEY)
    return recipe == RECIPE.encode() and metadata.num_rows == row_groups * rows


def sample() -> Path:
    """Return the path of the sample; make the sample first if it does not exist.

    The directory is $FASTLOAD_CACHE_DIR, else the user's cache directory; or the system's temporary
    directory, if the sample can't be written there.
    """
    temporary = Path(tempfile.gettempdir()) / f"fastload-bench-{os.getuid()}"
    cache = cache_home()
    try:
        return _made_in(cache / "bench" if cache else temporary)
    except OSError:
        return _made_in(temporary)


def _made_in(directory: Path) -> Path:
    path = directory / f"{RECIPE}.parquet"
    if not is_intact(path):
        directory.mkdir(parents=True, exist_ok=True)
        make(path)
    return path


def repeating_columns() -> list[str]:
    """Return the names of the columns whose values repeat, so that a dictionary helps."""
    numeric = [f"numeric_{j + 1:02}" for j in range(NUMERIC) if _is_amount(j)]
    return [name for name in schema().names if name not in numeric]


def _numeric(
    column: int, uniform: Callable[[int], npt.NDArray[np.float64]], rows: int
) -> npt.NDArray[np.float64]:
    """Draw the values of a numeric column: few counts, heavy-tailed counts or amounts, in turn."""
    draws = uniform(rows)
    survival = np.maximum(1 - draws, 1e-12)
    if _is_amount(column):
        # Log-logistic.
        odds = np.maximum(draws, 1e-12) / survival
        return np.asarray(odds**0.4 * (1 + column), np.float64)
    if column % 3 == 1:
        # Pareto: seconds since the last visit, whole; a long tail.
        return np.asarray(np.floor(10 * survival ** (-1 / 1.2)) - 10, np.float64)
    # Geometric: how often a user was seen. Few distinct values.
    return np.asarray(np.floor(-np.log(survival) * (2 + column)), np.float64)


def _is_amount(numeric: int) -> bool:
    """Return True if the values of the numeric column all differ, as prices or scores do."""
    return numeric % 3 == 2


def _hashed_id(ranks: npt.NDArray[np.uint64], column: int) -> npt.NDArray[np.int64]:
    """Hash rank and column with splitmix64 (Steele, Lea, Flood 2014): ids without any order."""
    z = ranks + np.uint64((column + 1) * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (z ^ (z >> np.uint64(31))).view(np.int64)
