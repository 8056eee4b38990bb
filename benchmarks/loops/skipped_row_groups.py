"""What does a corrupt row group cost with on_error="skip"?

    python benchmarks/loops/skipped_row_groups.py [--groups N] [--corrupt N]

A file of small row groups (2,000 rows of 4 int64 columns, Snappy), of which some, evenly spread,
are damaged. Printed are the seconds of a pass over the intact and over the damaged file, in order
and shuffled, and the milliseconds that each corrupt row group adds.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from fastload import FastParquetDataset
from support import turns

_GROUP_ROWS = 2000
_NO_HEADER = b"\xff" * 16  # no reader takes these bytes for the header of a page


def _pass(path: Path, rows: int, *, shuffle: bool) -> None:
    with FastParquetDataset(
        path, batch_size=1000, shuffle=shuffle, threads=2, on_error="skip"
    ) as dataset:
        got = sum(batch.rows for batch in dataset)
    if got != rows:
        raise SystemExit(f"Expected {rows} rows, got {got}")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--groups", type=int, default=200)
    parser.add_argument("--corrupt", type=int, default=60)
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore", "Row group .* is left out")
    rng = np.random.default_rng(1)
    rows = arguments.groups * _GROUP_ROWS
    table = pa.table({f"i{i}": rng.integers(0, 2**40, rows) for i in range(4)})
    with tempfile.TemporaryDirectory() as directory:
        intact, damaged = (Path(directory, f"{name}.parquet") for name in ("intact", "damaged"))
        for path in (intact, damaged):
            pq.write_table(table, path, row_group_size=_GROUP_ROWS, use_dictionary=False)
        metadata = pq.read_metadata(damaged)
        with damaged.open("r+b") as file:
            for group in np.linspace(0, arguments.groups - 1, arguments.corrupt).astype(int):
                file.seek(metadata.row_group(group).column(1).data_page_offset)
                file.write(_NO_HEADER)
        for shuffle in (False, True):
            whole, skipping = (
                turns.cost(partial(_pass, path, rows, shuffle=shuffle)).seconds
                for path in (intact, damaged)
            )
            each_ms = (skipping - whole) / arguments.corrupt * 1e3
            print(
                f"{'shuffled' if shuffle else 'in order'}: {whole:.2f} s intact, "
                f"{skipping:.2f} s damaged, {each_ms:.1f} ms a corrupt row group",
                flush=True,
            )


if __name__ == "__main__":
    main()
