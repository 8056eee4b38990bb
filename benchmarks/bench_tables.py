"""One question: what does a table cost, against the same files as plain Parquet?

    python benchmarks/bench_tables.py [--rows N] [--files N] [--repeats N]

Rows of eight columns lie in files of a Delta table, in files of an Iceberg table, and, as the list
of the Delta table's files, in plain files. A line has the seconds to make a dataset (the best of
the repeats, with nothing kept on disk and with what the run before kept) and the seconds of one
pass. Two more lines are of the Iceberg table after position deletes and equality deletes of one row
in ten each. The numbers of rows are compared before any timing.

Needs deltalake and pyiceberg[sql-sqlite].
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import deltalake

from fastload import Delta, FastParquetDataset, Iceberg
from support.lakehouse import (
    commit_deletes,
    equality_deletes,
    iceberg_catalog,
    iceberg_data_files,
    position_deletes,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_BATCH_ROWS = 65_536


def tables(rows: int, files: int) -> Iterator[pa.Table]:
    """Make the rows of each file: a number, a group of ten, and six floats."""
    rng = np.random.default_rng(1)
    for number in range(files):
        count = rows // files
        numbers = np.arange(number * count, (number + 1) * count)
        floats = {f"f{i}": rng.random(count, np.float32) for i in range(6)}
        yield pa.table({"number": numbers, "tenth": numbers % 10, **floats})


def dataset(source: Any) -> FastParquetDataset:
    """Make the dataset that is measured."""
    return FastParquetDataset(source, batch_size=_BATCH_ROWS, nulls="zero")


def best(repeats: int, work: Callable[[], float]) -> float:
    """Return the least result of some calls."""
    return min(work() for _ in range(repeats))


def start_s(source: Any, *, kept: bool) -> float:
    """Return the seconds to make a dataset."""
    with tempfile.TemporaryDirectory() as home:
        os.environ["FASTLOAD_CACHE_DIR"] = home
        if kept:
            dataset(source)
        began = time.perf_counter()
        dataset(source)
        return time.perf_counter() - began


def pass_s(source: Any) -> float:
    """Return the seconds of one pass, after a first one."""
    with dataset(source) as made:
        for _ in made:
            pass
        began = time.perf_counter()
        for _ in made:
            pass
        return time.perf_counter() - began


def measure(name: str, source: Any, rows: int, repeats: int) -> None:
    """Print the line of a source, after a check of the number of its rows."""
    found = sum(batch.rows for batch in dataset(source))
    if found != rows:
        raise SystemExit(f"Expected {rows} rows, got {found} - at {name}")
    cold = best(repeats, lambda: start_s(source, kept=False))
    warm = best(repeats, lambda: start_s(source, kept=True))
    whole = best(repeats, lambda: pass_s(source))
    print(f"{name:32}  {cold:8.3f}  {warm:8.3f}  {whole:8.3f}  {rows / whole / 1e6:8.2f}")


def main() -> None:
    """Write the tables and measure them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--files", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=5)
    asked = parser.parse_args()
    rows = asked.rows // asked.files * asked.files
    with tempfile.TemporaryDirectory() as directory:
        delta = Path(directory, "delta")
        catalog = iceberg_catalog(Path(directory, "iceberg"))
        table = None
        for each in tables(asked.rows, asked.files):
            deltalake.write_deltalake(delta, each, mode="append")
            if table is None:
                properties = {"format-version": "2"}
                table = catalog.create_table("db.t", each.schema, properties=properties)
            table.append(each)
        assert table is not None
        heads = ("source", "start s", "again s", "pass s", "M rows/s")
        print("{:32}  {:>8}  {:>8}  {:>8}  {:>8}".format(*heads))
        plain = list(dataset(Delta(delta)).files)
        measure("plain files", plain, rows, asked.repeats)
        measure("Delta", Delta(delta), rows, asked.repeats)
        iceberg = Iceberg("db.t", catalog=catalog)
        measure("Iceberg", iceberg, rows, asked.repeats)
        paths = [entry.data_file.file_path for entry in iceberg_data_files(table)]
        count = rows // asked.files
        gone = [(path, at) for path in paths for at in range(count) if at % 10 == 3]
        commit_deletes(table, position_deletes(table, gone))
        left = rows - len(gone)
        measure("Iceberg, position deletes", iceberg, left, asked.repeats)
        first = table.snapshots()[-2].snapshot_id
        table.manage_snapshots().rollback_to_snapshot(first).commit()
        commit_deletes(table, equality_deletes(table, pa.table({"tenth": [3]})))
        left = rows - (rows + 6) // 10
        measure("Iceberg, equality deletes", iceberg, left, asked.repeats)


if __name__ == "__main__":
    main()
