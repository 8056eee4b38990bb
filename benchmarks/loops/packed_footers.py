"""What does a row group cost whose file's footer is packed?

    python benchmarks/loops/packed_footers.py [--files N] [--columns N]

Files of 100 and 400 row groups (200 rows of int32 columns). fastload reads one column, in
order and shuffled, once with all footers held parsed and once with all footers packed. Printed is
the CPU time of a later pass in microseconds for each row group.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import fastload.source.footers
from fastload import FastParquetDataset

_GROUP_ROWS = 200


def write(directory: Path, files: int, groups: int, columns: int) -> None:
    """Write equal files."""
    numbers = np.arange(groups * _GROUP_ROWS, dtype=np.int32)
    table = pa.table({f"c{i}": numbers for i in range(columns)})
    pq.write_table(table, directory / "0.parquet", row_group_size=_GROUP_ROWS)
    for number in range(1, files):
        shutil.copy(directory / "0.parquet", directory / f"{number}.parquet")


def microseconds(source: Path, groups: int, *, shuffle: bool, parsed_bytes: int) -> float:
    """Return the microseconds of CPU for each row group of a pass, after one pass."""
    # No argument sets this limit, and files enough to exceed the limit take long to write.
    fastload.source.footers._PARSED_BYTES = parsed_bytes  # noqa: SLF001
    with FastParquetDataset(
        source, columns=["c0"], batch_size=4096, shuffle=shuffle, memory_budget="64MB", threads=2
    ) as dataset:
        rows = sum(batch.rows for batch in dataset)
        start = time.process_time()
        rows += sum(batch.rows for batch in dataset)
        seconds = time.process_time() - start
    if rows != 2 * groups * _GROUP_ROWS:
        raise SystemExit(f"Expected {2 * groups * _GROUP_ROWS} rows, got {rows}")
    return seconds / groups * 1e6


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=40)
    parser.add_argument("--columns", type=int, default=20)
    arguments = parser.parse_args()
    print("us of CPU a row group: in order, parsed and packed; shuffled, parsed and packed")
    with tempfile.TemporaryDirectory() as home:
        os.environ["FASTLOAD_CACHE_DIR"] = str(Path(home, "cache"))
        for groups in (100, 400):
            source = Path(home, str(groups))
            source.mkdir()
            write(source, arguments.files, groups, arguments.columns)
            every = arguments.files * groups
            took = [
                microseconds(source, every, shuffle=shuffle, parsed_bytes=parsed_bytes)
                for shuffle in (False, True)
                for parsed_bytes in (1 << 40, 0)
            ]
            print(f"{groups} row groups a file: {', '.join(f'{us:.0f}' for us in took)}")


if __name__ == "__main__":
    main()
