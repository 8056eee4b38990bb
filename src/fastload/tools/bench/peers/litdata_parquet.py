"""LitData, streaming the Parquet files themselves: LitData writes only an index of the footers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import litdata
from litdata.streaming.item_loader import ParquetLoader

from fastload.tools.bench.peers.conversion import converted
from fastload.tools.bench.peers.windows import stored_dtypes

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch

    from fastload.tools.bench.peers import Work


class Contender:
    """Batches of a StreamingDataLoader over a StreamingDataset with a ParquetLoader."""

    def __init__(self, work: Work) -> None:
        self._work = work
        directory, self.conversion_s = converted(work, "litdata", self._index)
        dataset = litdata.StreamingDataset(
            str(directory / "files"),
            item_loader=ParquetLoader(columns=list(work.columns)),
            shuffle=work.shuffle,
            seed=work.seed,
        )
        self._loader: Any = litdata.StreamingDataLoader(
            dataset, batch_size=work.batch_size, shuffle=work.shuffle, num_workers=work.workers
        )
        self._dtypes = stored_dtypes(work)

    def epoch(self, _number: int) -> Iterator[dict[str, torch.Tensor]]:
        """Yield the batches of one epoch: each pass is the next epoch. Columns are cast back."""
        for batch in self._loader:
            yield {name: batch[name].to(dtype) for name, dtype in self._dtypes.items()}

    def _index(self, directory: Path) -> None:
        # LitData reads all files of one directory, in the order of their names.
        files = directory / "files"
        files.mkdir()
        for j, file in enumerate(self._work.files):
            (files / f"{j:06}.parquet").symlink_to(Path(file).resolve())
        litdata.index_parquet_dataset(str(files), num_workers=1)
