"""The seeds of rows, from which `augment` draws its random numbers. Pure.

The seed of a row is `stream_key(seed, epoch, 3, step, file, row)` (module `permutation`): of the
dataset's seed, the epoch, the number of the step in `augment`, the index of the row's file in
`dataset.files` and the row's number in that file. So it depends on nothing that says how an epoch
is cut or read: not on ranks, workers, threads, batches and resumes, nor on shuffle, filters and
limit. Steps of one dataset draw independent numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fastload.plan.permutation import fold, stream_key

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["row_seeds", "seeds_of", "step_key"]

# The third part, after seed and epoch, in the name of a stream; order and mixes use 0 to 2.
_SEED_STREAM = 3


def row_seeds(
    seed: int, epoch: int, step: int, file: NDArray[np.int32], row: NDArray[np.int64]
) -> NDArray[np.uint64]:
    """The seeds of B rows, uint64 (B,).

    Args:
        seed: of the dataset.
        epoch: its number.
        step: number in `augment`.
        file: index of each row's file (B,).
        row: its number in the file (B,).
    """
    return seeds_of(step_key(seed, epoch, step), file, row)


def step_key(seed: int, epoch: int, step: int) -> int:
    """What the seeds of a step are made of, beside the rows; arguments as `row_seeds`."""
    return stream_key(seed, epoch, _SEED_STREAM, step)


def seeds_of(key: int, file: NDArray[np.int32], row: NDArray[np.int64]) -> NDArray[np.uint64]:
    """The seeds of B rows, uint64 (B,), of the step with that key; the core makes the same."""
    whole = np.array([key], np.uint64)
    return fold(fold(whole, file.astype(np.uint64)), row.astype(np.uint64))
