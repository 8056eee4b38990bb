"""Steps of an epoch: the batch of a rank that a step is, and the rows of steps.

Pure. A step is one batch of each rank. The steps of an epoch count from 0, through all of its legs:
if a leg of 10 delivered batches comes before, the first step of the next leg is step 10.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fastload.plan.intervals import edges_of, near_equal
from fastload.plan.permutation import permutation
from fastload.plan.position import Leg, merged, split_rest, steps_of
from fastload.plan.rank_split import Share
from fastload.plan.read_plan import PADDING, share_plan

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from fastload.plan.intervals import Int64s
    from fastload.plan.options import Options
    from fastload.plan.permutation import Permute
    from fastload.plan.read_plan import ReadPlan
    from fastload.plan.sequence import EpochSequence, RowGroups

__all__ = [
    "StepOfLeg",
    "StepShare",
    "delivered_rows",
    "rows_in",
    "step_of_leg",
    "step_shares",
]


class StepOfLeg(NamedTuple):
    """The leg that a step lies in.

    Attributes:
        before: the legs before the leg.
        world: number of ranks of the leg.
        workers: number of DataLoader workers of each rank in the leg, at least 1.
        number: number of the step among the steps of the leg.
    """

    before: tuple[Leg, ...]
    world: int
    workers: int
    number: int

    @property
    def first(self) -> int:
        """Number of the leg's first step in the epoch."""
        return steps_of(self.before)

    def ranks(self, rank: int | None) -> Sequence[int]:
        """Return all ranks of the leg, or only `rank`.

        Raises:
            ValueError: the leg has no such rank.
        """
        if rank is None:
            return range(self.world)
        if not 0 <= rank < self.world:
            raise ValueError(
                f"Expected rank to be between 0 and {self.world - 1}, got {rank}: step "
                f"{self.first + self.number} ran on {self.world} ranks"
            )
        return (rank,)

    def missing(self, steps: int) -> ValueError:
        """Return the error for a leg of `steps` steps that does not have this step."""
        return ValueError(
            f"Expected a step of the epoch's {self.first + steps} steps, counted from 0, got step "
            f"{self.first + self.number}"
        )


class StepShare(NamedTuple):
    """The rows of one batch.

    Attributes:
        source: number of the source in a mix; else 0.
        seed: seed of the source's order.
        share: the positions of the batch.
    """

    source: int
    seed: int
    share: Share


def step_of_leg(progress: Sequence[Leg], world: int, workers: int, step: int) -> StepOfLeg:
    """Find the leg of a step.

    Args:
        progress: legs of the epoch that were delivered before.
        world: number of ranks after `progress`.
        workers: number of DataLoader workers of each rank after `progress`; 0 counts as 1.
        step: number of the step in the epoch.
    """
    *before, last = merged([*progress, Leg(world, workers, 0)])
    first = 0
    for number, leg in enumerate(before):
        if step < first + leg.delivered:
            return StepOfLeg(tuple(before[:number]), leg.world, leg.workers, step - first)
        first += leg.delivered
    return StepOfLeg(tuple(before), last.world, last.workers, step - first)


def step_shares(
    total_rows: int,
    options: Options,
    seed: int,
    steps: Iterable[StepOfLeg],
    rank: int | None,
) -> Iterator[StepShare]:
    """Yield the rows of steps: step by step, in each step rank by rank.

    Args:
        total_rows: rows of the files that stay after filters.
        options: the dataset's parameters.
        seed: seed of the order.
        steps: the steps.
        rank: number of one rank; None = all ranks.

    Raises:
        ValueError: the epoch has no such step, or a leg has no such rank.
    """
    split, leg = None, None
    for step in steps:
        if split is None or leg != (step.before, step.world):
            leg = (step.before, step.world)
            split = split_rest(total_rows, options, *leg)
        if not 0 <= step.number < split.most:
            raise step.missing(split.most)
        turn, worker = divmod(step.number, step.workers)
        for number in step.ranks(rank):
            if step.number < split.batches[number]:
                first, _ = near_equal(split.batches[number], step.workers)
                batch = int(first[worker]) + turn
                yield StepShare(0, seed, split.share(number, batch, batch + 1))


def rows_in(
    row_groups: RowGroups,
    options: Options,
    epoch: int,
    shares: Sequence[Share],
    sequence: EpochSequence | None = None,
    permute: Permute = permutation,
) -> Int64s:
    """Return the rows of shares, one share after the other, as `delivered_rows` returns them.

    Args:
        row_groups: all row groups in canonical order.
        options: the dataset's parameters.
        epoch: number of the epoch.
        shares: the shares.
        sequence: as for `share_plan`.
        permute: returns the permutation of a window, given its number of rows and its key.
    """
    intervals = np.concatenate([np.zeros((0, 2), np.int64), *(share.intervals for share in shares)])
    # Sorted intervals touch each window once.
    by_start = np.argsort(intervals[:, 0], kind="stable")
    ascending = Share(intervals[by_start], 0, -1)
    plan = share_plan(
        row_groups, options, epoch, ascending, stripe_rows=options.batch_size, sequence=sequence
    )
    sizes = intervals[:, 1] - intervals[:, 0]
    place = edges_of(sizes)[:-1][by_start] - edges_of(sizes[by_start])[:-1]
    rows = np.empty((plan.rows, 3), np.int64)
    rows[np.repeat(place, sizes[by_start]) + np.arange(plan.rows)] = delivered_rows(plan, permute)
    return rows


def delivered_rows(plan: ReadPlan, permute: Permute) -> Int64s:
    """Return every row that a plan delivers, in order, as int64 (rows, 3).

    The columns are file, row group in the file and row in the row group. The rows of a packed plan
    are those of its segments, in order, without padding.

    Args:
        plan: the plan.
        permute: as for `rows_in`.
    """
    delivered = [np.zeros((0, 3), np.int64)]
    ordered = 0
    before = edges_of(plan.copies.astype(np.int64))  # copies before each row
    for v, key in enumerate(plan.keys.tolist()):
        (piece, take), (piece_stop, take_stop) = plan.windows[v : v + 2].tolist()
        pieces = plan.pieces[piece:piece_stop]
        edges = edges_of(pieces[:, 3] - pieces[:, 2])
        takes = plan.takes[take:take_stop].tolist()
        row = np.concatenate([np.arange(start, stop) for start, stop in takes])
        if len(plan.segments):
            row = plan.segments[row, 0].astype(np.int64)
            row = row[row != PADDING]
        elif len(plan.orders):
            row = plan.orders[ordered + row].astype(np.int64)
        elif plan.shuffled:
            row = permute(int(edges[-1]), key)[row].astype(np.int64)
        own = np.searchsorted(edges, row, side="right") - 1
        ordered += int(edges[-1])
        rows = pieces[own, :3]
        rows[:, 2] += row - edges[own]
        if len(plan.piece_copies):
            first = plan.piece_copies[piece + own]
            copies = rows[:, 2] + before[first]
            rows[:, 2] = np.searchsorted(before[1:], copies, side="right") - first
        delivered.append(rows)
    return np.concatenate(delivered)
