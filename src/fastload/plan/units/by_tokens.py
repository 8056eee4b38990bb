"""Units that are batches: as many whole rows as fit a number of tokens. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from fastload.plan.intervals import Int64s, edges_of
from fastload.plan.read_plan import ReadPlan, shuffled_parts, striped_parts, window_cuts
from fastload.plan.units.windows import Lengths, UnitsOfWindows, Windows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fastload.plan.options import Options
    from fastload.plan.permutation import Permute
    from fastload.plan.position import Position
    from fastload.plan.rank_split import Share
    from fastload.plan.units.windows import FormingThread, WindowRows

__all__ = ["TokenUnits", "Tokens"]


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


class BatchedWindows(NamedTuple):
    """The batches of successive windows.

    Attributes:
        orders: if batches are padded, the rows of each window in the order of positions, (rows,).
        sizes: rows of each batch, (batches,).
    """

    orders: NDArray[np.uint32]
    sizes: Int64s


class BatchWindows(Protocol):
    """A function that forms batches of the rows of successive windows."""

    def __call__(
        self, rows: WindowRows, tokens: int, padded: bool, max_rows: int | None
    ) -> tuple[NDArray[np.uint32], Int64s]:
        """Form the batches of each window by itself.

        Without padding, a batch takes rows in the window's order as long as their tokens fit. With
        padding, batches are formed from the longest rows to the shortest, equal ones in their
        order; within a batch, rows come in the window's order. Rows that the epoch does not deliver
        keep their places before and after the others. Padded batches come in a balanced order that
        the key of the window's units names, where their work is rows x the square of the longest
        row: see `BalancedOrder` in the core. Without keys, padded batches come in the order of
        their first rows.

        Args:
            rows: the rows of the windows.
            tokens: as in `Tokens`.
            padded: as in `Tokens`.
            max_rows: as in `Tokens`.

        Returns:
            The attributes of BatchedWindows.
        """


class TokenUnits(UnitsOfWindows[BatchedWindows]):
    """Units that are batches of whole rows, as many as fit a number of tokens.

    A batch lies in one window. A row longer than the budget is a batch of its own.

    Args:
        lengths: the lengths of the rows' lists.
        options: the dataset's parameters; `limit` counts rows, `batch_size` is 1.
        limits: the limits of a batch.
        permute: the permutation of n rows by a key, as `permutation`.
        batch_windows: the function that forms batches.
        background: as for `UnitsOfWindows`.
    """

    def __init__(
        self,
        lengths: Lengths,
        options: Options,
        limits: Tokens,
        permute: Permute,
        batch_windows: BatchWindows,
        background: FormingThread | None = None,
    ) -> None:
        super().__init__(lengths, options, permute, background)
        self._limits = limits
        self._batch_windows = batch_windows

    def read_plan(self, at: Position, mine: Share, *, stripe_rows: int, ramp: bool) -> ReadPlan:
        """Plan the batches of a share."""
        seed, epoch = at.seed, at.epoch
        windows, edges = self._epoch(seed, epoch)
        units = mine.intervals
        intervals = edges[units] + windows.first
        sizes = [np.diff(edges[a : b + 1]) for a, b in units.tolist()]
        batch_rows = np.concatenate([np.zeros(0, np.int64), *sizes])
        options = replace(self._rows, seed=seed)
        orders = np.zeros(0, np.uint32)
        mixes = options.shuffle or self._limits.padded
        if mixes:
            cuts = window_cuts(windows.windows, intervals)
            arrays = shuffled_parts(windows.sequence, cuts, (seed, epoch))
            if self._limits.padded:
                in_order = [self._order(windows, window) for window in cuts.touched.tolist()]
                orders = np.concatenate([orders, *in_order])
        else:
            first = min(stripe_rows, max(1, int(batch_rows[:1].sum()))) if ramp else stripe_rows
            arrays = striped_parts(windows.sequence, intervals, first, stripe_rows)
        padded = mine.repeats and options.uneven == "pad"
        return ReadPlan(
            self.options.batch_size,
            int(batch_rows.sum()),
            int(batch_rows[-1]) if padded else 0,
            mixes,
            *arrays,
            seed=seed,
            epoch=epoch,
            batch_edges=edges_of(batch_rows),
            orders=orders,
        )

    def _edges(self, windows: Windows) -> Int64s:
        """Return the rows before each batch."""
        sizes = [some.sizes for some in self._formed(windows)]
        return edges_of(np.concatenate([np.zeros(0, np.int64), *sizes]))

    def _number(self, edges: Int64s) -> int:
        return len(edges) - 1

    def _form(self, windows: Windows, start: int, stop: int) -> BatchedWindows:
        """Form the batches of the windows [start, stop)."""
        rows, limits = windows.rows_of(start, stop), self._limits
        batched = self._batch_windows(rows, limits.tokens, limits.padded, limits.max_rows)
        return BatchedWindows(*batched)

    def _order(self, windows: Windows, window: int) -> NDArray[np.uint32]:
        """Return the rows of a window in the order of its padded batches."""
        first, formed = self._formed_with(windows, window)
        start, stop = (windows.edges[window : window + 2] - windows.edges[first]).tolist()
        return formed.orders[start:stop]
