"""The roof: the time of reading, decompressing and one copy of the output.

No loader can take less time than the roof, unless decompressed pages stay in memory. Then the roof
is measured likewise: the pages lie decompressed in memory before, and are only read there.
"""

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

# Enough for a median; one run takes a fraction of a second on a million rows.
_REPEATS = 5


@dataclass(frozen=True, slots=True)
class Roof:
    """The input and the output of an epoch, whose roof can be measured.

    Attributes:
        source: the files.
        leaves: for each file, the leaf columns that are read.
        output_bytes: bytes of the batches of these rows, computed from footers; exact for
            fixed-width columns.
        first_rows: number of rows to read, from the first row on. A page that holds one of these
            rows is read, with its dictionary. In lists values are counted instead of rows, as if
            all lists were equally long.
    """

    source: Source
    leaves: tuple[tuple[int, ...], ...]
    output_bytes: int
    first_rows: int = sys.maxsize

    @classmethod
    def of(cls, source: PathLike | Sequence[PathLike], columns: Columns) -> Roof:
        """Return the roof of an epoch over the columns.

        The errors are those of `FastParquetDataset` for the same files and columns.
        """
        files = Source.open(source)
        projection = plan_columns(files, columns, nulls="nan")
        leaves = tuple(
            tuple(sorted({column.leaves[index] for column in projection.columns} - {-1}))
            for index in range(len(files.files))
        )
        return cls(files, leaves, projection.row_bytes * files.num_rows)

    def of_first_rows(self, rows: int) -> Roof:
        """Return the roof of the first `rows` rows in order."""
        share = min(1.0, rows / max(1, self.source.num_rows))
        return replace(self, output_bytes=int(self.output_bytes * share), first_rows=rows)

    def once(self, threads: int, kept_limit_bytes: int = 0) -> core.RoofTimes:
        """Measure the roof in one run, whose parts `RoofTimes` tells apart.

        A run reads the pages through libparquet's PageReader, a column chunk at a time, and
        copies as many bytes as the batches have once.

        Args:
            threads: number of threads that share the work.
            kept_limit_bytes: the most bytes of decompressed pages of compressed files that lie in
                memory before the run: `stats().memory.kept_limit` of a dataset that keeps pages.
        """
        return core.measure_roof(
            files=[file.for_core for file in self.source.files],
            leaves=self.leaves,
            output_bytes=self.output_bytes,
            threads=max(1, threads),
            first_rows=self.first_rows,
            kept_limit_bytes=kept_limit_bytes,
        )

    def measure(self, threads: int, repeats: int = _REPEATS, *, kept_limit_bytes: int = 0) -> float:
        """Return the seconds of the roof: the median of a few runs, as `once` does them."""
        times = [self.once(threads, kept_limit_bytes) for _ in range(repeats)]
        return statistics.median(time.pages_s + time.memcpy_s for time in times)
