"""The plan of an epoch: which rows of which row groups a worker delivers, in what order.

Pure: the functions compute a ReadPlan from row counts, seed, epoch, rank, worker, options and
progress, without I/O, torch or clock. A position is an index into the epoch's one sequence of
rows, which does not depend on ranks, workers or threads. Module `position` decides which positions
a worker delivers; this module finds the row groups in which the positions lie.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from fastload.plan.intervals import Int64s, cut, edges_of
from fastload.plan.permutation import stream_keys
from fastload.plan.position import share
from fastload.plan.sequence import WINDOW_STREAM, EpochSequence, ShuffleWindows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fastload.plan.options import Options
    from fastload.plan.position import WorkerSlot
    from fastload.plan.rank_split import Share
    from fastload.plan.sequence import RowGroups

    Arrays = tuple[Int64s, Int64s, Int64s, NDArray[np.uint64]]
    """The `pieces`, `takes`, `windows` and `keys` of a ReadPlan."""

__all__ = [
    "PADDING",
    "ReadPlan",
    "WindowCuts",
    "read_plan",
    "row_group_plan",
    "share_plan",
    "shuffled_parts",
    "striped_parts",
    "window_cuts",
]

PADDING = 2**32 - 1
"""The row of a segment that is padding."""


@dataclass(frozen=True, slots=True, eq=False)
class ReadPlan:
    """The rows that the core reads and delivers, window by window.

    Window v reads `pieces[windows[v, 0]:windows[v + 1, 0]]`, one after the other, permutes the
    rows by `permutation(rows, keys[v])` if `shuffled`, and delivers of the result the ranges
    `takes[windows[v, 1]:windows[v + 1, 1]]`. The delivered rows of all windows, cut every
    `batch_rows` rows, are the batches; a batch may span windows, and the last may be short.
    All arrays are C-contiguous.

    Attributes:
        batch_rows: rows of a batch.
        rows: number of delivered rows, repeated rows included.
        padding: number of delivered rows, at the very end, that are marked invalid.
        shuffled: permute the rows of each window.
        pieces: file, row group in the file, start row and stop row in the row group, (P, 4).
        takes: start and stop in the window's permuted rows, (T, 2).
        windows: offsets into `pieces` and `takes`, (V + 1, 2).
        keys: key of each window's permutation, (V,); zeros unless `shuffled`.
        substitutes: indices of pieces whose rows stand in for unreadable rows, (S,). Rows of
            these pieces are marked as not real.
        seed: seed of the dataset, from which the seeds of rows are made.
        epoch: number of the epoch, from which the seeds of rows are made.
        batch_edges: rows before each batch, then all rows, (batches + 1,); () = each batch has
            `batch_rows` rows, but for the last.
        orders: the rows of all windows, each in the order of its positions, in place of the
            permutations by `keys`; () = by `keys`.
        segments: if the plan is packed, the segments of lists that the batches' rows are, (rows,
            4) as in `packing`; then takes are ranges of segments.
        lane_of: lane of each window, (V,); () = there is one lane. The rows of each lane come in
            the order of its windows, and a batch takes rows of lane 0, then of lane 1, ...
        lane_padding: number of rows of each lane, at the lane's end, that are marked invalid.
            With lanes, `batch_edges` holds the rows before each batch's part of each lane.
        copies: for row groups that pieces read, the number of copies of each row that stays.
        piece_copies: index in `copies` of the first row of each piece's row group, (P,); the
            pieces then count copies of rows. () = each row comes once.
    """

    batch_rows: int
    rows: int
    padding: int
    shuffled: bool
    pieces: Int64s
    takes: Int64s
    windows: Int64s
    keys: NDArray[np.uint64]
    substitutes: Int64s = field(default_factory=lambda: np.zeros(0, np.int64))
    seed: int = 0
    epoch: int = 0
    batch_edges: Int64s = field(default_factory=lambda: np.zeros(0, np.int64))
    orders: NDArray[np.uint32] = field(default_factory=lambda: np.zeros(0, np.uint32))
    segments: NDArray[np.uint32] = field(default_factory=lambda: np.zeros((0, 4), np.uint32))
    lane_of: Int64s = field(default_factory=lambda: np.zeros(0, np.int64))
    lane_padding: Int64s = field(default_factory=lambda: np.zeros(0, np.int64))
    copies: NDArray[np.uint16] = field(default_factory=lambda: np.zeros(0, np.uint16))
    piece_copies: Int64s = field(default_factory=lambda: np.zeros(0, np.int64))

    @property
    def lanes(self) -> int:
        """Number of lanes that a batch takes rows of."""
        return max(1, len(self.lane_padding))

    @property
    def batches(self) -> int:
        """Number of batches delivered."""
        if len(self.batch_edges):
            return (len(self.batch_edges) - 1) // self.lanes
        return -(-self.rows // self.batch_rows)


def read_plan(
    row_groups: RowGroups,
    options: Options,
    epoch: int,
    part: WorkerSlot,
    *,
    stripe_rows: int,
) -> ReadPlan:
    """Plan the rows that the worker in a slot delivers in a whole epoch.

    Args:
        row_groups: all row groups in canonical order.
        options: the dataset's parameters.
        epoch: number of the epoch; it changes the order with `options.shuffle` only.
        part: slot of the worker.
        stripe_rows: as for `share_plan`.

    Raises:
        ValueError: a number is out of its range.
    """
    mine = share(row_groups.total_rows, options, (), part, 0)
    return share_plan(row_groups, options, epoch, mine, stripe_rows=stripe_rows)


def share_plan(
    row_groups: RowGroups,
    options: Options,
    epoch: int,
    mine: Share,
    *,
    stripe_rows: int,
    ramp: bool = False,
    sequence: EpochSequence | None = None,
    cuts: WindowCuts | None = None,
) -> ReadPlan:
    """Plan the rows of a share.

    Args:
        row_groups: all row groups in canonical order.
        options: the dataset's parameters.
        epoch: number of the epoch.
        mine: positions of the epoch to deliver.
        stripe_rows: rows of one window of a plan without shuffle, a multiple of the batch size.
            `stripe_rows` decides how the reading is cut into units of work, not which rows are
            delivered. Where few rows of row groups stay, a window has fewer rows, so that it
            reads about `stripe_rows` stored rows.
        ramp: start with a window of one batch and double the rows read so far with each window,
            up to `stripe_rows`. The first batch comes early, and a consumer at half the loader's
            speed never waits.
        sequence: the sequence of the epoch, if the caller has it.
        cuts: the result of `window_cuts` for the share, if the caller has it; with shuffle.

    Raises:
        ValueError: a number is out of its range.
    """
    if stripe_rows < 1 or stripe_rows % options.batch_size:
        raise ValueError(
            f"Expected stripe_rows to be a multiple of {options.batch_size} (batch_size), "
            f"got {stripe_rows}"
        )
    intervals = mine.intervals
    if sequence is None:
        sequence = EpochSequence.of(row_groups, options, epoch)
    padding = mine.repeats if options.uneven == "pad" else 0
    if not options.shuffle:
        first_rows = options.batch_size if ramp else stripe_rows
        arrays = striped_parts(sequence, intervals, first_rows, stripe_rows)
    else:
        if cuts is None:
            cuts = window_cuts(ShuffleWindows.of(sequence.rows, options), intervals)
        arrays = shuffled_parts(sequence, cuts, (options.seed, epoch))
    return ReadPlan(
        options.batch_size,
        mine.rows,
        padding,
        options.shuffle,
        *arrays,
        seed=options.seed,
        epoch=epoch,
    )


def row_group_plan(
    file: int, row_group: int, rows: int, batch_rows: int, stripe_rows: int
) -> ReadPlan:
    """Plan all rows of one row group, in order.

    Args:
        file: index of the file.
        row_group: index of the row group in the file.
        rows: rows of the row group that stay.
        batch_rows: rows of a batch.
        stripe_rows: rows of a window.
    """
    starts = np.arange(0, rows, stripe_rows)
    count = len(starts)
    pieces = np.empty((count, 4), np.int64)
    pieces[:, 0], pieces[:, 1], pieces[:, 2] = file, row_group, starts
    pieces[:, 3] = np.minimum(starts + stripe_rows, rows)
    takes = np.zeros((count, 2), np.int64)
    takes[:, 1] = pieces[:, 3] - starts
    windows = np.arange(count + 1).repeat(2).reshape(-1, 2)
    return ReadPlan(batch_rows, rows, 0, False, pieces, takes, windows, np.zeros(count, np.uint64))


@dataclass(frozen=True, slots=True, eq=False)
class WindowCuts:
    """The shuffle windows that intervals touch, and what the intervals take of each window.

    Attributes:
        touched: numbers of the windows, (V,); a window comes once for each lane.
        starts: positions at which the windows begin, (V,).
        stops: positions at which the windows end, (V,).
        takes: rows that are taken, counted from the start of their window, (n, 2).
        begins: index of the first take of each window, and the number of takes, (V + 1,).
        interval: number of the interval in which each window begins, (V,).
    """

    touched: Int64s
    starts: Int64s
    stops: Int64s
    takes: Int64s
    begins: Int64s
    interval: Int64s


def window_cuts(
    windows: ShuffleWindows, intervals: Int64s, lane: Int64s | None = None
) -> WindowCuts:
    """Cut intervals at the edges of windows. The result is the same for every order of rows.

    Args:
        windows: the shuffle windows of the epoch.
        intervals: the positions to deliver, (n, 2).
        lane: lane of each interval, ascending, (n,): each lane reads windows of its own; None =
            there is one lane.
    """
    if not len(intervals):
        nothing = np.zeros(0, np.int64)
        takes, begins = np.zeros((0, 2), np.int64), np.zeros(1, np.int64)
        return WindowCuts(nothing, nothing, nothing, takes, begins, nothing)
    ends = (int(intervals[:, 0].min()), int(intervals[:, 1].max()) - 1)
    first, last = map(windows.number_at, ends)
    number = np.arange(first, last + 2)
    edges = windows.edges(number)

    cuts = cut(edges, intervals[:, 0], intervals[:, 1])
    takes = np.stack([cuts.start, cuts.stop], axis=1) - edges[cuts.cell, np.newaxis]
    new = np.diff(cuts.cell, prepend=-1) != 0
    if lane is not None:
        new |= np.diff(lane[cuts.owner], prepend=-1) != 0
    begins = np.flatnonzero(new)
    cell = cuts.cell[begins]
    begins = np.append(begins, len(takes))
    starts, stops = edges[cell], edges[cell + 1]
    return WindowCuts(number[cell], starts, stops, takes, begins, cuts.owner[begins[:-1]])


def shuffled_parts(sequence: EpochSequence, cuts: WindowCuts, name: tuple[int, int]) -> Arrays:
    """Read each window that intervals touch as a whole, and take the intervals' rows of it.

    Args:
        sequence: the rows of the epoch.
        cuts: the windows, and the rows of each that are taken.
        name: seed and epoch.
    """
    pieces, piece_count = sequence.pieces(cuts.starts, cuts.stops)
    offsets = np.stack([edges_of(piece_count), cuts.begins], axis=1)
    keys = stream_keys((*name, WINDOW_STREAM), cuts.touched)
    return pieces, cuts.takes, offsets, keys


def striped_parts(
    sequence: EpochSequence, intervals: Int64s, first_rows: int, stripe_rows: int
) -> Arrays:
    """Cut the rows of the intervals into stripes; the first stripe has `first_rows` rows."""
    if not len(intervals):
        nothing, first = np.zeros((0, 2), np.int64), np.zeros((1, 2), np.int64)
        return np.zeros((0, 4), np.int64), nothing, first, np.zeros(0, np.uint64)
    output = edges_of(intervals[:, 1] - intervals[:, 0])
    rows = output[-1]
    parts = cut(sequence.sparse_edges(stripe_rows), intervals[:, 0], intervals[:, 1])
    into = parts.start - intervals[parts.owner, 0]
    ramp = first_rows * 2 ** np.arange((stripe_rows // first_rows).bit_length())
    regular = np.concatenate([[0], ramp, np.arange(ramp[-1] + stripe_rows, rows, stripe_rows)])
    regular = np.append(regular[regular < rows], rows)
    stripes = np.union1d(regular, (output[parts.owner] + into)[into > 0])
    cuts = cut(stripes, output[:-1], output[1:])
    shift = intervals[cuts.owner, 0] - output[cuts.owner]
    pieces, piece_count = sequence.pieces(cuts.start + shift, cuts.stop + shift)
    begins = np.append(np.flatnonzero(np.diff(cuts.cell, prepend=-1)), len(cuts.cell))
    takes = np.stack([np.zeros(len(stripes) - 1, np.int64), np.diff(stripes)], axis=1)
    windows = np.stack([edges_of(piece_count)[begins], np.arange(len(stripes))], axis=1)
    return pieces, takes, windows, np.zeros(len(takes), np.uint64)
