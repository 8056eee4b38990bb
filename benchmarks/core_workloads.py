"""Files that `bench_core.py` reads, each made once and kept.

    python benchmarks/core_workloads.py DIRECTORY [NAME ...]

writes the files that do not exist yet, and prints all paths. A file is named after its recipe, so
changed contents have a new name. Each file decodes to 200 to 600 MB; options that a recipe does not
name have pyarrow's defaults (snappy, dictionaries, pages of 1 MiB or 20,000 rows).

- click-log-none, -snappy, -zstd: label, 13 numbers and 26 categories, the sample of
  fastload-bench, in row groups of 2**18 rows
- click-log-groups-of-5000, click-log-one-group: the same rows, snappy
- lineitem: TPC-H, strings, decimals and dates
- tokens: list<int32>, 200 on average, geometric lengths, ids of a Zipf law
- embedding: fixed_size_list<float32, 128>; embedding-list: the same values as list<float32>
- wide: 1,000 float32 columns; wide-300: 300 float32 columns
- conditions: numbers beside a key, for filters
"""

from __future__ import annotations

import argparse
import functools
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import bench_filters
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fastload.runtime.disk.private_directory import publish
from fastload.tools.bench import sample
from support import lineitem

if TYPE_CHECKING:
    from collections.abc import Callable

_CLICK_LOG_ROW_GROUPS = 8
CLICK_LOG_ROWS = _CLICK_LOG_ROW_GROUPS * sample.ROW_GROUP_ROWS
_LINEITEM_ORDERS = 500_000  # at 4 lines each, 2 M rows: scale factor 1/3
_LINEITEM_PARTS = 66_667
_MEAN_TOKENS = 200


@functools.cache
def click_log() -> pa.Table:
    """Make the sample of fastload-bench, twice as long."""
    return pa.concat_tables(sample.row_group(index) for index in range(_CLICK_LOG_ROW_GROUPS))


def lines() -> pa.Table:
    """Make the lineitem table of TPC-H."""
    return lineitem.table(_LINEITEM_ORDERS, _LINEITEM_PARTS)


def tokens(rows: int = 400_000) -> pa.Table:
    """Make a column of token sequences of geometric lengths, with ids of a Zipf law."""
    rng = np.random.default_rng(2)
    lengths = rng.geometric(1 / _MEAN_TOKENS, rows)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    # Rank r of a Zipf law of exponent 1 is uniform in log r.
    ids = np.exp(rng.random(offsets[-1], np.float32) * np.log(50_257)).astype(np.int32)
    return pa.table({"tokens": pa.ListArray.from_arrays(pa.array(offsets), pa.array(ids))})


def embedding(rows: int = 600_000, size: int = 128) -> pa.Table:
    """Make a column of float32 vectors."""
    values = np.random.default_rng(1).standard_normal(rows * size, np.float32)
    return pa.table({"embedding": pa.FixedSizeListArray.from_arrays(pa.array(values), size)})


def embedding_list() -> pa.Table:
    """Make a column of the same vectors, as lists of variable length."""
    table = embedding()
    return table.cast(pa.schema([("embedding", pa.list_(pa.float32()))]))


def wide(rows: int = 100_000, columns: int = 1000) -> pa.Table:
    """Make many float32 columns."""
    rng = np.random.default_rng(3)
    return pa.table({f"f{i}": rng.standard_normal(rows, np.float32) for i in range(columns)})


def wide_300(rows: int = 1 << 18) -> pa.Table:
    """Make 300 float32 columns."""
    return wide(rows, 300)


@dataclass(frozen=True)
class Recipe:
    """The recipe of a file.

    Attributes:
        version: version of the recipe; part of the file's name.
        table: function that makes the rows.
        row_group_size: rows of a row group.
        options: options of pyarrow.parquet.write_table.
    """

    version: int
    table: Callable[[], pa.Table]
    row_group_size: int
    options: dict[str, Any] = field(default_factory=dict)


def _click_log_recipe(compression: str, row_group_size: int = sample.ROW_GROUP_ROWS) -> Recipe:
    options = {"compression": compression, "use_dictionary": sample.repeating_columns()}
    return Recipe(1, click_log, row_group_size, options)


_NO_DICTIONARY = {"use_dictionary": False}  # values that all differ
RECIPES = {
    "click-log-none": _click_log_recipe("none"),
    "click-log-snappy": _click_log_recipe("snappy"),
    "click-log-zstd": _click_log_recipe("zstd"),
    "click-log-groups-of-5000": _click_log_recipe("snappy", 5_000),
    "click-log-one-group": _click_log_recipe("snappy", CLICK_LOG_ROWS),
    # Decimals of up to 18 digits as integers, as DuckDB, Spark and arrow-rs write them.
    "lineitem": Recipe(1, lines, 1 << 18, {"store_decimal_as_integer": True}),
    "tokens": Recipe(1, tokens, 50_000),
    "embedding": Recipe(1, embedding, 50_000, _NO_DICTIONARY),
    "embedding-list": Recipe(1, embedding_list, 50_000, _NO_DICTIONARY),
    "wide": Recipe(1, wide, 25_000, _NO_DICTIONARY),
    "wide-300": Recipe(1, wide_300, 65_536, _NO_DICTIONARY),
    "conditions": Recipe(
        1, bench_filters.table, bench_filters.ROW_GROUP_ROWS, {"write_page_index": True}
    ),
}


def path(directory: Path, name: str) -> Path:
    """Return the named file; make a missing file, which appears complete or not at all."""
    recipe = RECIPES[name]
    file = directory / f"{name}-{recipe.version}.parquet"
    if file.exists():
        return file
    directory.mkdir(parents=True, exist_ok=True)
    with publish(file) as new:
        pq.write_table(recipe.table(), new, row_group_size=recipe.row_group_size, **recipe.options)
    return file


def main() -> None:
    """Write the files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(RECIPES)}; all if none is given")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(RECIPES)
    if unknown:
        parser.error(f"Expected names of {', '.join(RECIPES)}, got {', '.join(sorted(unknown))}")
    for name in arguments.names or RECIPES:
        file = path(arguments.directory, name)
        print(f"{file}  {file.stat().st_size >> 20} MB", flush=True)


if __name__ == "__main__":
    main()
