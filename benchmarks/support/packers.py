"""Other ways to pack documents of Parquet files: by hand with NumPy, and with other libraries.

A packer takes files, the tokens of a row and the rows of a batch. A packer yields for each batch a
tensor (R, T), and for each row the tokens of its documents in turn. Tokens of documents are above
zero, and no other numbers are.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["PEERS", "Packer", "numpy_best_fit", "numpy_stream"]

_Batches = Iterator[tuple[torch.Tensor, list[list[int]]]]
Packer: TypeAlias = "Callable[[Sequence[Path], int, int], _Batches]"
# Bins that Grain keeps open.
_GRAIN_BINS = 512
# Documents of one read of LanceDB.
_LANCEDB_ROWS = 1024


def _lists(paths: Sequence[Path]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the tokens of all documents, and the edges of the documents."""
    column = pa.concat_arrays(pq.read_table(list(paths), columns=["input_ids"])["input_ids"].chunks)
    return column.values.to_numpy(), column.offsets.to_numpy()


def numpy_best_fit(paths: Sequence[Path], length: int, batch_rows: int) -> _Batches:
    """Pack whole documents by best fit decreasing, with a sorted list of the rooms."""
    values, offsets = _lists(paths)
    sizes = np.diff(offsets)
    rooms: list[tuple[int, int]] = []
    rows: list[list[int]] = []
    sizes_of = sizes.tolist()
    for document in np.argsort(-sizes, kind="stable").tolist():
        size = sizes_of[document]
        place = bisect.bisect_left(rooms, (size, -1))
        if place < len(rooms):
            room, row = rooms.pop(place)
            rows[row].append(document)
        else:
            room, row = length, len(rows)
            rows.append([document])
        if room > size:
            bisect.insort(rooms, (room - size, row))
    order = np.random.default_rng(0).permutation(len(rows)).tolist()
    bounds = offsets.tolist()
    for first in range(0, len(order), batch_rows):
        chosen = order[first : first + batch_rows]
        tokens = np.zeros((len(chosen), length), np.int32)
        documents = np.full((len(chosen), length), -1, np.int32)
        positions = np.zeros((len(chosen), length), np.int32)
        for out, row in enumerate(chosen):
            at = 0
            for number, document in enumerate(rows[row]):
                start, stop = bounds[document], bounds[document + 1]
                end = at + stop - start
                tokens[out, at:end] = values[start:stop]
                documents[out, at:end] = number
                positions[out, at:end] = np.arange(stop - start)
                at = end
        yield torch.from_numpy(tokens), [[sizes_of[d] for d in rows[row]] for row in chosen]


def numpy_stream(paths: Sequence[Path], length: int, batch_rows: int) -> _Batches:
    """Cut the stream of all documents, in a random order, every `length` tokens."""
    values, offsets = _lists(paths)
    sizes = np.diff(offsets)
    order = np.random.default_rng(0).permutation(len(sizes))
    ends = np.cumsum(sizes[order])
    total = int(ends[-1])
    where = np.repeat(offsets[:-1][order] - (ends - sizes[order]), sizes[order])
    stream = values[where + np.arange(total)]
    for first in range(0, total, batch_rows * length):
        part = stream[first : first + batch_rows * length]
        rows = -(-len(part) // length)
        filled = np.zeros(rows * length, np.int32)
        filled[: len(part)] = part
        lengths = [[min(length, len(part) - row * length)] for row in range(rows)]
        yield torch.from_numpy(filled.reshape(rows, length)), lengths


def trl_best_fit(paths: Sequence[Path], length: int, batch_rows: int) -> _Batches:
    """Pack with TRL, then iterate in torch's format."""
    import datasets
    from trl import pack_dataset

    datasets.disable_progress_bars()
    documents = datasets.Dataset.from_parquet([str(path) for path in paths], keep_in_memory=True)
    packed = pack_dataset(documents, length, strategy="bfd")
    for batch in packed.with_format("numpy").iter(batch_rows):
        tokens = torch.zeros((len(batch["input_ids"]), length), dtype=torch.int32)
        for row, values in enumerate(batch["input_ids"]):
            tokens[row, : len(values)] = torch.from_numpy(np.asarray(values, np.int32))
        yield tokens, [np.asarray(sizes).tolist() for sizes in batch["seq_lengths"]]


def grain_best_fit(paths: Sequence[Path], length: int, batch_rows: int) -> _Batches:
    """Pack with Grain's best fit over some open bins."""
    import grain
    from grain.experimental import BestFitPackIterDataset

    values, offsets = _lists(paths)
    documents = [{"input_ids": v} for v in np.split(values, offsets[1:-1])]
    packed = BestFitPackIterDataset(
        grain.MapDataset.source(documents).shuffle(seed=0).to_iter_dataset(),
        length_struct={"input_ids": length},
        num_packing_bins=_GRAIN_BINS,
        seed=0,
    )
    for batch in packed.batch(batch_rows):
        segments = batch["input_ids_segment_ids"]
        sizes = [np.bincount(row[row > 0])[1:].tolist() for row in segments]
        yield torch.from_numpy(batch["input_ids"]), sizes


def lancedb_stream(paths: Sequence[Path], length: int, batch_rows: int) -> _Batches:
    """Cut the stream of all documents, with a separator between them, by LanceDB.

    The first call copies the files to a table of LanceDB.
    """
    import lancedb
    from lancedb.streaming import StreamingDataset

    database = lancedb.connect(paths[0].parent / "lancedb")
    if "documents" not in database.list_tables().tables:
        database.create_table("documents", pq.read_table(list(paths), columns=["input_ids"]))
    _, offsets = _lists(paths)
    dataset = StreamingDataset(
        database.open_table("documents"),
        columns=["input_ids"],
        read_batch_size=_LANCEDB_ROWS,
        pack_sequences=length,
        eos_id=0,
        pad_id=-1,
        # Room for a separator behind each document; what is beyond the blocks would be left out.
        blocks_per_epoch=-(-int(offsets[-1] + len(offsets) - 1) // length),
    )
    for batch in torch.utils.data.DataLoader(dataset, batch_size=batch_rows):
        tokens = batch["input_ids"]
        yield tokens, [[count] for count in (tokens > 0).sum(1).tolist()]


PEERS: dict[str, Packer] = {
    "TRL, best fit": trl_best_fit,
    "Grain, best fit": grain_best_fit,
    "LanceDB, stream": lancedb_stream,
}
"""Packers of other libraries."""
