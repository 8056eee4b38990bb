"""polars by hand, as fast as we know how."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from fastload.tools.bench.peers.windows import RowGroup, epoch_by_windows, lent, runs

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch

    from fastload.tools.bench.peers import Work


class WindowReader:
    """Whole windows on all threads: runs of neighbouring row groups are read at the same time.

    Columns become tensors without a copy.
    """

    def __init__(self, work: Work) -> None:
        self._work = work

    def epoch(self, number: int) -> Iterator[dict[str, torch.Tensor]]:
        """Yield the batches of one epoch, as `Contender.epoch` describes."""
        return epoch_by_windows(self._work, number, self._read)

    def _read(self, window: list[RowGroup]) -> dict[str, list[torch.Tensor]]:
        names = list(self._work.columns)
        # A shuffled window is permuted as a whole, so it may be read in stored order.
        scans = [
            pl.scan_parquet(run.file).slice(run.start, run.rows).select(names)
            for run in runs(window)
        ]
        frames = pl.collect_all(scans)
        frame = frames[0] if len(frames) == 1 else pl.concat(frames, rechunk=False)
        series = [_filled(frame.get_column(name)) for name in names]
        if len({tuple(column.chunk_lengths()) for column in series}) > 1:
            series = [column.rechunk() for column in series]
        return {
            name: [lent(chunk.to_numpy()) for chunk in column.get_chunks()]
            for name, column in zip(names, series, strict=True)
        }


def _filled(column: pl.Series) -> pl.Series:
    if not column.null_count():
        return column
    return column.fill_null(value=False if column.dtype == pl.Boolean else 0)
