"""The batches of one repetition of a source that a worker delivers in a leg. Pure.

A leg deals the batches of a repetition to its workers in contiguous parts, and a worker delivers
its own part in order.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from fastload.plan.rank_split import RankSplit, Share

__all__ = ["SourceShare"]


class SourceShare(NamedTuple):
    """Batches of one repetition of a source that one worker delivers in a leg.

    Attributes:
        seed: seed of the repetition's order.
        split: split over ranks of the positions that were undelivered when the leg began.
        rank: number of the worker's rank in the split.
        slices: the canonical slices that the worker's rank delivers; None = there are no slices.
        batches: numbers of the worker's batches among the rank's batches.
        delivered: how many of these batches, from the first on, were delivered.
    """

    seed: int
    split: RankSplit
    rank: int
    slices: range | None
    batches: range
    delivered: int

    @property
    def share(self) -> Share:
        """Share of the worker that is left to deliver."""
        return self._share(self.batches.start + self.delivered, self.batches.stop)

    @property
    def shares_of_leg(self) -> tuple[Share, Share, Share]:
        """Three shares that together have all batches of the rank in the leg.

        The second share has the batches of the worker, the first share those before, and the third
        share those after.
        """
        first, stop = self.batches.start, self.batches.stop
        return (
            self._share(0, first),
            self._share(first, stop),
            self._share(stop, self.split.most),
        )

    def _share(self, first: int, stop: int) -> Share:
        return replace(self.split.share(self.rank, first, stop), slices=self.slices)
