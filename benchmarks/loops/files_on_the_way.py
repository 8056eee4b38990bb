"""Count the files of fastload that run between `iter(dataset)` and the first batch.

The dataset is local and has no filters, steps or cache. Each line of the output names a file, and
the functions of the file in the order of their first calls; the last line is the number of files.

    python benchmarks/loops/files_on_the_way.py
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

import fastload

if TYPE_CHECKING:
    from types import FrameType

LIBRARY = Path(fastload.__file__).parent


def main() -> None:
    """Print the files on the way to the first batch, and their number."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "rows.parquet"
        pq.write_table(pa.table({"x": range(10_000)}), path)
        with fastload.FastParquetDataset(path, shuffle=True, threads=2) as dataset:
            called = calls_of_first_batch(dataset)
    for file, functions in called.items():
        print(f"{file}: {', '.join(functions)}")
    print(f"{len(called)} files")


def calls_of_first_batch(dataset: fastload.FastParquetDataset) -> dict[str, list[str]]:
    """Return the functions of the library that run until the first batch, by file."""
    called: dict[str, dict[str, None]] = {}

    def note(frame: FrameType, event: str, _argument: Any) -> None:
        file = Path(frame.f_code.co_filename)
        if event == "call" and file.is_relative_to(LIBRARY):
            name = str(file.relative_to(LIBRARY))
            called.setdefault(name, {}).setdefault(frame.f_code.co_name, None)

    sys.setprofile(note)
    try:
        next(iter(dataset))
    finally:
        sys.setprofile(None)
    return {file: list(functions) for file, functions in called.items()}


if __name__ == "__main__":
    main()
