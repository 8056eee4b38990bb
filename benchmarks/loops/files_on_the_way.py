"""Count the files of fastload that run between `iter(dataset)` and the first batch.

The dataset is local and has no filters, steps or cache. The first pass makes the engine, and the
last pass was prepared while the pass before ended. For each of the two, a line names each file and
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
        pq.write_table(pa.table({"x": range(200_000)}), path)
        with fastload.FastParquetDataset(
            path, shuffle=True, shuffle_window=10_000, threads=2
        ) as dataset:
            first = calls_of_first_batch(dataset)
            for _ in range(2):
                for _batch in dataset:
                    pass
            third = calls_of_first_batch(dataset)
    for name, called in (("first pass", first), ("prepared pass", third)):
        for file, functions in called.items():
            print(f"{file}: {', '.join(functions)}")
        print(f"{name}: {len(called)} files\n")


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
