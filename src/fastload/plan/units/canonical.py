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
from typing import TYPE_CHECKING

import numpy as np

from fastload.plan.intervals import edges_of
from fastload.plan.rank_split import RankSplit, Share, whole_epoch
from fastload.plan.read_plan import ReadPlan
from fastload.plan.steps import step_of_leg
from fastload.plan.units.units import RowUnits, Units

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fastload.plan.intervals import Int64s
    from fastload.plan.options import Options
    from fastload.plan.position import Position, WorkerSlot
    from fastload.plan.progress import Leg
    from fastload.plan.sequence import RowGroups
    from fastload.plan.steps import StepOfLeg, StepShare

__all__ = [
    "CanonicalUnits",
    "in_lanes",
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


def row_units(row_groups: RowGroups, options: Options) -> Units:
    """Return the units of a dataset whose batches have a fixed number of rows."""
    units = RowUnits(row_groups, slice_options(options))
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

    @property
    def varies(self) -> bool:
        """True if epochs may have different numbers of steps."""
        return self.units.varies

    def total(self, at: Position) -> int:
        """Return the number of steps of an epoch."""
        return self._split(at).most

    def batches(self, at: Position, world: int, rank: int | None) -> int:
        """Return the steps that are left after a position: as many for every rank."""
        slices_of_rank(self._slices, 0, world)
        return super().batches(_of_all_ranks(at), 1, None if rank is None else 0)

    def share(self, at: Position, part: WorkerSlot, rank: int) -> Share:
        """Return the steps that a worker delivers after a position, and the rank's slices."""
        slices = slices_of_rank(self._slices, rank, part.world)
        steps = super().share(_of_all_ranks(at), replace(part, world=1), 0)
        return replace(steps, slices=slices)

    def steps_left(self, at: Position, part: WorkerSlot) -> int:
        """Return the steps that are left after a position, `skip_steps` included."""
        return super().steps_left(_of_all_ranks(at), replace(part, world=1))

    def step_shares(
        self, at: Position, steps: Sequence[StepOfLeg], rank: int | None
    ) -> Iterator[StepShare]:
        """Yield the steps, with the slices of each rank."""
        for step in steps:
            (share,) = super().step_shares(at, [step_of_all_ranks(step)], None)
            for number in step.ranks(rank):
                slices = slices_of_rank(self._slices, number, step.world)
                yield share._replace(share=replace(share.share, slices=slices))

    def check(self, at: Position) -> None:
        """Raise a ValueError if the units can't have made the progress of a position."""
        super().check(_of_all_ranks(at))

    def read_plan(self, at: Position, mine: Share, *, stripe_rows: int, ramp: bool) -> ReadPlan:
        """Plan the rows of a rank's slices in a share of the steps."""
        assert mine.slices is not None
        split = self._split(at)
        batch_size = self.units.options.batch_size
        stripe_rows = max(1, stripe_rows // len(mine.slices) // batch_size) * batch_size
        lanes = []
        for number in mine.slices:
            shares = [split.share(number, a, b) for a, b in mine.positions.tolist()]
            last = shares[-1] if shares else Share(mine.positions, 0, -1)
            positions = [share.positions for share in shares]
            of_slice = replace(last, positions=np.concatenate([mine.positions[:0], *positions]))
            lanes.append(self.units.read_plan(at, of_slice, stripe_rows=stripe_rows, ramp=ramp))
        return in_lanes(lanes)

    def _split(self, at: Position) -> RankSplit:
        options = self.units.options
        total = self.units.total(at)
        positions = whole_epoch(total, options)
        return RankSplit(positions, self._slices, options, options.limited(total))


def in_lanes(plans: Sequence[ReadPlan]) -> ReadPlan:
    """Return one plan whose batches are the batches of several plans, one after another.

    Args:
        plans: the plans, of one seed and epoch, with as many batches each.
    """
    if len(plans) == 1:
        return plans[0]
    edges = [_batch_edges(plan) for plan in plans]
    # The rows of each batch, lane after lane.
    parts = np.stack([np.diff(of_lane) for of_lane in edges], axis=1)
    first_batch, lane_of = [], []
    for lane, (plan, of_lane) in enumerate(zip(plans, edges, strict=True)):
        takes = edges_of(plan.takes[:, 1] - plan.takes[:, 0])
        first_row = takes[plan.windows[:-1, 1]]
        first_batch.append(np.searchsorted(of_lane, first_row, side="right") - 1)
        lane_of.append(np.full(len(first_row), lane, np.int64))
    lanes = np.concatenate(lane_of)
    # In the order in which batches need the windows.
    order = np.lexsort((lanes, np.concatenate(first_batch)))
    pieces, piece_edges = _gathered(
        [plan.pieces for plan in plans], [plan.windows[:, 0] for plan in plans], order
    )
    takes, take_edges = _gathered(
        [plan.takes for plan in plans], [plan.windows[:, 1] for plan in plans], order
    )
    first = plans[0]
    segments, orders = first.segments, first.orders
    if any(len(plan.segments) for plan in plans):
        segment_edges = [np.append(plan.takes[:, 0], len(plan.segments)) for plan in plans]
        segments, ends = _gathered([plan.segments for plan in plans], segment_edges, order)
        takes = np.stack([ends[:-1], ends[1:]], axis=1)
    if any(len(plan.orders) for plan in plans):
        orders, _ = _gathered(
            [plan.orders for plan in plans], [_row_edges(plan) for plan in plans], order
        )
    return ReadPlan(
        sum(plan.batch_rows for plan in plans),
        int(parts.sum()),
        0,
        shuffled=first.shuffled,
        pieces=pieces,
        takes=takes,
        windows=np.stack([piece_edges, take_edges], axis=1),
        keys=np.concatenate([plan.keys for plan in plans])[order],
        seed=first.seed,
        epoch=first.epoch,
        batch_edges=edges_of(parts.ravel()),
        orders=orders,
        segments=segments,
        lane_of=lanes[order],
        lane_padding=np.array([plan.padding for plan in plans], np.int64),
        copies=np.concatenate([plan.copies for plan in plans]),
        piece_copies=_piece_copies(plans, order),
    )


def _piece_copies(plans: Sequence[ReadPlan], order: Int64s) -> Int64s:
    """Return `piece_copies` of the pieces of several plans, windows in a common order."""
    if not len(plans[0].piece_copies):
        return plans[0].piece_copies
    before = edges_of(np.array([len(plan.copies) for plan in plans], np.int64))
    shifted = [plan.piece_copies + b for plan, b in zip(plans, before.tolist(), strict=False)]
    return _gathered(shifted, [plan.windows[:, 0] for plan in plans], order)[0]


def _of_all_ranks(at: Position) -> Position:
    """Return a position whose progress counts steps of all ranks, not batches of one."""
    return replace(at, progress=merged_ranks(at.progress))


def _batch_edges(plan: ReadPlan) -> Int64s:
    if len(plan.batch_edges):
        return plan.batch_edges
    return np.minimum(np.arange(plan.batches + 1) * plan.batch_rows, plan.rows)


def _row_edges(plan: ReadPlan) -> Int64s:
    """Return the rows of the pieces before each window, and of all pieces."""
    rows: Int64s = edges_of(plan.pieces[:, 3] - plan.pieces[:, 2])[plan.windows[:, 0]]
    return rows


def _gathered(
    arrays: Sequence[np.ndarray],
    edges: Sequence[Int64s],
    order: Int64s,
) -> tuple[np.ndarray, Int64s]:
    """Put the windows' parts of several arrays into a common order.

    Args:
        arrays: one array a plan, (n, ...).
        edges: the edges of the windows' parts in each array, (windows + 1,).
        order: numbers of all windows, plan after plan, in their order.

    Returns:
        The parts one after another, and the edges of the windows in them.
    """
    offsets = np.cumsum([0, *(len(array) for array in arrays[:-1])])
    starts = np.concatenate([e[:-1] + o for e, o in zip(edges, offsets, strict=True)])[order]
    counts = np.concatenate([np.diff(e) for e in edges])[order]
    ends = edges_of(counts)
    index = np.repeat(starts - ends[:-1], counts) + np.arange(ends[-1])
    return np.concatenate(arrays)[index], ends
