"""MosaicML Streaming, after conversion to its MDS files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
from streaming import MDSWriter, StreamingDataset
from torch.utils.data import DataLoader

from fastload.tools.bench.peers.conversion import converted
from fastload.tools.bench.peers.windows import arrow_tensor, stored_dtypes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import torch

    from fastload.tools.bench.peers import Work


class Contender:
    """Batches of `DataLoader(StreamingDataset(local=...), batch_size)`; a pass is an epoch."""

    def __init__(self, work: Work) -> None:
        self._dtypes = stored_dtypes(work)
        self._work = work
        directory, self.conversion_s = converted(work, "mds", self._convert)
        dataset = StreamingDataset(
            local=str(directory),
            shuffle=work.shuffle,
            shuffle_seed=work.seed,
            shuffle_block_size=work.window_rows,
            num_canonical_nodes=1,
            batch_size=work.batch_size,
        )
        self._loader: DataLoader[Any] = DataLoader(
            dataset, batch_size=work.batch_size, num_workers=work.workers
        )

    def epoch(self, _number: int) -> Iterator[dict[str, torch.Tensor]]:
        """Yield the batches of one epoch. Bools, stored as uint8, are cast back."""
        for batch in self._loader:
            yield {name: batch[name].to(dtype) for name, dtype in self._dtypes.items()}

    def _convert(self, directory: Path) -> None:
        encodings = {
            name: str(dtype).removeprefix("torch.").replace("bool", "uint8")
            for name, dtype in self._dtypes.items()
        }
        with MDSWriter(out=str(directory), columns=encodings) as writer:
            for file in self._work.files:
                for record in pq.ParquetFile(file).iter_batches(columns=list(encodings)):
                    arrays = [
                        arrow_tensor(record.column(name)).numpy().astype(encoding)
                        for name, encoding in encodings.items()
                    ]
                    for row in zip(*arrays, strict=True):
                        writer.write(dict(zip(encodings, row, strict=True)))
