"""pyarrow by hand, as fast as we know how: whole windows on all threads, columns not copied."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from fastload.tools.bench.peers.windows import RowGroup, arrow_tensor, epoch_by_windows

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch

    from fastload.tools.bench.peers import Work


class Contender:
    """Reads each window with one call per file."""

    def __init__(self, work: Work) -> None:
        self._work = work
        if work.threads:
            pa.set_cpu_count(work.threads)
        # It takes up memory that was freed faster than the other pools.
        if "jemalloc" in pa.supported_memory_backends():
            pa.set_memory_pool(pa.jemalloc_memory_pool())
        self._files = {file: pq.ParquetFile(file, memory_map=True) for file in work.files}

    def epoch(self, number: int) -> Iterator[dict[str, torch.Tensor]]:
        """Yield the batches of one epoch, as `Contender.epoch` describes."""
        return epoch_by_windows(self._work, number, self._read)

    def bottleneck(self) -> str:
        """Return the slowest stage, as `Contender.bottleneck` describes."""
        return ""

    def _read(self, window: list[RowGroup]) -> dict[str, list[torch.Tensor]]:
        names = list(self._work.columns)
        by_file: dict[str, list[int]] = {}
        for group in window:
            by_file.setdefault(group.file, []).append(group.index)
        tables = [
            self._files[file].read_row_groups(groups, columns=names).select(names)
            for file, groups in by_file.items()
        ]
        table = tables[0] if len(tables) == 1 else pa.concat_tables(tables)
        columns = [table.column(name) for name in names]
        cuts = {tuple(len(chunk) for chunk in column.chunks) for column in columns}
        if len(cuts) > 1:
            columns = [pa.chunked_array([column.combine_chunks()]) for column in columns]
        return {
            name: [arrow_tensor(chunk) for chunk in column.chunks]
            for name, column in zip(names, columns, strict=True)
        }
