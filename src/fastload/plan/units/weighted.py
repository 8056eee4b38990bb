"""Weighted rows: how often each row comes in an epoch. Pure.

With N rows that stay, and weights w, row i comes e = N * w[i] / sum(w) times on average. In an
epoch, it comes floor(e) times, and once more if number i of the random stream `stream_key(seed,
epoch, 4)`, as a fraction of 2**53, is less than e - floor(e). So the copies of a row depend on
seed, epoch and weights alone, and all ranks and resumes agree on them.

The copies of a row follow one another in the epoch's sequence, where row groups come one by one;
with shuffle, windows are permuted as always. Reading stays sequential, and only the number of rows
of each row group differs between epochs.

    row                0     1     2     3
    e                  0.5   2.0   0     1.5
    epoch 0            0     1 1         3
    epoch 1                  1 1         3 3
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from fastload.plan.intervals import Int64s, edges_of
from fastload.plan.permutation import stream_key, stream_values
from fastload.plan.sequence import RowGroups
from fastload.plan.units.units import RowUnits

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from fastload.plan.options import Options
    from fastload.plan.permutation import Permute
    from fastload.plan.position import Position
    from fastload.plan.rank_split import Share
    from fastload.plan.read_plan import ReadPlan

    Copies = NDArray[np.uint16]
    Draw = Callable[[NDArray[np.floating], Int64s, float, int], tuple[Copies, Int64s]]

__all__ = ["LEAST_SUM", "MOST_COPIES", "RowWeights", "UnknownWeights", "WeightedUnits"]

# Third part, after seed and epoch, of the name of the random stream that draws copies. Orders,
# mixes and seeds of rows use 0 to 3.
_COPY_STREAM = 4
MOST_COPIES = (1 << 16) - 1
"""Most copies of a row in an epoch."""
LEAST_SUM = 1e-290
"""Least sum of weights: the factor from a weight to its copies would not be finite below."""
# Epochs whose copies are kept, 2 bytes a row each: the running one, and the next one.
_KEPT_EPOCHS = 2
# Weights are added up in as many sums, which are then added without rounding.
_SUMS = 1 << 14


class UnknownWeights(ValueError):  # noqa: N818 - users see a ValueError
    """No process of the dataset keeps the weights of an epoch any more."""


class RowWeights:
    """The weights of the rows that stay.

    Args:
        values: the weights, finite and not negative, float32 or float64 (rows,).
        name: a digest of the weights.

    Attributes:
        values: the weights.
        name: a digest of the weights.
        scale: the factor from a weight to the number of copies that its row has on average.

    Raises:
        OverflowError: the sum of the weights is less than `LEAST_SUM` or infinite, though there
            are rows.
    """

    def __init__(self, values: NDArray[np.floating], name: str) -> None:
        self.values = values
        self.name = name
        total = _sum(values)
        if len(values) and not LEAST_SUM <= total < math.inf:
            raise OverflowError(f"{total}")
        self.scale = len(values) / total if len(values) else 0.0

    @property
    def most_copies(self) -> int:
        """The most copies that a row may have in an epoch."""
        most = float(self.values.max(initial=0)) * self.scale
        return math.floor(most) + 1


class WeightedUnits(RowUnits):
    """Units that are copies of rows.

    Args:
        row_groups: all row groups, in canonical order.
        options: the dataset's parameters.
        weights_of: returns the weights with a digest, or None if they are not kept.
        draw: draws the copies, as `draw_copies`.
        permute: as for `RowUnits`.

    Attributes:
        row_groups: all row groups, in canonical order, with the rows that stay.
    """

    def __init__(
        self,
        row_groups: RowGroups,
        options: Options,
        weights_of: Callable[[str], RowWeights | None],
        draw: Draw,
        permute: Permute,
    ) -> None:
        super().__init__(row_groups, options, permute)
        self._weights_of = weights_of
        self._draw = draw
        self._edges = edges_of(row_groups.rows)
        self._epochs: dict[tuple[int, int, str], tuple[Copies, RowGroups]] = {}

    @property
    def varies(self) -> bool:
        """True: each epoch draws its copies."""
        return True

    def groups_of(self, at: Position) -> RowGroups:
        """Return the row groups, with the number of copies that the epoch of a position has."""
        return self._epoch(at)[1]

    def rows_of_copies(self, at: Position, rows: Int64s) -> Int64s:
        """Return the rows of copies, (n, 3) as `delivered_rows`, among the rows that stay."""
        copies, _ = self._epoch(at)
        group = self._group(rows)
        rows = rows.copy()
        for g in np.unique(group).tolist():
            here = group == g
            ends = np.cumsum(copies[self._edges[g] : self._edges[g + 1]], dtype=np.int64)
            rows[here, 2] = np.searchsorted(ends, rows[here, 2], side="right")
        return rows

    def read_plan(self, at: Position, mine: Share, *, stripe_rows: int, ramp: bool) -> ReadPlan:
        """Plan the copies of a share."""
        plan = super().read_plan(at, mine, stripe_rows=stripe_rows, ramp=ramp)
        return self._with_copies(plan, at)

    def lanes_plan(
        self, at: Position, shares: Sequence[Share], *, stripe_rows: int, ramp: bool
    ) -> ReadPlan:
        """Plan the copies of several shares side by side, each as a lane."""
        plan = super().lanes_plan(at, shares, stripe_rows=stripe_rows, ramp=ramp)
        return plan if len(plan.piece_copies) else self._with_copies(plan, at)

    def _with_copies(self, plan: ReadPlan, at: Position) -> ReadPlan:
        """Return the plan with the copies of the row groups that the plan reads."""
        copies, _ = self._epoch(at)
        touched, place = np.unique(self._group(plan.pieces), return_inverse=True)
        first = edges_of(self.row_groups.rows[touched])
        if len(touched) and touched[-1] - touched[0] == len(touched) - 1:
            own = copies[self._edges[touched[0]] : self._edges[touched[-1] + 1]]
        else:
            ends = self._edges[touched + 1]
            spans = zip(self._edges[touched].tolist(), ends.tolist(), strict=True)
            own = np.concatenate([copies[:0], *(copies[a:b] for a, b in spans)])
        return replace(
            plan,
            copies=own,
            piece_copies=first[place.ravel()],
        )

    def _group(self, rows: Int64s) -> Int64s:
        """Return the row group, in canonical order, of rows or pieces."""
        first = np.searchsorted(self.row_groups.file, rows[:, 0])
        group: Int64s = first + rows[:, 1]
        return group

    def _epoch(self, at: Position) -> tuple[Copies, RowGroups]:
        """Return the copies of each row in an epoch, and the row groups with their copies."""
        name = (at.seed, at.epoch, at.weights)
        found = self._epochs.get(name)
        if found is None:
            weights = self._weights_of(at.weights)
            if weights is None:
                raise UnknownWeights(
                    "The weights of this epoch were replaced by set_weights() before this process "
                    "could read them: call set_weights() before iter(), once for each epoch"
                )
            while len(self._epochs) >= _KEPT_EPOCHS:
                self._epochs.pop(next(iter(self._epochs)))
            key = stream_key(at.seed, at.epoch, _COPY_STREAM)
            copies, rows = self._draw(weights.values, self._edges, weights.scale, key)
            groups = self.row_groups
            stored = groups.rows if groups.stored is None else groups.stored
            found = copies, RowGroups(rows, groups.file, groups.index, stored)
            self._epochs[name] = found
        return found

    def __getstate__(self) -> dict[str, object]:
        return {**super().__getstate__(), "_epochs": {}}


def draw_copies(
    weights: NDArray[np.floating], edges: Int64s, scale: float, key: int
) -> tuple[Copies, Int64s]:
    """Return the copies of each row, and the sum for each row group. The core does the same.

    Args:
        weights: the weights, (rows,).
        edges: the rows before each row group, and all rows, (row groups + 1,).
        scale: the factor from a weight to the mean number of copies.
        key: key of the random stream.
    """
    expected = weights.astype(np.float64) * scale
    whole = np.floor(expected)
    drawn = (stream_values(key, len(weights)) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    copies: Copies = (whole + (drawn < expected - whole)).astype(np.uint16)
    before = np.append(0, np.cumsum(copies, dtype=np.int64))
    return copies, np.diff(before[edges])


def _sum(values: NDArray[np.floating]) -> float:
    """Return the sum, the same on every machine: numpy adds in an order that depends on the CPU."""
    sums = np.zeros(_SUMS)
    with np.errstate(over="ignore"):
        for start in range(0, len(values), _SUMS):
            part = values[start : start + _SUMS]
            sums[: len(part)] += part
    try:
        return math.fsum(sums)
    except OverflowError:
        return math.inf
