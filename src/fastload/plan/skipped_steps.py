"""Steps that an epoch leaves out, and the batches that workers deliver without these steps. Pure.

Steps that are left out keep their numbers, and a state counts these steps as delivered: so a run
may leave out other steps after each resume. DataLoader asks its workers in turn, whatever is left
out. So the steps that are left are dealt to the workers in turn, and a worker may deliver batches
of another worker's part: an example with 2 workers, and step 3 left out:

    step                        0    1    2    3    4    5    6
    batch of the rank           b0   b4   b1   -    b2   b6   b3     part 0: b0..b3, part 1: b4..b6
    worker that delivers it     0    1    0         1    0    1
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fastload.plan.intervals import near_equal
from fastload.plan.rank_split import joined

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastload.plan.intervals import Int64s
    from fastload.plan.rank_split import RankSplit, Share

__all__ = ["part_of_worker", "skipped_steps", "steps_over"]


def skipped_steps(skip_steps: Sequence[int], first: int, count: int) -> Int64s:
    """Return which of `count` steps are left out, as ascending numbers from the first step on.

    Args:
        skip_steps: numbers of the steps that each epoch leaves out, ascending.
        first: number of the first step in the epoch.
        count: number of steps.
    """
    numbers = np.array(skip_steps, np.int64)
    return numbers[(first <= numbers) & (numbers < first + count)] - first


def steps_over(skipped: Int64s, delivered: int) -> int:
    """Return how many steps are over after `delivered` steps: delivered, or left out.

    Steps that are left out right after the last delivered step are also over.

    Args:
        skipped: numbers of the steps that are left out, ascending.
        delivered: number of steps that were delivered.
    """
    # Before the skipped step number i, skipped[i] - i steps are delivered.
    before = skipped - np.arange(len(skipped))
    return delivered + int(np.searchsorted(before, delivered, side="right"))


def part_of_worker(
    split: RankSplit, rank: int, workers: int, worker: int, skipped: Int64s, delivered: int
) -> Share:
    """Return the share of a worker in a leg that leaves out steps.

    Args:
        split: the split of the leg.
        rank: number of the rank.
        workers: number of workers of the rank.
        worker: number of the worker: of the steps that are not left out, the worker delivers the
            steps `worker`, `worker + workers`, ...
        skipped: numbers of the steps that are left out, ascending.
        delivered: number of the worker's first batches to leave out of the share.
    """
    total = int(split.batches[rank])
    first, _ = near_equal(np.array(total), workers)
    # Each run of steps between steps that are left out: its first step and the step after it.
    start = np.concatenate([[0], skipped + 1])
    stop = np.concatenate([skipped, [total]])
    before = start - np.arange(len(start))  # number of delivered steps before the run
    step = start + (worker - before) % workers
    count = np.maximum(0, -(-(stop - step) // workers))
    batch = first[step % workers] + step // workers
    # Leave out what was delivered.
    gone = np.clip(delivered - (np.cumsum(count) - count), 0, count)
    shares = [
        split.share(rank, a, b)
        for a, b in zip((batch + gone).tolist(), (batch + count).tolist(), strict=True)
        if a < b
    ]
    # Only the rank's last batch repeats a row. The steps after this batch are fewer than the
    # workers, so the batch is the last one of its worker.
    return joined(shares)
