"""Plans with several lanes: shares of one epoch that are delivered side by side. Pure.

A batch has rows of every lane, lane after lane; see `ReadPlan.lane_of`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fastload.plan.intervals import edges_of
from fastload.plan.read_plan import ReadPlan, WindowCuts, shuffled_parts, window_cuts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastload.plan.intervals import Int64s
    from fastload.plan.options import Options
    from fastload.plan.rank_split import Share
    from fastload.plan.sequence import EpochSequence, ShuffleWindows

__all__ = ["LaneCuts", "in_lanes", "lane_cuts", "shuffled_lanes"]


@dataclass(frozen=True, slots=True, eq=False)
class LaneCuts:
    """Shares of one epoch, cut at its shuffle windows. They are the same for every order of rows.

    Attributes:
        windows: the windows, in the order in which batches need them.
        lane_of: lane of each window, (V,).
        batch_edges: rows before each batch's rows of each lane, and all rows; as in a ReadPlan.
        repeats: rows of each lane that repeat others, (lanes,).
    """

    windows: WindowCuts
    lane_of: Int64s
    batch_edges: Int64s
    repeats: Int64s


def lane_cuts(windows: ShuffleWindows, shares: Sequence[Share], batch_size: int) -> LaneCuts:
    """Cut shares at the edges of windows; each share is a lane.

    Args:
        windows: the shuffle windows of the epoch.
        shares: positions of the epoch to deliver, of as many batches each.
        batch_size: rows of a lane in each batch.
    """
    intervals = [share.intervals for share in shares]
    lane = np.repeat(np.arange(len(shares)), [len(of_lane) for of_lane in intervals])
    rows = np.array([share.rows for share in shares])
    cuts = window_cuts(windows, np.concatenate(intervals), lane)
    lane_of = lane[cuts.interval]
    # In the order in which batches need the windows.
    before = edges_of(cuts.takes[:, 1] - cuts.takes[:, 0])[cuts.begins[:-1]]
    first_batch = (before - edges_of(rows)[lane_of]) // batch_size
    order = np.lexsort((lane_of, first_batch))
    takes, begins = _gathered([cuts.takes], [cuts.begins], order)
    # The rows of each batch, lane after lane.
    ends = np.arange(-(-int(rows.max()) // batch_size) + 1) * batch_size
    of_batches = np.diff(np.minimum(ends[:, np.newaxis], rows), axis=0)
    return LaneCuts(
        WindowCuts(
            cuts.touched[order],
            cuts.starts[order],
            cuts.stops[order],
            takes,
            begins,
            cuts.interval[order],
        ),
        lane_of[order],
        edges_of(of_batches.ravel()),
        np.array([share.repeats for share in shares], np.int64),
    )


def shuffled_lanes(
    sequence: EpochSequence, options: Options, epoch: int, cuts: LaneCuts
) -> ReadPlan:
    """Plan the rows of several shares of a shuffled epoch, side by side.

    Args:
        sequence: the sequence of the epoch.
        options: the dataset's parameters, with `shuffle`; `batch_size` counts the rows of a lane.
        epoch: number of the epoch.
        cuts: the shares, cut at the windows of the epoch.
    """
    pieces, takes, offsets, keys = shuffled_parts(sequence, cuts.windows, (options.seed, epoch))
    pads = options.uneven == "pad"
    return ReadPlan(
        options.batch_size * len(cuts.repeats),
        int(cuts.batch_edges[-1]),
        0,
        True,
        pieces,
        takes,
        offsets,
        keys,
        seed=options.seed,
        epoch=epoch,
        batch_edges=cuts.batch_edges,
        lane_of=cuts.lane_of,
        lane_padding=cuts.repeats if pads else np.zeros_like(cuts.repeats),
    )


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
