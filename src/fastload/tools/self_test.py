"""A short try of the installation: a small file, read in this process and in another one."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from torch.utils.data import DataLoader

from fastload.dataset.dataset import FastParquetDataset

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fastload.batch.batch import Batch

__all__ = ["faults"]

_ROWS = 10_000
_TIMEOUT_S = 60


def faults() -> list[str]:
    """Return what does not work, the first thing to mend first; [] = everything works."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    found = []
    with tempfile.TemporaryDirectory(prefix="fastload-") as directory:
        path = Path(directory) / "rows.parquet"
        pq.write_table(pa.table({"number": np.arange(_ROWS)}), path, row_group_size=1000)
        for where, workers in (("this process", 0), ("a worker process", 1)):
            try:
                with warnings.catch_warnings(), FastParquetDataset(path, shuffle=True) as dataset:
                    warnings.simplefilter("ignore")
                    _check(_batches(dataset, workers))
            except Exception as error:  # noqa: BLE001 - whatever it is, it is the answer
                found.append(f"reading in {where}: {type(error).__name__}: {error}")
    return found


def _batches(dataset: FastParquetDataset, workers: int) -> Iterable[Batch]:
    if not workers:
        return dataset
    return DataLoader(dataset, batch_size=None, num_workers=workers, timeout=_TIMEOUT_S)


def _check(batches: Iterable[Batch]) -> None:
    total = sum(int(batch["number"].sum()) for batch in batches)
    if total != _ROWS * (_ROWS - 1) // 2:
        raise ValueError(f"Expected the sum of {_ROWS:,} numbers, got {total}")
