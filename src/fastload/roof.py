"""The roof: what reading, decompressing and one copy of the output take, and no loader less."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from fastload._native import core
from fastload.schema import plan_columns
from fastload.source import Source

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastload.paths import PathLike

__all__ = ["measure"]

# Enough for a median; one takes a fraction of a second on a million rows.
_REPEATS = 5


def measure(
    source: PathLike | Sequence[PathLike], columns: Sequence[str] | None, threads: int
) -> float:
    """Seconds of the roof of an epoch over these columns: the median of a few runs.

    The column chunks are read and run through libparquet's PageReader, and as many bytes as the
    batches have are copied once, on `threads` threads.

    Raises what `FastParquetDataset` raises for such files and columns.
    """
    files = Source.open(source)
    projection = plan_columns(files, columns)
    by_file = [
        sorted({column.leaves[index] for column in projection.columns} - {-1})
        for index in range(len(files.files))
    ]
    times = [
        core.measure_roof(
            files=[(file.path, file.mtime_ns, file.footer) for file in files.files],
            leaves=by_file,
            output_bytes=projection.row_bytes * files.num_rows,
            threads=max(1, threads),
        )
        for _ in range(_REPEATS)
    ]
    return statistics.median(time.pages_s + time.memcpy_s for time in times)
