"""Units that are batches: as many whole rows as fit a number of tokens. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

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


class TokenUnits(UnitsOfWindows):
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
                in_order = [self._batched(windows, w)[0] for w in cuts.touched.tolist()]
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
        sizes = [self._batched(windows, window)[1] for window in range(len(windows))]
        return edges_of(np.concatenate([np.zeros(0, np.int64), *sizes]))

    def _number(self, edges: Int64s) -> int:
        return len(edges) - 1

    def _batched(self, windows: Windows, window: int) -> tuple[NDArray[np.uint32], Int64s]:
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
