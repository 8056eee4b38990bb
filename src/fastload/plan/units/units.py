"""Units: what a batch counts, and what ranks and workers share out. Pure.

An epoch is a sequence of units. A batch has `batch_size` units, and a rank or worker delivers
intervals of units. The unit is:

- a row (`RowUnits`),
- a packed row (`PackedUnits`): segments of documents,
- with a budget of tokens, a whole batch (`TokenUnits`).

Units beyond rows are formed within shuffle windows, from the lengths of the rows' lists and the
window's order alone, so that every rank knows the units of all ranks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from fastload.plan.intervals import Int64s, cut, edges_of
from fastload.plan.permutation import stream_key
from fastload.plan.progress import batches, remaining_rows, share
from fastload.plan.read_plan import (
    PADDING,
    WINDOW_STREAM,
    ReadPlan,
    share_plan,
    shuffled_parts,
    striped_parts,
    window_edges,
)
from fastload.plan.sequence import EpochSequence, row_group_order
from fastload.plan.steps import step_shares
from fastload.plan.units.packing import documents, pack_split

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from fastload.plan.options import Options
    from fastload.plan.position import Position, WorkerSlot
    from fastload.plan.rank_split import Share
    from fastload.plan.sequence import RowGroups
    from fastload.plan.steps import StepOfLeg, StepShare
    from fastload.plan.units.packing import PackBest, Packing, Segments

    Permute = Callable[[int, int], NDArray[np.uint32]]

__all__ = ["Lengths", "PackedUnits", "RowUnits", "TokenUnits", "Tokens", "Units"]

# Third part, after seed and epoch, of the names of the random streams that order the units of a
# window.
_UNIT_STREAM = 2
# Epochs whose units are kept: the running one, the next one, and the one of a loaded state.
_KEPT_EPOCHS = 3
# Most bytes of segments that stay in memory between counting packed rows and delivering them.
_KEPT_PACKED_BYTES = 64 << 20


class Units(ABC):
    """The units of a dataset's epochs.

    Attributes:
        options: the dataset's parameters, where `batch_size` and `limit` count units.
    """

    options: Options

    @abstractmethod
    def total(self, at: Position) -> int:
        """Return the number of units of the epoch of a position."""

    @abstractmethod
    def read_plan(self, at: Position, mine: Share, *, stripe_rows: int, ramp: bool) -> ReadPlan:
        """Plan the rows of a share of units of the epoch of a position.

        The other arguments are as for `read_plan.read_plan`.
        """

    def batches(self, at: Position, world: int, rank: int | None) -> int:
        """Return the batches that a rank still delivers after a position; see `batches`."""
        return batches(self.total(at), self.options, at.progress, world, rank)

    def share(self, at: Position, part: WorkerSlot, rank: int) -> Share:
        """Return the units that a worker delivers after a position; see `share`."""
        total = self.total(at)
        shape = (part.world, rank, part.workers, part.worker)
        return share(total, self.options, at.progress, *shape, at.taken)

    def steps_left(self, at: Position, part: WorkerSlot) -> int:
        """Return the steps that are left after a position, `skip_steps` included."""
        every = replace(self.options, skip_steps=())
        total = self.total(at)
        return batches(total, every, at.progress, part.world, None, part.workers)

    def step_shares(
        self, at: Position, steps: Sequence[StepOfLeg], rank: int | None
    ) -> Iterator[StepShare]:
        """Yield the units of steps; see `steps.step_shares`."""
        return step_shares(self.total(at), self.options, at.seed, steps, rank)

    def check(self, at: Position) -> None:
        """Raise a ValueError if the units can't have made the progress of a position."""
        remaining_rows(self.total(at), self.options, at.progress)


class RowUnits(Units):
    """Units that are rows.

    Args:
        row_groups: all row groups, in canonical order.
        options: the dataset's parameters.

    Attributes:
        row_groups: all row groups, in canonical order.
    """

    def __init__(self, row_groups: RowGroups, options: Options) -> None:
        self.options = options
        self.row_groups = row_groups

    def groups_of(self, at: Position) -> RowGroups:  # noqa: ARG002 - all epochs have all rows
        """Return the row groups, with the number of rows that the epoch of a position has."""
        return self.row_groups

    def rows_of_copies(self, at: Position, rows: Int64s) -> Int64s:  # noqa: ARG002 - as above
        """Return rows of `groups_of`, (n, 3) as `read_plan.rows_of`, among the rows that stay."""
        return rows

    def total(self, at: Position) -> int:
        """Return the number of rows."""
        return self.groups_of(at).total_rows

    def read_plan(self, at: Position, mine: Share, *, stripe_rows: int, ramp: bool) -> ReadPlan:
        """Plan the rows of a share."""
        options = replace(self.options, seed=at.seed)
        groups = self.groups_of(at)
        return share_plan(groups, options, at.epoch, mine, stripe_rows=stripe_rows, ramp=ramp)


class Lengths:
    """The lengths of the lists of a column, for the rows that stay.

    Args:
        row_groups: all row groups, in canonical order.
        values: number of elements of each row's list, row group after row group, (rows,).

    Attributes:
        row_groups: all row groups, in canonical order.
        values: number of elements of each row's list, (rows,).
    """

    def __init__(self, row_groups: RowGroups, values: NDArray[np.uint32]) -> None:
        self.row_groups = row_groups
        self.values = values
        self._begins = edges_of(row_groups.rows)

    def at(self, sequence: EpochSequence, start: int, stop: int) -> NDArray[np.uint32]:
        """Return the lengths at the positions [start, stop) of an epoch's sequence."""
        group, first, end = sequence.ranges(start, stop)
        begins = self._begins[group]
        spans = zip((begins + first).tolist(), (begins + end).tolist(), strict=True)
        parts = [self.values[a:b] for a, b in spans]
        return parts[0] if len(parts) == 1 else np.concatenate([self.values[:0], *parts])


class _Windows:
    """The shuffle windows of an epoch.

    Args:
        lengths: the lengths of the rows' lists.
        options: the dataset's parameters, with the seed of the epoch; `limit` counts rows.
        epoch: number of the epoch.
        permute: the permutation of n rows by a key, as `permutation`.

    Attributes:
        sequence: the row groups of the epoch.
        edges: edges of the windows in the sequence, (windows + 1,).
        first: position of the epoch's first row in the sequence.
        stop: the position after its last row.
    """

    def __init__(self, lengths: Lengths, options: Options, epoch: int, permute: Permute) -> None:
        row_groups = lengths.row_groups
        order = row_group_order(len(row_groups.rows), options, epoch)
        self.sequence = EpochSequence(row_groups, order)
        self.edges = window_edges(self.sequence.rows, options.shuffle_window)
        self.first = min(options.offset, self.sequence.rows)
        self.stop = self.first + options.limited(self.sequence.rows)
        self._lengths = lengths
        self._permute = permute
        self._name = (options.seed, epoch) if options.shuffle else None

    def __len__(self) -> int:
        return len(self.edges) - 1

    def rows_in_order(self, window: int) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
        """Return the rows of a window that the epoch delivers, in order, and their lengths."""
        start, stop = self.edges[window : window + 2].tolist()
        order = np.arange(stop - start, dtype=np.uint32)
        if self._name is not None:
            order = self._permute(stop - start, stream_key(*self._name, WINDOW_STREAM, window))
        order = order[max(0, self.first - start) : max(0, self.stop - start)]
        return order, self._lengths.at(self.sequence, start, stop)[order]

    def unit_key(self, window: int) -> int | None:
        """Return the key of the order in which the units of a window come; None without shuffle."""
        return None if self._name is None else stream_key(*self._name, _UNIT_STREAM, window)

    def permuted(self, window: int, count: int) -> NDArray[np.uint32] | None:
        """Return the order in which `count` units of a window come; None without shuffle."""
        key = self.unit_key(window)
        return None if key is None else self._permute(count, key)


class _UnitsOfWindows(Units):
    """Units that are formed within shuffle windows.

    Args:
        lengths: the lengths of the rows' lists.
        options: the dataset's parameters; `limit` counts rows.
        permute: the permutation of n rows by a key, as `permutation`.
    """

    def __init__(self, lengths: Lengths, options: Options, permute: Permute) -> None:
        self.options = replace(options, limit=None, offset=0)
        self._lengths = lengths
        self._rows = options
        self._permute = permute
        self._epochs: dict[tuple[int, int], tuple[_Windows, Int64s]] = {}

    def total(self, at: Position) -> int:
        """Return the number of units of an epoch."""
        return self._number(self._epoch(at.seed, at.epoch)[1])

    def _epoch(self, seed: int, epoch: int) -> tuple[_Windows, Int64s]:
        """Return the windows of an epoch, and what `_edges` returns for them."""
        name = (seed, epoch) if self._rows.shuffle else (0, 0)
        if name not in self._epochs:
            windows = _Windows(self._lengths, replace(self._rows, seed=seed), epoch, self._permute)
            if len(self._epochs) >= _KEPT_EPOCHS:
                oldest = next(iter(self._epochs))
                self._forget(self._epochs.pop(oldest)[0])
            self._epochs[name] = windows, self._edges(windows)
        return self._epochs[name]

    def _forget(self, windows: _Windows) -> None:
        """Drop what was kept of the windows of an epoch."""

    @abstractmethod
    def _edges(self, windows: _Windows) -> Int64s:
        """Return the edges by which a share of units is found: see the classes."""

    @abstractmethod
    def _number(self, edges: Int64s) -> int:
        """Return the number of units of an epoch."""

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_epochs": {}, "_packed_windows": {}, "_packed_bytes": 0}


class PackedUnits(_UnitsOfWindows):
    """Units that are packed rows.

    Args:
        lengths: the lengths of the documents.
        options: the dataset's parameters; `limit` counts documents, `batch_size` packed rows.
        packing: the way of packing.
        permute: the permutation of n rows by a key, as `permutation`.
        pack_best: the function that packs documents, as `packing.pack_best`.
    """

    def __init__(
        self,
        lengths: Lengths,
        options: Options,
        packing: Packing,
        permute: Permute,
        pack_best: PackBest,
    ) -> None:
        super().__init__(lengths, options, permute)
        self._packing = packing
        self._pack_best = pack_best
        # Packed rows of windows of kept epochs, as far as they are few bytes.
        self._packed_windows: dict[tuple[_Windows, int], tuple[Segments, Int64s]] = {}
        self._packed_bytes = 0

    def long_documents(self, seed: int, epoch: int) -> int:
        """Return the number of documents of an epoch that are longer than a packed row."""
        if self._rows.limit is None and not self._rows.offset:
            return int((self._lengths.values > self._packing.length).sum())
        windows, _ = self._epoch(seed, epoch)
        lengths = (windows.rows_in_order(window)[1] for window in range(len(windows)))
        return sum(int((some > self._packing.length).sum()) for some in lengths)

    def read_plan(self, at: Position, mine: Share, *, stripe_rows: int, ramp: bool) -> ReadPlan:
        """Plan the packed rows of a share; `stripe_rows` and `ramp` have no effect."""
        del stripe_rows, ramp
        seed, epoch = at.seed, at.epoch
        windows, edges = self._epoch(seed, epoch)
        intervals = _intervals(mine)
        parts: list[tuple[int, Segments]] = []
        for start, stop in intervals.tolist():
            parts += self._parts(windows, edges, start, stop)
        used = np.array([window for window, _ in parts], np.int64)
        begins = np.flatnonzero(np.diff(used, prepend=-1))
        segments = np.concatenate([np.zeros((0, 4), np.uint32), *(part for _, part in parts)])
        before = edges_of(np.array([len(part) for _, part in parts], np.int64))
        first = np.append(before[begins], len(segments))
        touched = used[begins]
        pieces, piece_count = windows.sequence.pieces(
            windows.edges[touched], windows.edges[touched + 1]
        )
        batch_size, length = self.options.batch_size, self._packing.length
        tokens = edges_of(segments[:, 2].astype(np.int64))
        wanted = np.arange(0, int(tokens[-1]), batch_size * length)
        batch_edges = np.append(np.searchsorted(tokens, wanted), len(segments))
        rows, padding = len(segments), 0
        if mine.repeats and self.options.uneven == "pad":
            padding = rows - int(np.searchsorted(tokens, tokens[-1] - length))
        return ReadPlan(
            batch_size,
            rows,
            padding,
            shuffled=False,
            pieces=pieces,
            takes=np.stack([first[:-1], first[1:]], axis=1),
            windows=np.stack([edges_of(piece_count), np.arange(len(touched) + 1)], axis=1),
            keys=np.zeros(len(touched), np.uint64),
            seed=seed,
            epoch=epoch,
            batch_edges=batch_edges,
            segments=segments,
        )

    def _parts(
        self, windows: _Windows, edges: Int64s, start: int, stop: int
    ) -> list[tuple[int, Segments]]:
        """Return the segments of the units [start, stop), with the window of each part."""
        length = self._packing.length
        if self._packing.fit == "split":
            start, end = start * length, stop * length
            stop = min(end, int(edges[-1]))
        filled = np.flatnonzero(np.diff(edges) > 0)
        starts = np.append(edges[filled], edges[-1])
        cuts = cut(starts, np.array([start]), np.array([stop]))
        parts = []
        for cell, low, high in zip(
            cuts.cell.tolist(), cuts.start.tolist(), cuts.stop.tolist(), strict=True
        ):
            window, first = int(filled[cell]), int(starts[cell])
            if self._packing.fit == "split":
                docs = documents(*windows.rows_in_order(window), self._packing)
                segments = pack_split(docs, length, first, low - first, high - first)
            else:
                packed, row_edges = self._packed(windows, window)
                segments = packed[row_edges[low - first] : row_edges[high - first]]
            parts.append((window, segments))
        if self._packing.fit == "split" and stop < end:
            padding = np.array([[PADDING, 0, end - stop, 0]], np.uint32)
            parts.append((parts[-1][0], padding))
        return parts

    def _packed(self, windows: _Windows, window: int) -> tuple[Segments, Int64s]:
        """Return the segments of a window's packed rows, and the edges of the rows."""
        found = self._packed_windows.get((windows, window))
        if found is None:
            docs = documents(*windows.rows_in_order(window), self._packing)
            found = self._pack_best(docs, self._packing.length, windows.unit_key(window))
            self._packed_bytes += found[0].nbytes
            if self._packed_bytes <= _KEPT_PACKED_BYTES:
                self._packed_windows[windows, window] = found
        return found

    def _forget(self, windows: _Windows) -> None:
        kept = {name: rows for name, rows in self._packed_windows.items() if name[0] is not windows}
        self._packed_windows = kept
        self._packed_bytes = sum(segments.nbytes for segments, _ in kept.values())

    def _edges(self, windows: _Windows) -> Int64s:
        """Return the packed rows before each window, or with fit="split" the tokens."""
        counts = []
        for window in range(len(windows)):
            if self._packing.fit == "split":
                lengths = windows.rows_in_order(window)[1]
                counts.append(int(self._packing.kept(lengths).sum(dtype=np.int64)))
            else:
                counts.append(len(self._packed(windows, window)[1]) - 1)
        return edges_of(np.array(counts, np.int64))

    def _number(self, edges: Int64s) -> int:
        if self._packing.fit == "split":
            return -(-int(edges[-1]) // self._packing.length)
        return int(edges[-1])


@dataclass(frozen=True, slots=True)
class Tokens:
    """The limits of a batch by its tokens.

    Attributes:
        tokens: the most tokens of a batch.
        padded: count rows x the longest row, and put rows of like lengths together.
        max_rows: the most rows of a batch; None = any number.
    """

    tokens: int
    padded: bool = False
    max_rows: int | None = None


class TokenUnits(_UnitsOfWindows):
    """Units that are batches of whole rows, as many as fit a number of tokens.

    A batch lies in one window. A row longer than the budget is a batch of its own.

    Args:
        lengths: the lengths of the rows' lists.
        options: the dataset's parameters; `limit` counts rows, `batch_size` is 1.
        limits: the limits of a batch.
        permute: the permutation of n rows by a key, as `permutation`.
    """

    def __init__(
        self, lengths: Lengths, options: Options, limits: Tokens, permute: Permute
    ) -> None:
        super().__init__(lengths, options, permute)
        self._limits = limits

    def read_plan(self, at: Position, mine: Share, *, stripe_rows: int, ramp: bool) -> ReadPlan:
        """Plan the batches of a share."""
        seed, epoch = at.seed, at.epoch
        windows, edges = self._epoch(seed, epoch)
        units = _intervals(mine)
        intervals = edges[units] + windows.first
        sizes = [np.diff(edges[a : b + 1]) for a, b in units.tolist()]
        batch_rows = np.concatenate([np.zeros(0, np.int64), *sizes])
        options = replace(self._rows, seed=seed)
        orders = np.zeros(0, np.uint32)
        if options.shuffle or self._limits.padded:
            parts = shuffled_parts(windows.sequence, intervals, options, epoch)
            if self._limits.padded and parts.touched is not None:
                in_order = [self._batched(windows, w)[0] for w in parts.touched.tolist()]
                orders = np.concatenate([orders, *in_order])
        else:
            first = min(stripe_rows, max(1, int(batch_rows[:1].sum()))) if ramp else stripe_rows
            parts = striped_parts(windows.sequence, intervals, first, stripe_rows)
        padded = mine.repeats and options.uneven == "pad"
        return ReadPlan(
            self.options.batch_size,
            int(batch_rows.sum()),
            int(batch_rows[-1]) if padded else 0,
            parts.touched is not None,
            *parts.arrays,
            seed=seed,
            epoch=epoch,
            batch_edges=edges_of(batch_rows),
            orders=orders,
        )

    def _edges(self, windows: _Windows) -> Int64s:
        """Return the rows before each batch."""
        sizes = [self._batched(windows, window)[1] for window in range(len(windows))]
        return edges_of(np.concatenate([np.zeros(0, np.int64), *sizes]))

    def _number(self, edges: Int64s) -> int:
        return len(edges) - 1

    def _batched(self, windows: _Windows, window: int) -> tuple[NDArray[np.uint32], Int64s]:
        """Return the order of all rows of a window, and the rows of each of its batches."""
        rows, lengths = windows.rows_in_order(window)
        if not self._limits.padded:
            return rows, self._sizes(lengths)
        longest_first = np.argsort(-lengths.astype(np.int64), kind="stable")
        sizes = self._padded_sizes(lengths[longest_first])
        batch_of = np.repeat(np.arange(len(sizes)), sizes)
        order = windows.permuted(window, len(sizes))
        if order is None:
            first = np.full(len(sizes), len(rows))
            np.minimum.at(first, batch_of, longest_first)
            order = np.argsort(first).astype(np.uint32)
        rank = np.empty(len(sizes), np.int64)
        rank[order] = np.arange(len(sizes))
        place = np.lexsort((longest_first, rank[batch_of]))
        start, stop = windows.edges[window : window + 2].tolist()
        # Rows outside the epoch keep their positions before and after the others.
        rest = np.setdiff1d(np.arange(stop - start, dtype=np.uint32), rows)
        before = min(len(rest), max(0, windows.first - start))
        batched = rows[longest_first[place]]
        return np.concatenate([rest[:before], batched, rest[before:]]), sizes[order]

    def _sizes(self, lengths: NDArray[np.uint32]) -> Int64s:
        """Cut rows, in order, into batches of at most `tokens` tokens."""
        ends = np.cumsum(lengths, dtype=np.int64)
        most = self._limits.max_rows or len(lengths)
        sizes, at, before = [], 0, 0
        while at < len(ends):
            stop = int(np.searchsorted(ends, before + self._limits.tokens, side="right"))
            stop = min(max(stop, at + 1), at + most)
            sizes.append(stop - at)
            at, before = stop, int(ends[stop - 1])
        return np.array(sizes, np.int64)

    def _padded_sizes(self, lengths: NDArray[np.uint32]) -> Int64s:
        """Cut rows, the longest first, into batches of at most `tokens` tokens with padding."""
        most = self._limits.max_rows or len(lengths)
        sizes, at = [], 0
        while at < len(lengths):
            longest = int(lengths[at])
            fit = self._limits.tokens // longest if longest else most
            size = min(max(1, fit), most, len(lengths) - at)
            sizes.append(size)
            at += size
        return np.array(sizes, np.int64)


def _intervals(mine: Share) -> Int64s:
    """Return the intervals of a share, the repeated unit included."""
    if not mine.repeats:
        return mine.positions
    again = np.array([[mine.repeated, mine.repeated + 1]], np.int64)
    return np.concatenate([mine.positions, again])
