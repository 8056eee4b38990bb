"""Steps that are the same on every number of ranks: canonical slices. Pure.

The epoch's sequence of units is cut into K slices, K = `canonical_ranks`, and a step takes as many
units of each slice. So the units of a step don't depend on the number of ranks. W ranks, where W
divides K, share out the slices: a rank delivers, in each step, the units of its K / W slices.
Progress is a set of steps, which all ranks deliver together.

    K = 4 slices, 2 units of each in a step      step 0   step 1   step 2
    slice 0  . . . . . .                          . .      . .      . .     rank 0 of 2
    slice 1  . . . . . .                          . .      . .      . .     rank 0 of 2
    slice 2  . . . . . .                          . .      . .      . .     rank 1 of 2
    slice 3  . . . . . .                          . .      . .      . .     rank 1 of 2

A slice is planned like the share of one of K ranks. The plan of a rank has one lane for each of
its slices (see `ReadPlan.lane_of`): the lanes are read side by side, and share the rank's memory.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from fastload.plan.permutation import permutation
from fastload.plan.rank_split import RankSplit, Share, whole_epoch
from fastload.plan.steps import step_of_leg
from fastload.plan.units.units import RowUnits, Units

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from fastload.plan.options import Options, Window
    from fastload.plan.permutation import Permute
    from fastload.plan.position import Leg, Position, WorkerSlot
    from fastload.plan.read_plan import ReadPlan
    from fastload.plan.sequence import RowGroups
    from fastload.plan.steps import StepOfLeg, StepShare

__all__ = [
    "CanonicalUnits",
    "check_ranks",
    "merged_ranks",
    "row_units",
    "slice_options",
    "slices_of_rank",
    "step_of_all_ranks",
]


def slice_options(options: Options) -> Options:
    """Return the parameters of one canonical slice; `options` itself if there are none.

    A batch is then what a slice has in a step, and the slices together mix as many rows as
    `shuffle_window` says.
    """
    slices = options.canonical_ranks
    if slices is None:
        return options
    return replace(
        options,
        batch_size=options.batch_size // slices,
        shuffle_window=max(1, options.shuffle_window // slices),
    )


def slices_of_rank(slices: int, rank: int, world: int) -> range:
    """Return which of `slices` canonical slices a rank of `world` delivers.

    Raises:
        ValueError: `world` does not divide the number of slices.
    """
    if slices % world:
        raise ValueError(
            f"Expected a world_size that divides canonical_ranks={slices}, got {world}"
        )
    each = slices // world
    return range(rank * each, (rank + 1) * each)


def merged_ranks(legs: Sequence[Leg]) -> tuple[Leg, ...]:
    """Return legs that count steps of all ranks, not batches of one rank."""
    return tuple(replace(leg, world=1) for leg in legs)


def step_of_all_ranks(step: StepOfLeg) -> StepOfLeg:
    """Return a step in the leg that a run of one rank would have delivered the step in.

    Legs with as many workers are one such leg, whatever their numbers of ranks.
    """
    legs = merged_ranks(step.before)
    return step_of_leg(legs, 1, step.workers, step.first + step.number)


def check_ranks(slices: int, progress: Iterable[Leg]) -> None:
    """Raise a ValueError if a leg has a number of ranks that does not divide the slices."""
    for leg in progress:
        if slices % leg.world:
            raise ValueError(
                "Expected a state of runs whose number of ranks divides canonical_ranks="
                f"{slices}, got progress on {leg.world} ranks"
            )


def row_units(row_groups: RowGroups, options: Options, permute: Permute = permutation) -> Units:
    """Return the units of a dataset whose batches have a fixed number of rows.

    Args:
        row_groups: all row groups, in canonical order.
        options: the dataset's parameters.
        permute: as for `RowUnits`.
    """
    units = RowUnits(row_groups, slice_options(options), permute)
    if options.canonical_ranks is None:
        return units
    return CanonicalUnits(units, options.canonical_ranks)


class CanonicalUnits(Units):
    """Units that are steps, each of as many units of K slices.

    Args:
        units: the units that slices consist of; a batch of them is what a slice has in a step.
        slices: number of slices, K.

    Attributes:
        options: the dataset's parameters, where a batch is one step.
        units: the units that slices consist of.
    """

    def __init__(self, units: Units, slices: int) -> None:
        self.options = replace(
            units.options, batch_size=1, limit=None, offset=0, uneven="keep", drop_last=False
        )
        self.units = units
        self._slices = slices
        # The shares of slices for the latest share, with what they were computed from.
        self._latest_shares: tuple[tuple[Any, ...], list[Share]] | None = None

    def use_window(self, window: Window) -> None:
        """Replace the shuffle windows of all epochs; the slices together have `window.rows`."""
        self.units.use_window(window._replace(rows=max(1, window.rows // self._slices)))
        self.options = self.options.in_windows(window)
        self._latest_shares = None

    @property
    def varies(self) -> bool:
        """True if epochs may have different numbers of steps."""
        return self.units.varies

    def total(self, at: Position) -> int:
        """Return the number of steps of an epoch."""
        return self._split(at).most

    def foresee(self, at: Callable[[], Position]) -> None:
        """Begin to find the units that slices consist of, as `Units.foresee` does."""
        self.units.foresee(at)

    def close(self) -> None:
        """End the thread of `foresee`. Idempotent."""
        self.units.close()

    def prepare(self, at: Position, mine: Share) -> Iterator[None]:
        """Order the row groups of an epoch, as the first step of the slices' units does."""
        return islice(self.units.prepare(at, mine), 1)

    def batches(self, at: Position, world: int, rank: int | None) -> int:
        """Return the steps that are left after a position: as many for every rank."""
        slices_of_rank(self._slices, 0, world)
        return super().batches(_of_all_ranks(at), 1, None if rank is None else 0)

    def share(self, at: Position, part: WorkerSlot) -> Share:
        """Return the steps that a worker delivers after a position, and the rank's slices."""
        slices = slices_of_rank(self._slices, part.rank, part.world)
        steps = super().share(_of_all_ranks(at), replace(part, world=1, rank=0))
        return replace(steps, slices=slices)

    def step_shares(
        self, at: Position, steps: Iterable[StepOfLeg], rank: int | None
    ) -> Iterator[StepShare]:
        """Yield the steps, with the slices of each rank."""
        for step in steps:
            (share,) = super().step_shares(at, [step_of_all_ranks(step)], None)
            for number in step.ranks(rank):
                slices = slices_of_rank(self._slices, number, step.world)
                yield share._replace(share=replace(share.share, slices=slices))

    def check(self, at: Position) -> None:
        """Raise a ValueError if the units can't have made the progress of a position."""
        check_ranks(self._slices, at.progress)
        super().check(_of_all_ranks(at))

    def read_plan(self, at: Position, mine: Share, *, stripe_rows: int, ramp: bool) -> ReadPlan:
        """Plan the rows of a rank's slices in a share of the steps."""
        assert mine.slices is not None
        batch_size = self.units.options.batch_size
        stripe_rows = max(1, stripe_rows // len(mine.slices) // batch_size) * batch_size
        shares = self._of_slices(at, mine)
        return self.units.lanes_plan(at, shares, stripe_rows=stripe_rows, ramp=ramp)

    def _of_slices(self, at: Position, mine: Share) -> list[Share]:
        """Return the units of each slice in a share of the steps."""
        assert mine.slices is not None
        name = (self.units.total(at), mine.slices)
        latest = self._latest_shares
        if latest is None or latest[0][0] is not mine.positions or latest[0][1:] != name:
            split, steps = self._split(at), mine.positions.tolist()
            shares = [_joined([split.share(k, a, b) for a, b in steps]) for k in mine.slices]
            self._latest_shares = latest = (mine.positions, *name), shares
        return latest[1]

    def _split(self, at: Position) -> RankSplit:
        options = self.units.options
        total = self.units.total(at)
        positions = whole_epoch(total, options)
        return RankSplit(positions, self._slices, options, options.limited(total))


def _joined(shares: Sequence[Share]) -> Share:
    """Return one share that delivers several shares in turn; only the last may repeat a row."""
    parts = [np.zeros((0, 2), np.int64), *(share.positions for share in shares)]
    repeated = shares[-1].repeated if shares else -1
    return Share(np.concatenate(parts), sum(share.repeats for share in shares), repeated)


def _of_all_ranks(at: Position) -> Position:
    """Return a position whose progress counts steps of all ranks, not batches of one."""
    return replace(at, progress=merged_ranks(at.progress))
