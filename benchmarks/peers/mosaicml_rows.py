# /// script
# requires-python = "<3.13"
# dependencies = [
#     "mosaicml-streaming==0.13.0", "numpy==2.1.3", "pandas==2.2.3", "pyarrow==25.0.1",
#     "torch==2.6.0", "torchvision==0.21.0",
# ]
# ///
"""MosaicML Streaming, whose numpy is older than fastload's, after conversion to its MDS files."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq
from streaming import MDSWriter, StreamingDataset
from timing import Work, measure
from torch.utils.data import DataLoader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def make(work: Work) -> Callable[[int], Iterable[dict[str, Any]]]:
    """Convert the files, and return what yields the batches of an epoch."""
    directory = tempfile.mkdtemp(prefix="mosaicml-")
    schema = pq.read_schema(work.files[0])
    # MDS has no bools.
    encodings = {
        name: str(np.dtype(schema.field(name).type.to_pandas_dtype())).replace("bool", "uint8")
        for name in work.columns
    }
    with MDSWriter(out=directory, columns=encodings) as writer:
        for file in work.files:
            for record in pq.ParquetFile(file).iter_batches(columns=work.columns):
                columns = [
                    record.column(name).to_numpy(zero_copy_only=False).astype(encoding)
                    for name, encoding in encodings.items()
                ]
                for row in zip(*columns, strict=True):
                    writer.write(dict(zip(encodings, row, strict=True)))
    dataset = StreamingDataset(
        local=directory,
        shuffle=work.shuffle,
        shuffle_block_size=work.window_rows,
        num_canonical_nodes=1,
        batch_size=work.batch_size,
    )
    loader = DataLoader(dataset, batch_size=work.batch_size)
    return lambda _: loader


if __name__ == "__main__":
    measure(make)
