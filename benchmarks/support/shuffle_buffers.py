"""The orders that shuffle buffers of other libraries deliver, simulated on row numbers.

The functions simulate the published algorithms, not the speed of the libraries. Both libraries
permute shards first; here a shard is a row group. Only rows in the buffer count as held; the
readers of the libraries hold more rows, such as ten row groups that are open for reading.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Int64s = NDArray[np.int64]

# `max_buffer_input_shards` of Hugging Face, by default.
_INPUT_SHARDS = 10


def huggingface(rows: int, group_rows: int, held_rows: int, seed: int) -> Int64s:
    """Simulate `IterableDataset.reshard().shuffle(buffer_size=held_rows)` of HF datasets 5.0.

    The permuted shards are split into ten contiguous parts that are read in turn, a row each.
    Each row replaces a row of the buffer, drawn at random (Knuth's algorithm B: MacLaren and
    Marsaglia, 1965). At the end, the rest of the buffer is shuffled. Sources: `shuffle`,
    `CyclingMultiSourcesExamplesIterable` and `BufferShuffledExamplesIterable` in
    src/datasets/iterable_dataset.py.

    Returns:
        Stored positions in delivered order, int64 (rows,).
    """
    rng = np.random.default_rng(seed)
    shards = _permuted_row_groups(rows, group_rows, rng)
    size, more = divmod(len(shards), _INPUT_SHARDS)
    parts = [size + (k < more) for k in range(_INPUT_SHARDS)]
    streams = [shards[stop - n : stop] for n, stop in zip(parts, np.cumsum(parts), strict=True)]
    in_turn = np.argsort(
        np.concatenate([np.arange(sum(map(len, stream))) for stream in streams]), kind="stable"
    )
    arriving = np.concatenate(shards)[in_turn]
    buffer = arriving[:held_rows].tolist()
    delivered = []
    slots = rng.integers(0, held_rows, max(0, rows - held_rows)).tolist()
    for slot, row in zip(slots, arriving[held_rows:].tolist(), strict=True):
        delivered.append(buffer[slot])
        buffer[slot] = row
    return np.concatenate([np.array(delivered, np.int64), rng.permutation(buffer)])


def petastorm(rows: int, group_rows: int, held_rows: int, seed: int) -> Int64s:
    """Simulate Petastorm's `DataLoader(make_batch_reader(...), shuffling_queue_capacity=...)`.

    A row group is added whole; then rows are drawn at random and removed while the buffer has at
    least `min_after_retrieve`, which is one row less than its capacity. The capacity is
    `held_rows` minus the row group, at least one row. Sources: `RandomShufflingBuffer`
    in petastorm/reader_impl/shuffling_buffer.py and `DataLoader` in petastorm/pytorch.py.

    Returns:
        Stored positions in delivered order, int64 (rows,).
    """
    rng = np.random.default_rng(seed)
    least = max(1, held_rows - group_rows)
    buffer: list[int] = []
    delivered: list[int] = []
    for row_group in _permuted_row_groups(rows, group_rows, rng):
        buffer += row_group.tolist()
        delivered += _drawn(buffer, max(0, len(buffer) - least + 1), rng)
    delivered += _drawn(buffer, len(buffer), rng)
    return np.array(delivered, np.int64)


def _drawn(buffer: list[int], count: int, rng: np.random.Generator) -> Iterator[int]:
    sizes = np.arange(len(buffer), len(buffer) - count, -1)
    for index in rng.integers(0, sizes).tolist():
        yield buffer[index]
        buffer[index] = buffer[-1]
        buffer.pop()


def _permuted_row_groups(rows: int, group_rows: int, rng: np.random.Generator) -> list[Int64s]:
    starts = rng.permutation(np.arange(0, rows, group_rows))
    return [np.arange(start, min(start + group_rows, rows)) for start in starts.tolist()]
