# /// script
# dependencies = ["litdata", "polars", "pyarrow", "torch"]
# ///
"""LitData, streaming the Parquet files themselves: LitData writes only an index of the footers.

It has no tensor for a null.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import litdata
from litdata.streaming.item_loader import ParquetLoader
from timing import Work, measure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def make(work: Work) -> Callable[[int], Iterable[dict[str, Any]]]:
    """Index the files, and return what yields the batches of an epoch: each pass is the next."""
    # LitData reads all files of one directory, in the order of their names.
    directory = Path(tempfile.mkdtemp(prefix="litdata-"))
    for number, file in enumerate(work.files):
        (directory / f"{number:06}.parquet").symlink_to(Path(file).resolve())
    litdata.index_parquet_dataset(str(directory), num_workers=1)
    dataset = litdata.StreamingDataset(
        str(directory), item_loader=ParquetLoader(columns=work.columns), shuffle=work.shuffle
    )
    loader: Any = litdata.StreamingDataLoader(
        dataset, batch_size=work.batch_size, shuffle=work.shuffle
    )
    return lambda _: loader


if __name__ == "__main__":
    measure(make)
