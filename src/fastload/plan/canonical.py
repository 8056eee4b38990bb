"""Steps that are the same on every number of ranks: canonical slices. Pure.

The epoch's sequence of rows is cut into K slices, K = `canonical_ranks`. A step takes as many rows
of each slice, so its rows don't depend on the number of ranks. W ranks, where W divides K, share
out the slices: a rank delivers, in each step, the rows of its K / W slices. The unit of an epoch
is therefore the step, which all ranks deliver together, and progress is a set of steps.

    K = 4 slices, 2 rows of each in a step       step 0   step 1   step 2
    slice 0  . . . . . .                          . .      . .      . .     rank 0 of 2
    slice 1  . . . . . .                          . .      . .      . .     rank 0 of 2
    slice 2  . . . . . .                          . .      . .      . .     rank 1 of 2
    slice 3  . . . . . .                          . .      . .      . .     rank 1 of 2

A shuffle window is a range of steps: it mixes the rows that a slice has in these steps, and
`shuffle_window` counts the rows of all slices. What the core reads as one window are these rows of
all slices of a rank, in an order that goes step by step.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from fastload.plan.intervals import Int64s, cut, edges_of, near_equal
from fastload.plan.permutation import stream_key
from fastload.plan.read_plan import WINDOW_STREAM, ReadPlan
from fastload.plan.sequence import EpochSequence, row_group_order
from fastload.plan.units import Units

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from fastload.plan.options import Options
    from fastload.plan.position import Position, WorkerSlot
    from fastload.plan.rank_split import Share
    from fastload.plan.sequence import RowGroups

    Permute = Callable[[int, int], NDArray[np.uint32]]

__all__ = ["CanonicalUnits"]


class CanonicalUnits(Units):
    """Units that are steps of canonical slices.

    Args:
        row_groups: all row groups, in canonical order.
        options: the dataset's parameters; `batch_size` counts rows of a step over all ranks.
        slices: number of canonical slices.
        permute: the permutation of n rows by a key, as `permutation`.

    Attributes:
        options: the dataset's parameters, where a batch is one step.
    """

    def __init__(
        self, row_groups: RowGroups, options: Options, slices: int, permute: Permute
    ) -> None:
        self.options = replace(options, batch_size=1, limit=None, uneven="keep", drop_last=False)
        self._rows = options
        self._row_groups = row_groups
        self._slices = slices
        self._permute = permute
        # Rows of a slice in a step, and rows that a slice delivers in an epoch.
        self._step_rows = options.batch_size // slices
        total = options.limited(row_groups.total_rows)
        self._starts, self._own = near_equal(np.array(total), slices)
        delivered = int(self._own[-1] if options.uneven == "drop" else self._own[0])
        if options.drop_last:
            delivered -= delivered % self._step_rows
        self._delivered = delivered

    @property
    def steps(self) -> int:
        """Number of steps of an epoch."""
        return -(-self._delivered // self._step_rows)

    def total(self, seed: int, epoch: int) -> int:  # noqa: ARG002 - all epochs have all steps
        """Return the number of steps of an epoch."""
        return self.steps

    def batches(self, at: Position, world: int, rank: int | None) -> int:
        """Return the steps that are left after a position: as many for every rank."""
        self._slices_of(0, world)
        return super().batches(_of_all_ranks(at), 1, rank and 0)

    def share(self, at: Position, part: WorkerSlot, rank: int) -> Share:
        """Return the steps that a worker delivers after a position, and the rank's slices."""
        slices = self._slices_of(rank, part.world)
        steps = super().share(_of_all_ranks(at), replace(part, world=1), 0)
        return replace(steps, slices=slices)

    def check(self, at: Position) -> None:
        """Raise a ValueError if the units can't have made the progress of a position."""
        super().check(_of_all_ranks(at))

    def _slices_of(self, rank: int, world: int) -> range:
        """Return the slices of a rank.

        Raises:
            ValueError: `world` does not divide the number of slices.
        """
        if self._slices % world:
            raise ValueError(
                f"Expected a world_size that divides canonical_ranks={self._slices}, got {world}"
            )
        each = self._slices // world
        return range(rank * each, (rank + 1) * each)

    def read_plan(
        self,
        seed: int,
        epoch: int,
        mine: Share,
        *,
        stripe_rows: int,
        ramp: bool,
    ) -> ReadPlan:
        """Plan the rows of a rank's slices in a share of the steps; `ramp` has no effect."""
        del ramp
        own = mine.slices
        assert own is not None
        each = len(own)
        options = replace(self._rows, seed=seed)
        order = row_group_order(len(self._row_groups.rows), options, epoch)
        sequence = EpochSequence(self._row_groups, order)
        edges = self._window_edges(max(1, stripe_rows // (each * self._step_rows)))
        cuts = cut(edges, mine.positions[:, 0], mine.positions[:, 1])
        windows = [
            self._window(sequence, options, epoch, own, int(cell), edges)
            for cell in cuts.cell.tolist()
        ]
        rows = [
            window.rows_before(edges[cell], start, stop)
            for window, cell, start, stop in zip(
                windows, cuts.cell.tolist(), cuts.start.tolist(), cuts.stop.tolist(), strict=True
            )
        ]
        nothing = np.zeros((0, 4), np.int64)
        piece_count = np.array([len(window.pieces) for window in windows], np.int64)
        takes = np.array([[r[0], r[-1]] for r in rows], np.int64).reshape(-1, 2)
        batch_rows = np.concatenate([np.zeros(0, np.int64), *(np.diff(r) for r in rows)])
        first_piece = edges_of(piece_count)
        substitutes = [
            first + window.repeats
            for first, window in zip(first_piece.tolist(), windows, strict=False)
        ]
        padded = options.uneven == "pad"
        return ReadPlan(
            each * self._step_rows,
            int(batch_rows.sum()),
            0,
            shuffled=True,
            pieces=np.concatenate([nothing, *(window.pieces for window in windows)]),
            takes=takes,
            windows=np.stack([first_piece, np.arange(len(windows) + 1)], axis=1),
            keys=np.zeros(len(windows), np.uint64),
            substitutes=np.concatenate([nothing[:0, 0], *substitutes]) if padded else nothing[:, 0],
            seed=seed,
            epoch=epoch,
            batch_edges=edges_of(batch_rows),
            orders=np.concatenate([np.zeros(0, np.uint32), *(window.order for window in windows)]),
        )

    def _window_edges(self, stripe_steps: int) -> Int64s:
        """Return the steps at which windows begin, and the end, (windows + 1,)."""
        steps = self.steps
        window = stripe_steps
        if self._rows.shuffle:
            window = max(1, self._rows.shuffle_window // (self._slices * self._step_rows))
        count = max(1, steps // window)
        return np.arange(count + 1) * steps // count

    def _window(
        self,
        sequence: EpochSequence,
        options: Options,
        epoch: int,
        own: range,
        number: int,
        edges: Int64s,
    ) -> _Window:
        """Return the rows of some slices in a range of steps."""
        first, stop = (edges[number : number + 2] * self._step_rows).tolist()
        # The end of an epoch is the end of its last step, which may be short.
        stop = min(stop, self._delivered)
        steps = int(edges[number + 1] - edges[number])
        starts, stops, grid, repeated = [], [], [], []
        before = 0
        for slice_ in own:
            start = int(self._starts[slice_])
            rows = min(stop, int(self._own[slice_])) - first
            order = np.arange(rows, dtype=np.int64)
            if options.shuffle:
                key = stream_key(options.seed, epoch, WINDOW_STREAM, slice_, number)
                order = self._permute(rows, key).astype(np.int64)
            lane = np.full(steps * self._step_rows, -1, np.int64)
            lane[:rows] = before + order
            if rows < stop - first:
                # The slice is a row short, and repeats its last one, or that of the epoch.
                last = start + first + (int(order[-1]) if rows else -1)
                if not self._own[slice_]:
                    last = int(self._starts[-1] + self._own[-1]) - 1
                repeated.append((len(grid), rows, last))
            grid.append(lane)
            starts.append(start + first)
            stops.append(start + first + rows)
            before += rows
        for number_of_repeat, (lane_number, place, _) in enumerate(repeated):
            grid[lane_number][place] = before + number_of_repeat
            starts.append(repeated[number_of_repeat][2])
            stops.append(repeated[number_of_repeat][2] + 1)
        filled = np.array([a < b for a, b in zip(starts, stops, strict=True)])
        pieces, counts = sequence.pieces(np.array(starts)[filled], np.array(stops)[filled])
        # (steps, slices, rows of a slice in a step)
        table = np.stack(grid).reshape(len(grid), steps, self._step_rows).transpose(1, 0, 2)
        there = table >= 0
        own_pieces = len(pieces) - len(repeated)
        return _Window(
            pieces,
            table[there].astype(np.uint32),
            edges_of(there.sum(axis=(1, 2))),
            np.arange(own_pieces, len(pieces)),
        )


def _of_all_ranks(at: Position) -> Position:
    """Return a position whose progress counts steps of all ranks, not batches of one."""
    return replace(at, progress=tuple(replace(leg, world=1) for leg in at.progress))


class _Window:
    """The rows of a rank in a range of steps.

    Attributes:
        pieces: the rows of the rank's slices, then those that are repeated, (P, 4).
        order: the rows step by step, (rows,).
        repeats: the pieces of the repeated rows.
    """

    def __init__(
        self, pieces: Int64s, order: NDArray[np.uint32], edges: Int64s, repeats: Int64s
    ) -> None:
        self.pieces = pieces
        self.order = order
        self.repeats = repeats
        self._edges = edges

    def rows_before(self, first: int, start: int, stop: int) -> Int64s:
        """Return the rows before each of the steps [start, stop) and after the last one.

        Args:
            first: the window's first step.
            start: the first step.
            stop: the step after the last one.
        """
        return self._edges[start - first : stop - first + 1]
