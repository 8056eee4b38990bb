"""The plan of an epoch: which rows of which row groups a worker delivers, in what order.

Pure: from row counts, seed, epoch, rank, worker, options and progress to a ReadPlan; no I/O,
torch or clock. A position is an index into the epoch's one sequence of rows, which depends on
none of world, workers and threads; `progress` says which positions a worker delivers, this
module where they lie.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fastload.plan.intervals import Int64s, cut, edges_of
from fastload.plan.options import Options, Uneven
from fastload.plan.permutation import permutation, stream_key, stream_keys
from fastload.plan.progress import Leg, advance, batches, remaining_rows, share, turn
from fastload.plan.sequence import ROW_GROUP_STREAM, EpochSequence, RowGroups, row_group_order

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastload.plan.rank_split import Share

__all__ = [
    "Leg",
    "Options",
    "ReadPlan",
    "RowGroups",
    "Uneven",
    "advance",
    "batches",
    "epoch_rows",
    "permutation",
    "read_plan",
    "remaining_rows",
    "row_group_order",
    "row_group_plan",
    "rows_of",
    "share_of",
    "share_plan",
    "stream_key",
    "turn",
    "window_edges",
]

# The third part, after seed and epoch, in the name of a stream of random numbers.
_WINDOW_STREAM = 1
# Edges of windows are computed as uint64 products of two numbers up to the window count.
_MOST_WINDOWS = 2**32 - 1


@dataclass(frozen=True, slots=True, eq=False)
class ReadPlan:
    """What the core reads and delivers, window by window; all arrays are C-contiguous.

    Window v reads `pieces[windows[v, 0]:windows[v + 1, 0]]`, one after the other, permutes the
    rows by `permutation(rows, keys[v])` if `shuffled`, and delivers of the result the ranges
    `takes[windows[v, 1]:windows[v + 1, 1]]`. The delivered rows of all windows, cut every
    `batch_rows` rows, are the batches; a batch may span windows, and the last may be short.
    """

    batch_rows: int
    rows: int  # delivered rows, repeated ones included
    padding: int  # of those, how many at the very end are marked invalid
    shuffled: bool
    pieces: Int64s  # (P, 4): file, row group in the file, start row and stop row in that
    takes: Int64s  # (T, 2): start and stop in the window's permuted rows
    windows: Int64s  # (V + 1, 2): offsets into pieces and takes
    keys: NDArray[np.uint64]  # (V,): zeros unless shuffled
    # (S,): indices of pieces whose rows stand in for unreadable ones, and are not real.
    substitutes: Int64s = field(default_factory=lambda: np.zeros(0, np.int64))
    # What the seeds of its rows depend on, beside the rows.
    seed: int = 0
    epoch: int = 0

    @property
    def batches(self) -> int:
        """Batches delivered."""
        return -(-self.rows // self.batch_rows)


def read_plan(
    row_groups: RowGroups,
    options: Options,
    epoch: int,
    progress: Sequence[Leg],
    world: int,
    rank: int,
    workers: int = 1,
    worker: int = 0,
    *,
    stripe_rows: int,
    ramp: bool = False,
    skip_batches: int = 0,
) -> ReadPlan:
    """What `worker` of `rank` delivers of an epoch after `progress`.

    Args:
        row_groups: all row groups in canonical order.
        options: the dataset's parameters.
        epoch: number of the epoch; it changes the order with `options.shuffle` only.
        progress: what was delivered of this epoch before, by legs.
        world: number of ranks.
        rank: this one.
        workers: DataLoader workers of each rank; 0 counts as 1.
        worker: this one.
        stripe_rows: rows of one window of the plan without shuffle, a multiple of the batch
            size: how the reading is cut into units of work, not what is delivered. Where few
            rows of row groups stay, a window has fewer: about so many stored ones.
        ramp: the first of these windows has the rows of one batch, those that follow as many as
            all before them, for as long as that is less than stripe_rows: the first batch is soon
            there, and who takes half of what can be had waits for none of the others.
        skip_batches: how many of this worker's own batches to leave out at the start.

    Raises:
        ValueError: a number is out of its range, or `progress` claims more batches than it had.
    """
    shape = (world, rank, workers, worker)
    mine = share_of(row_groups, options, progress, *shape, skip_batches=skip_batches)
    return share_plan(row_groups, options, epoch, mine, stripe_rows=stripe_rows, ramp=ramp)


def share_of(
    row_groups: RowGroups,
    options: Options,
    progress: Sequence[Leg],
    world: int,
    rank: int,
    workers: int = 1,
    worker: int = 0,
    *,
    skip_batches: int = 0,
) -> Share:
    """The positions of an epoch that `worker` of `rank` delivers; arguments as `read_plan`."""
    shape = (world, rank, workers, worker)
    return share(row_groups.total_rows, options, progress, *shape, skip_batches)


def share_plan(
    row_groups: RowGroups,
    options: Options,
    epoch: int,
    mine: Share,
    *,
    stripe_rows: int,
    ramp: bool = False,
) -> ReadPlan:
    """Where the rows of a share lie.

    Args:
        row_groups: all row groups in canonical order.
        options: the dataset's parameters.
        epoch: number of the epoch.
        mine: positions of that epoch.
        stripe_rows: as `read_plan` takes them.
        ramp: as `read_plan` takes it.

    Raises:
        ValueError: a number is out of its range.
    """
    if stripe_rows < 1 or stripe_rows % options.batch_size:
        raise ValueError(
            f"Expected stripe_rows to be a multiple of {options.batch_size} (batch_size), "
            f"got {stripe_rows}"
        )
    intervals = mine.positions
    if mine.repeats:
        again = np.array([[mine.repeated, mine.repeated + 1]], np.int64)
        intervals = np.concatenate([intervals, again])
    order = row_group_order(len(row_groups.rows), options, epoch)
    padding = mine.repeats if options.uneven == "pad" else 0
    sequence = EpochSequence(row_groups, order)
    if not options.shuffle:
        first_rows = options.batch_size if ramp else stripe_rows
        parts = _striped(sequence, intervals, first_rows, stripe_rows)
    else:
        parts = _shuffled(sequence, intervals, options, epoch)
    pieces, takes, windows, keys = parts
    return ReadPlan(
        options.batch_size,
        mine.rows,
        padding,
        options.shuffle,
        pieces,
        takes,
        windows,
        keys,
        seed=options.seed,
        epoch=epoch,
    )


def row_group_plan(
    file: int, row_group: int, rows: int, batch_rows: int, stripe_rows: int
) -> ReadPlan:
    """All of one row group in order, of which so many rows stay, as `read_plan` has it."""
    starts = np.arange(0, rows, stripe_rows)
    count = len(starts)
    pieces = np.empty((count, 4), np.int64)
    pieces[:, 0], pieces[:, 1], pieces[:, 2] = file, row_group, starts
    pieces[:, 3] = np.minimum(starts + stripe_rows, rows)
    takes = np.zeros((count, 2), np.int64)
    takes[:, 1] = pieces[:, 3] - starts
    windows = np.arange(count + 1).repeat(2).reshape(-1, 2)
    return ReadPlan(batch_rows, rows, 0, False, pieces, takes, windows, np.zeros(count, np.uint64))


def window_edges(total_rows: int, window: int, number: Int64s) -> Int64s:
    """The positions where shuffle windows begin.

    Args:
        total_rows: of the epoch.
        window: options.shuffle_window.
        number: of each window, (n,); that of the last and one more is its end.
    """
    count = _window_count(total_rows, window)
    whole, rest = divmod(total_rows, count)
    fraction = number.astype(np.uint64) * np.uint64(rest) // np.uint64(count)
    edges: Int64s = number * whole + fraction.astype(np.int64)
    return edges


def _window_count(total_rows: int, window: int) -> int:
    """The number of shuffle windows of an epoch of so many rows.

    Raises:
        ValueError: they are too many.
    """
    count = max(1, total_rows // window)
    if count > _MOST_WINDOWS:
        raise ValueError(
            f"Expected at most 2**32 - 1 shuffle windows, got {count}: "
            f"shuffle_window is {window} rows of {total_rows}"
        )
    return count


def _window_of(position: int, total_rows: int, count: int) -> int:
    """The number of the shuffle window, of so many, that a position lies in."""
    # Window i begins at i * total // count.
    return ((position + 1) * count - 1) // total_rows


_Parts = tuple[Int64s, Int64s, Int64s, NDArray[np.uint64]]  # the arrays of a ReadPlan


def _shuffled(sequence: EpochSequence, intervals: Int64s, options: Options, epoch: int) -> _Parts:
    """Each window that the intervals touch, whole, with what is taken of it."""
    if not len(intervals):
        return _no_parts()
    total = sequence.rows
    count = _window_count(total, options.shuffle_window)
    ends = (int(intervals[:, 0].min()), int(intervals[:, 1].max()) - 1)
    first, last = (_window_of(position, total, count) for position in ends)
    number = np.arange(first, last + 2)
    edges = window_edges(total, options.shuffle_window, number)

    cuts = cut(edges, intervals[:, 0], intervals[:, 1])
    takes = np.stack([cuts.start, cuts.stop], axis=1) - edges[cuts.cell, np.newaxis]
    begins = np.flatnonzero(np.diff(cuts.cell, prepend=-1))
    touched = cuts.cell[begins]
    pieces, piece_count = sequence.pieces(edges[touched], edges[touched + 1])
    windows = np.stack([edges_of(piece_count), np.append(begins, len(takes))], axis=1)
    keys = stream_keys((options.seed, epoch, _WINDOW_STREAM), number[touched])
    return pieces, takes, windows, keys


def _striped(
    sequence: EpochSequence, intervals: Int64s, first_rows: int, stripe_rows: int
) -> _Parts:
    """The rows of the intervals, cut into stripes; the first has `first_rows` rows."""
    if not len(intervals):
        return _no_parts()
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


def _no_parts() -> _Parts:
    nothing = np.zeros((0, 2), np.int64)
    first = np.zeros((1, 2), np.int64)
    return np.zeros((0, 4), np.int64), nothing, first, np.zeros(0, np.uint64)


def rows_of(plan: ReadPlan) -> Int64s:
    """Every row that a plan delivers, in order: int64 (rows, 3).

    The columns are file, row group in the file and row in the row group. This is the slow and
    plain reading of a plan, the oracle of the core.
    """
    delivered = [np.zeros((0, 3), np.int64)]
    for v, key in enumerate(plan.keys.tolist()):
        (piece, take), (piece_stop, take_stop) = plan.windows[v : v + 2].tolist()
        window = np.concatenate([_piece_rows(*p) for p in plan.pieces[piece:piece_stop].tolist()])
        if plan.shuffled:
            window = window[permutation(len(window), key)]
        delivered += [window[a:b] for a, b in plan.takes[take:take_stop].tolist()]
    return np.concatenate(delivered)


def epoch_rows(row_groups: RowGroups, options: Options, epoch: int) -> Int64s:
    """The epoch's whole sequence, int64 (N, 3) with the columns of `rows_of`.

    Straight from the definition, in memory, and shares none of `read_plan`'s arithmetic: its
    oracle.
    """
    order = range(len(row_groups.rows))
    if options.shuffle:
        key = stream_key(options.seed, epoch, ROW_GROUP_STREAM)
        order = permutation(len(order), key).tolist()
    parts = [np.zeros((0, 3), np.int64)]
    for g in order:
        rows = int(row_groups.rows[g])
        parts.append(_piece_rows(int(row_groups.file[g]), int(row_groups.index[g]), 0, rows))
    sequence = np.concatenate(parts)
    if options.shuffle:
        total = len(sequence)
        count = max(1, total // options.shuffle_window)
        for w in range(count):
            window = sequence[w * total // count : (w + 1) * total // count]
            key = stream_key(options.seed, epoch, _WINDOW_STREAM, w)
            window[:] = window[permutation(len(window), key)]
    return sequence[: options.limited(len(sequence))]


def _piece_rows(file: int, row_group: int, start: int, stop: int) -> Int64s:
    row = np.arange(start, stop)
    return np.stack([np.full_like(row, file), np.full_like(row, row_group), row], axis=1)
