"""Count the files of fastload that run on the way to a footer, and to the first batch.

    python benchmarks/loops/files_on_the_way.py

The ways are from a path, and from a URL, to the `Source` with the footers of its files, and from
`iter(dataset)` to the first batch. The first pass makes the engine, and the last pass was prepared
while the pass before ended; the dataset is local and has no filters, steps or cache. For each way,
a line names each file and the functions of the file in the order of their first calls; the last
line is the number of files.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

import fastload
from fastload.source.source import Source
from fastload.source.stores.stores import Stores
from support.stores import GcsServer

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

LIBRARY = Path(fastload.__file__).parent


def main() -> None:
    """Print the files on each way, and their number."""
    with tempfile.TemporaryDirectory() as directory:
        os.environ["FASTLOAD_CACHE_DIR"] = str(Path(directory) / "cache")
        path = Path(directory) / "rows.parquet"
        pq.write_table(pa.table({"x": range(200_000)}), path)
        for name, called in ways(path).items():
            for file, functions in called.items():
                print(f"{file}: {', '.join(functions)}")
            print(f"{name}: {len(called)} files\n")


def ways(path: Path) -> dict[str, dict[str, list[str]]]:
    """Return the functions that run on each way, by file."""
    found = {"footer of a path": calls_of(lambda: Source.open(path))}
    with GcsServer() as server:
        server.put("bucket", "rows.parquet", path.read_bytes())
        stores = Stores(None, server.options, fastload.IO())
        url = "gs://bucket/rows.parquet"
        found["footer of a URL"] = calls_of(lambda: Source.open(url, stores))
        stores.close()
    with fastload.FastParquetDataset(
        path, shuffle=True, shuffle_window=10_000, threads=2
    ) as dataset:
        found["batch of a first pass"] = calls_of(lambda: next(iter(dataset)))
        for _ in range(2):
            for _batch in dataset:
                pass
        found["batch of a prepared pass"] = calls_of(lambda: next(iter(dataset)))
    return found


def calls_of(job: Callable[[], object]) -> dict[str, list[str]]:
    """Return the functions of the library that a job runs, on all threads, by file."""
    called: dict[str, dict[str, None]] = {}

    def note(frame: FrameType, event: str, _argument: Any) -> None:
        file = Path(frame.f_code.co_filename)
        if event == "call" and file.is_relative_to(LIBRARY):
            name = str(file.relative_to(LIBRARY))
            called.setdefault(name, {}).setdefault(frame.f_code.co_name, None)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        job()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return {file: list(functions) for file, functions in called.items()}


if __name__ == "__main__":
    main()
