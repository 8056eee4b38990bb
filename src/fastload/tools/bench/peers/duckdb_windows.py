"""hand-written DuckDB, as fast as we know how: whole windows on all threads, without copies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb

from fastload.tools.bench.peers.windows import RowGroup, arrow_tensor, epoch_by_windows, runs

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch

    from fastload.tools.bench.peers import Work

# The largest Arrow chunk, in rows. DuckDB's threads take row groups one at a time.
_CHUNK_ROWS = 1 << 20


class Contender:
    """Whole windows, each read with one query: a scan for each run of neighbouring row groups."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._connection = duckdb.connect()
        if work.threads:
            self._connection.execute(f"SET threads = {work.threads}")
        # A shuffled window is permuted as a whole, so its rows may come in any order.
        if work.shuffle:
            self._connection.execute("SET preserve_insertion_order = false")
        self._connection.execute("SET parquet_metadata_cache = true")

    def epoch(self, number: int) -> Iterator[dict[str, torch.Tensor]]:
        """Yield the batches of one epoch, as `Contender.epoch` describes."""
        return epoch_by_windows(self._work, number, self._read)

    def _read(self, window: list[RowGroup]) -> dict[str, list[torch.Tensor]]:
        columns = ", ".join(_quoted(name, '"') for name in self._work.columns)
        # No injection: names and files are quoted.
        scans = [f"SELECT {columns} FROM {_rows(run)}" for run in runs(window)]  # noqa: S608
        table = self._connection.sql(" UNION ALL ".join(scans)).to_arrow_table(_CHUNK_ROWS)
        return {
            name: [arrow_tensor(chunk) for chunk in table.column(name).chunks]
            for name in self._work.columns
        }


def _rows(run: RowGroup) -> str:
    file = _quoted(run.file, "'")
    return (
        f"read_parquet({file}, file_row_number = true) "
        f"WHERE file_row_number BETWEEN {run.start} AND {run.start + run.rows - 1}"
    )


def _quoted(text: str, mark: str) -> str:
    return mark + text.replace(mark, mark * 2) + mark
