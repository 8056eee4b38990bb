"""The roof: what reading, decompressing and one copy of the output take, and no loader less."""

from __future__ import annotations

import statistics
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fastload.runtime.native import core
from fastload.schema.projection import plan_columns
from fastload.source.source import Source

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastload.schema.projection import Columns
    from fastload.source.files import PathLike

__all__ = ["Roof", "measure"]

# Enough for a median; one takes a fraction of a second on a million rows.
_REPEATS = 5


@dataclass(frozen=True, slots=True)
class Roof:
    """What is read, and how much of it comes out.

    source: the files.
    leaves: by file, the leaf columns that are read.
    output_bytes: of the batches of these rows; from footers, exact for fixed-width columns.
    first_rows: the rows wanted, from the first on; a page that holds one of them is read, and its
        dictionary. In lists values are counted instead, as if all were equally long.
    """

    source: Source
    leaves: tuple[tuple[int, ...], ...]
    output_bytes: int
    first_rows: int = sys.maxsize

    @classmethod
    def of(cls, source: PathLike | Sequence[PathLike], columns: Columns) -> Roof:
        """The roof of an epoch over these columns.

        Raises what `FastParquetDataset` raises for such files and columns.
        """
        files = Source.open(source)
        projection = plan_columns(files, columns)
        leaves = tuple(
            tuple(sorted({column.leaves[index] for column in projection.columns} - {-1}))
            for index in range(len(files.files))
        )
        return cls(files, leaves, projection.row_bytes * files.num_rows)

    def of_first_rows(self, rows: int) -> Roof:
        """The roof of the first `rows` rows in order."""
        share = min(1.0, rows / max(1, self.source.num_rows))
        return replace(self, output_bytes=int(self.output_bytes * share), first_rows=rows)

    def measure(self, threads: int, repeats: int = _REPEATS) -> float:
        """Seconds: the median of a few runs on `threads` threads.

        The pages are read and run through libparquet's PageReader, a column chunk at a time, and
        as many bytes as the batches have are copied once.
        """
        times = [
            core.measure_roof(
                files=[(file.path, file.mtime_ns, file.footer) for file in self.source.files],
                leaves=self.leaves,
                output_bytes=self.output_bytes,
                threads=max(1, threads),
                first_rows=self.first_rows,
            )
            for _ in range(repeats)
        ]
        return statistics.median(time.pages_s + time.memcpy_s for time in times)


def measure(source: PathLike | Sequence[PathLike], columns: Columns, threads: int) -> float:
    """Seconds of the roof of an epoch over these columns, as `Roof` has it."""
    return Roof.of(source, columns).measure(threads)
