"""Daft: read_parquet as a stream of Arrow record batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import daft

from fastload.tools.bench.peers.windows import cut, table_tensors

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch

    from fastload.tools.bench.peers import Work


class Contender:
    """Record batches of `to_arrow_iter`, which is faster than `to_torch_iter_dataset`.

    `to_torch_iter_dataset` makes Python rows.
    """

    def __init__(self, work: Work) -> None:
        self._work = work
        columns = [daft.col(name) for name in work.columns]
        self._rows: Any = daft.read_parquet(list(work.files)).select(*columns)

    def epoch(self, number: int) -> Iterator[dict[str, torch.Tensor]]:
        """Yield the batches of one epoch; Daft's `shuffle` permutes all rows."""
        rows = self._rows
        if self._work.shuffle:
            rows = rows.shuffle(seed=self._work.seed + number)
        blocks = (table_tensors(block, self._work.columns) for block in rows.to_arrow_iter())
        return cut(blocks, self._work.batch_size)
