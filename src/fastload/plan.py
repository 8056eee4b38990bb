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

from fastload.intervals import Int64s, cut, edges_of
from fastload.options import Options, Uneven
from fastload.permutation import permutation, stream_key, stream_keys
from fastload.progress import Leg, Turn, advance, batches, remaining_rows, share, turn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastload.rank_split import Share

__all__ = [
    "Leg",
    "Options",
    "ReadPlan",
    "RowGroups",
    "Turn",
    "Uneven",
    "advance",
    "batches",
    "epoch_rows",
    "permutation",
    "read_plan",
    "remaining_rows",
    "rows_of",
    "share_plan",
    "stream_key",
    "turn",
]

# The second part after seed and epoch in the name of a stream of random numbers.
_ROW_GROUP_STREAM = 0
_WINDOW_STREAM = 1
# A row group of which fewer than one row in so many stays costs what its stored rows cost.
_SPARSE = 4
# Edges of windows are computed as uint64 products of two numbers up to the window count.
_MOST_WINDOWS = 2**32 - 1


@dataclass(frozen=True, slots=True, eq=False)
class RowGroups:
    """All row groups of all files in canonical order; int64 (row groups,) each.

    Raises:
        ValueError: the lengths differ, or a row count is negative.
    """

    rows: Int64s
    file: Int64s  # index of the file
    index: Int64s  # index of the row group in its file
    stored: Int64s | None = None  # rows in the file, where filters leave fewer in `rows`

    def __post_init__(self) -> None:
        arrays = (
            self.rows,
            self.file,
            self.index,
            self.rows if self.stored is None else self.stored,
        )
        if len({len(array) for array in arrays}) > 1:
            raise ValueError(
                "Expected rows, file, index and stored of equal lengths, got "
                f"{', '.join(str(len(array)) for array in arrays)}"
            )
        if len(self.rows) and self.rows.min() < 0:
            raise ValueError(f"Expected row counts of at least 0, got {self.rows.min()}")

    @property
    def total_rows(self) -> int:
        """Rows of all row groups."""
        return int(self.rows.sum())


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
        skip_batches: how many of this worker's own batches to leave out at the start.

    Raises:
        ValueError: a number is out of its range, or `progress` claims more batches than it had.
    """
    total = row_groups.total_rows
    mine = share(total, options, progress, world, rank, workers, worker, skip_batches)
    return share_plan(row_groups, options, epoch, mine, stripe_rows=stripe_rows)


def share_plan(
    row_groups: RowGroups, options: Options, epoch: int, mine: Share, *, stripe_rows: int
) -> ReadPlan:
    """Where the rows of a share lie.

    Args:
        row_groups: all row groups in canonical order.
        options: the dataset's parameters.
        epoch: number of the epoch.
        mine: positions of that epoch.
        stripe_rows: as `read_plan` takes them.

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
    sequence = _Sequence(row_groups, _row_group_order(row_groups, options, epoch))
    padding = mine.repeats if options.uneven == "pad" else 0
    if options.shuffle:
        parts = _shuffled(sequence, intervals, options, epoch, row_groups.total_rows)
    else:
        parts = _striped(sequence, intervals, stripe_rows)
    pieces, takes, windows, keys = parts
    return ReadPlan(
        options.batch_size, mine.rows, padding, options.shuffle, pieces, takes, windows, keys
    )


_Parts = tuple[Int64s, Int64s, Int64s, NDArray[np.uint64]]  # the arrays of a ReadPlan


class _Sequence:
    """The epoch's sequence of rows before windows are permuted."""

    def __init__(self, row_groups: RowGroups, order: Int64s) -> None:
        self._order = order[row_groups.rows[order] > 0]
        self._row_groups = row_groups
        self._edges = edges_of(row_groups.rows[self._order])

    def sparse_edges(self, stored_rows: int) -> Int64s:
        """The sequence cut where row groups begin, after so many stored rows of which few stay."""
        ends = self._edges[[0, -1]]
        if self._row_groups.stored is None:
            return ends
        stored = self._row_groups.stored[self._order]
        sparse = np.where(np.diff(self._edges) * _SPARSE < stored, stored, 0)
        before = np.cumsum(sparse) - sparse
        return np.union1d(ends, self._edges[np.flatnonzero(np.diff(before // stored_rows)) + 1])

    def pieces(self, starts: Int64s, stops: Int64s) -> tuple[Int64s, Int64s]:
        """Pieces (P, 4) of the ranges [starts, stops) (n,), and how many each range has (n,)."""
        cuts = cut(self._edges, starts, stops)
        group = self._order[cuts.cell]
        begin = self._edges[cuts.cell]
        pieces = np.stack(
            [
                self._row_groups.file[group],
                self._row_groups.index[group],
                cuts.start - begin,
                cuts.stop - begin,
            ],
            axis=1,
        )
        return pieces, np.bincount(cuts.owner, minlength=len(starts))


def _row_group_order(row_groups: RowGroups, options: Options, epoch: int) -> Int64s:
    count = len(row_groups.rows)
    if not options.shuffle:
        return np.arange(count)
    return permutation(count, stream_key(options.seed, epoch, _ROW_GROUP_STREAM))


def _shuffled(
    sequence: _Sequence, intervals: Int64s, options: Options, epoch: int, total: int
) -> _Parts:
    """Each window that the intervals touch, whole, with what is taken of it."""
    if not len(intervals):
        return _no_parts()
    count = max(1, total // options.shuffle_window)
    if count > _MOST_WINDOWS:
        raise ValueError(
            f"Expected at most 2**32 - 1 shuffle windows, got {count}: "
            f"shuffle_window is {options.shuffle_window} rows of {total}"
        )
    # Window i begins at i * total // count, so position p lies in ((p + 1) * count - 1) // total.
    first = ((int(intervals[:, 0].min()) + 1) * count - 1) // total
    last = (int(intervals[:, 1].max()) * count - 1) // total
    number = np.arange(first, last + 2)
    whole, rest = divmod(total, count)
    fraction = number.astype(np.uint64) * np.uint64(rest) // np.uint64(count)
    edges = number * whole + fraction.astype(np.int64)

    cuts = cut(edges, intervals[:, 0], intervals[:, 1])
    takes = np.stack([cuts.start, cuts.stop], axis=1) - edges[cuts.cell, np.newaxis]
    begins = np.flatnonzero(np.diff(cuts.cell, prepend=-1))
    touched = cuts.cell[begins]
    pieces, piece_count = sequence.pieces(edges[touched], edges[touched + 1])
    windows = np.stack([edges_of(piece_count), np.append(begins, len(takes))], axis=1)
    keys = stream_keys((options.seed, epoch, _WINDOW_STREAM), number[touched])
    return pieces, takes, windows, keys


def _striped(sequence: _Sequence, intervals: Int64s, stripe_rows: int) -> _Parts:
    """The rows of the intervals, cut into stripes."""
    if not len(intervals):
        return _no_parts()
    output = edges_of(intervals[:, 1] - intervals[:, 0])
    rows = output[-1]
    parts = cut(sequence.sparse_edges(stripe_rows), intervals[:, 0], intervals[:, 1])
    into = parts.start - intervals[parts.owner, 0]
    regular = np.append(np.arange(0, rows, stripe_rows), rows)
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
        key = stream_key(options.seed, epoch, _ROW_GROUP_STREAM)
        order = permutation(len(order), key).tolist()
    parts = [
        _piece_rows(int(row_groups.file[g]), int(row_groups.index[g]), 0, int(row_groups.rows[g]))
        for g in order
    ]
    sequence = np.concatenate([np.zeros((0, 3), np.int64), *parts])
    if options.shuffle:
        total = len(sequence)
        count = max(1, total // options.shuffle_window)
        for w in range(count):
            low, high = w * total // count, (w + 1) * total // count
            key = stream_key(options.seed, epoch, _WINDOW_STREAM, w)
            sequence[low:high] = sequence[low:high][permutation(high - low, key)]
    return sequence[: options.limited(len(sequence))]


def _piece_rows(file: int, row_group: int, start: int, stop: int) -> Int64s:
    row = np.arange(start, stop)
    return np.stack([np.full_like(row, file), np.full_like(row, row_group), row], axis=1)
