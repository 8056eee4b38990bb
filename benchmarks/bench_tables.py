"""One question: what does a table cost, against the same files as plain Parquet?

    python benchmarks/bench_tables.py [--rows N] [--files N] [--repeats N] [--planned-files N]

Rows of eight columns lie in files of a Delta table and in files of an Iceberg table. Each table
stands beside the list of its own files, since the two libraries write other files. Two more lines
are of the Iceberg table after position deletes and equality deletes of one row in ten each. A line
has the seconds to make a dataset (the best of the repeats, with nothing kept on disk and with what
the run before kept), the seconds of a later pass, the rows per second of the passes, and these as a
share of the rate of the plain files. Table and files take turns, in passes in order and shuffled.
The numbers of rows are compared before any timing.

The last lines are of tables with many small files: the seconds until fastload knows the files, with
their partitions and bounds, and the seconds of the library's own plan (deltalake's
`to_pyarrow_dataset`, pyiceberg's `plan_files`). Both begin with the log or the catalog.

Needs deltalake and pyiceberg[sql-sqlite].
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import deltalake
from support.passes import seconds_of_pass

from fastload import IO, Delta, FastParquetDataset, Iceberg
from fastload.source.stores.stores import Stores
from support.lakehouse import (
    commit_deletes,
    equality_deletes,
    iceberg_catalog,
    iceberg_data_files,
    position_deletes,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_BATCH_ROWS = 65_536
_PASSES = 10


def tables(rows: int, files: int) -> Iterator[pa.Table]:
    """Make the rows of each file: a number, a group of ten, and six floats."""
    rng = np.random.default_rng(1)
    for number in range(files):
        count = rows // files
        numbers = np.arange(number * count, (number + 1) * count)
        floats = {f"f{i}": rng.random(count, np.float32) for i in range(6)}
        yield pa.table({"number": numbers, "tenth": numbers % 10, **floats})


def dataset(source: Any, *, shuffle: bool = False) -> FastParquetDataset:
    """Make the dataset that is measured."""
    return FastParquetDataset(source, batch_size=_BATCH_ROWS, nulls="zero", shuffle=shuffle)


def start_s(source: Any, *, kept: bool) -> float:
    """Return the seconds to make a dataset."""
    with tempfile.TemporaryDirectory() as home:
        os.environ["FASTLOAD_CACHE_DIR"] = home
        if kept:
            dataset(source)
        began = time.perf_counter()
        dataset(source)
        return time.perf_counter() - began


def best_s(job: Callable[[], object], repeats: int) -> float:
    """Return the least seconds of a job."""
    best = math.inf
    for _ in range(repeats):
        began = time.perf_counter()
        job()
        best = min(best, time.perf_counter() - began)
    return best


def measure_plans(directory: Path, files: int, repeats: int) -> None:
    """Print the seconds of the plans of a Delta and of an Iceberg table over the same files."""
    table = pa.table({"number": np.arange(4 * files), "tenth": np.arange(4 * files) % 10})
    paths = [directory / "small" / f"{number:06}.parquet" for number in range(files)]
    paths[0].parent.mkdir()
    for number, path in enumerate(paths):
        pq.write_table(table.slice(4 * number, 4), path)
    small = str(paths[0].parent)
    deltalake.convert_to_deltalake(small)
    catalog = iceberg_catalog(directory / "plans")
    created = catalog.create_table("db.t", table.schema, properties={"format-version": "2"})
    created.add_files([f"file://{path}" for path in paths])
    stores = Stores(None, None, IO())
    plans: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
        "Delta": (
            lambda: Delta(small)._open(stores).files,  # noqa: SLF001
            lambda: deltalake.DeltaTable(small).to_pyarrow_dataset().files,
        ),
        "Iceberg": (
            lambda: Iceberg("db.t", catalog=catalog)._open(stores).files,  # noqa: SLF001
            lambda: list(catalog.load_table("db.t").scan().plan_files()),
        ),
    }
    for name, (own, library) in plans.items():
        if not len(own()) == len(library()) == files:
            raise SystemExit(f"Expected {files} files in each plan - at {name}")
        taken, needed = best_s(own, repeats), best_s(library, repeats)
        print(
            f"{name}, plan of {files} files: {taken:.3f} s, the library {needed:.3f} s, "
            f"ratio {taken / needed:.2f}",
            flush=True,
        )


def measure(sources: Mapping[str, tuple[Any, int]], repeats: int) -> None:
    """Print the lines of sources by name, with their rows; the first stands for the plain files."""
    for name, (source, rows) in sources.items():
        found = sum(batch.rows for batch in dataset(source))
        if found != rows:
            raise SystemExit(f"Expected {rows} rows, got {found} - at {name}")
    starts = {
        name: [min(start_s(source, kept=kept) for _ in range(repeats)) for kept in (False, True)]
        for name, (source, _rows) in sources.items()
    }
    for shuffle in (False, True):
        best: dict[str, float] = {}
        for _ in range(repeats):
            for name, (source, _rows) in sources.items():
                with dataset(source, shuffle=shuffle) as made:
                    seconds_of_pass(made, _PASSES)  # pages are kept after the first passes
                    best[name] = min(seconds_of_pass(made, _PASSES), best.get(name, math.inf))
        plain = 0.0
        for name, (_source, rows) in sources.items():
            cold, warm = starts[name]
            rate = rows / best[name]
            plain = plain or rate
            print(
                f"{name + (', shuffled' if shuffle else ''):38}  {cold:8.3f}  {warm:8.3f}  "
                f"{best[name]:8.4f}  {rate / 1e6:8.1f}  {rate / plain:5.2f}",
                flush=True,
            )


def main() -> None:
    """Write the tables and measure them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--files", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--planned-files", type=int, default=1000)
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
        heads = ("source", "start s", "again s", "pass s", "M rows/s", "share")
        print("{:38}  {:>8}  {:>8}  {:>8}  {:>8}  {:>5}".format(*heads))
        files = list(dataset(Delta(delta)).files)
        sources = {"files of Delta": (files, rows), "Delta": (Delta(delta), rows)}
        measure(sources, asked.repeats)
        iceberg = Iceberg("db.t", catalog=catalog)
        files = list(dataset(iceberg).files)
        plain = {"files of Iceberg": (files, rows)}
        measure({**plain, "Iceberg": (iceberg, rows)}, asked.repeats)
        paths = [entry.data_file.file_path for entry in iceberg_data_files(table)]
        count = rows // asked.files
        gone = [(path, at) for path in paths for at in range(count) if at % 10 == 3]
        commit_deletes(table, position_deletes(table, gone))
        left = rows - len(gone)
        measure({**plain, "Iceberg, position deletes": (iceberg, left)}, asked.repeats)
        first = table.snapshots()[-2].snapshot_id
        table.manage_snapshots().rollback_to_snapshot(first).commit()
        commit_deletes(table, equality_deletes(table, pa.table({"tenth": [3]})))
        left = rows - (rows + 6) // 10
        measure({**plain, "Iceberg, equality deletes": (iceberg, left)}, asked.repeats)
        measure_plans(Path(directory), asked.planned_files, asked.repeats)


if __name__ == "__main__":
    main()
