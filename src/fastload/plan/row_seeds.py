"""The seeds of rows, from which `augment` draws its random numbers. Pure.

The seed of a row is `stream_key(seed, epoch, 3, step, file, row)` (module `permutation`), made of
the dataset's seed, the epoch, the number of the step in `augment`, the index of the row's file in
`dataset.files`, and the row's number in the file. So the seed of a row does not depend on how an
epoch is cut or read: not on ranks, workers, threads, batches and resumes, nor on shuffle, filters
and limit. The steps of one dataset draw independent numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fastload.plan.permutation import fold, stream_key

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["seeds_of", "step_key"]

# Third part, after seed and epoch, of the names of these streams. Orders and mixes use 0 to 2.
_SEED_STREAM = 3


def step_key(seed: int, epoch: int, step: int) -> int:
    """Return the key of a step, which `seeds_of` combines with rows.

    Args:
        seed: seed of the dataset.
        epoch: number of the epoch.
        step: number of the step in `augment`.
    """
    return stream_key(seed, epoch, _SEED_STREAM, step)


def seeds_of(key: int, file: NDArray[np.int32], row: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return the seeds of B rows for a step, uint64 (B,). The core makes the same.

    Args:
        key: key of the step.
        file: index of each row's file, (B,).
        row: number of each row in its file, (B,).
    """
    whole = np.array([key], np.uint64)
    return fold(fold(whole, file.astype(np.uint64)), row.astype(np.uint64))
