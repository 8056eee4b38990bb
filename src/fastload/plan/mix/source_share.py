"""The batches of one repetition of a source that a worker delivers in a leg. Pure.

A leg deals the batches of a repetition to its workers in contiguous parts. Without `skip_steps`, a
worker delivers its own part in order. With `skip_steps`, the steps that are left are dealt to the
workers in turn, so a worker may deliver ranges of batches of several parts.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fastload.plan.intervals import Int64s, edges_of
from fastload.plan.rank_split import RankSplit, Share, joined

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["SourceShare", "batch_numbers", "ranges_to_deliver"]


class SourceShare(NamedTuple):
    """Batches of one repetition of a source that one worker delivers in a leg.

    Attributes:
        seed: seed of the repetition's order.
        split: split over ranks of the positions that were undelivered when the leg began.
        rank: number of the worker's rank in the split.
        slices: the canonical slices that the worker's rank delivers; None = there are no slices.
        batches: ranges of numbers of the worker's batches among the rank's batches, in the order
            of delivery, int64 (n, 2).
        delivered: how many of these batches, from the first on, were delivered.
    """

    seed: int
    split: RankSplit
    rank: int
    slices: range | None
    batches: Int64s
    delivered: int

    @property
    def share(self) -> Share:
        """Share of the worker that is left to deliver."""
        before = edges_of(self.batches[:, 1] - self.batches[:, 0])[:-1]
        starts = self.batches[:, 0] + np.maximum(0, self.delivered - before)
        return self._share(np.stack([starts, self.batches[:, 1]], axis=1))

    @property
    def shares_of_leg(self) -> tuple[Share, Share, Share]:
        """Three shares that together have all batches of the rank in the leg.

        The second share has the batches of the worker. The first share has the other batches up to
        the worker's first batch, and the third share has all other batches.
        """
        ascending = self.batches[np.argsort(self.batches[:, 0])]
        edges = np.concatenate([[0], ascending.ravel(), [self.split.most]]).reshape(-1, 2)
        return self._share(edges[:1]), self._share(self.batches), self._share(edges[1:])

    def _share(self, batches: Int64s) -> Share:
        shares = [self.split.share(self.rank, a, b) for a, b in batches.tolist() if a < b]
        return replace(joined(shares), slices=self.slices)


def batch_numbers(steps: Int64s, workers: int, own: Int64s) -> Int64s:
    """Return which batches of a repetition some steps deliver, as numbers among a rank's batches.

    Args:
        steps: the steps of a leg whose batches come from the repetition, ascending.
        workers: number of workers of each rank in the leg.
        own: some of these steps, ascending.
    """
    turns, own_turns = steps % workers, own % workers
    numbers = np.empty(len(own), np.int64)
    for turn in np.unique(own_turns).tolist():
        mine = own_turns == turn
        in_part = np.searchsorted(steps[turns == turn], own[mine])
        numbers[mine] = in_part + np.count_nonzero(turns < turn)
    return numbers


def ranges_to_deliver(numbers: Int64s, last: int) -> Iterator[Int64s]:
    """Yield batches as ranges of numbers (n, 2), in the order of delivery.

    Batch `last` may be short, or repeat a row. Only the last batch of a share may, so the ranges
    end with this batch, and the batches after it come as other ranges.

    Args:
        numbers: numbers of the batches in the order of delivery.
        last: number of the rank's last batch.
    """
    stops = np.flatnonzero(numbers == last) + 1
    for part in np.split(numbers, stops):
        if len(part):
            breaks = np.flatnonzero(np.diff(part) != 1) + 1
            starts = part[np.concatenate([[0], breaks])]
            ends = part[np.concatenate([breaks, [len(part)]]) - 1] + 1
            yield np.stack([starts, ends], axis=1)
