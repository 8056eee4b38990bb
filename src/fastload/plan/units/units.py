"""Units: what a batch counts, and what ranks and workers share out. Pure.

An epoch is a sequence of units. A batch has `batch_size` units, and a rank or worker delivers
intervals of units. The unit is:

- a row (`RowUnits`),
- a row as often as its weight says (module `weighted`),
- a packed row of segments of documents (module `packed`),
- with a budget of tokens, a whole batch (module `by_tokens`),
- a step of canonical slices, each of units of one of the kinds before (module `canonical`).

Units beyond rows are formed within shuffle windows, from the lengths of the rows' lists and the
window's order alone, so that every rank knows the units of all ranks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fastload.plan.permutation import permutation
from fastload.plan.position import batches, remaining_rows, share
from fastload.plan.read_plan import ReadPlan, share_plan, window_cuts
from fastload.plan.sequence import EpochSequence, ShuffleWindows
from fastload.plan.steps import step_shares
from fastload.plan.units.lanes import LaneCuts, in_lanes, lane_cuts, shuffled_lanes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from fastload.plan.intervals import Int64s
    from fastload.plan.options import Options, Window
    from fastload.plan.permutation import Permute
    from fastload.plan.position import Position, WorkerSlot
    from fastload.plan.rank_split import Share
    from fastload.plan.read_plan import WindowCuts
    from fastload.plan.sequence import RowGroups
    from fastload.plan.steps import StepOfLeg, StepShare

__all__ = ["RowUnits", "Units"]

# More pieces or cuts than this are not kept from one epoch to the next.
_MOST_KEPT_PIECES = 1 << 16
# What `RowUnits` keeps of the latest epochs.
_LATEST = ("_latest_share", "_latest_plan", "_ordered", "_latest_cuts", "_latest_lanes")


class Units(ABC):
    """The units of a dataset's epochs.

    Attributes:
        options: the dataset's parameters, where `batch_size` and `limit` count units.
    """

    options: Options
    # The latest share, with what the share was computed from: most epochs have the same shares.
    _latest_share: tuple[tuple[Any, ...], Share] | None = None

    @abstractmethod
    def use_window(self, window: Window) -> None:
        """Replace the shuffle windows of all epochs."""

    @property
    @abstractmethod
    def varies(self) -> bool:
        """True if epochs, or orders with other seeds, may have different numbers of units."""

    @abstractmethod
    def total(self, at: Position) -> int:
        """Return the number of units of the epoch of a position."""

    def foresee(self, at: Callable[[], Position]) -> None:  # noqa: B027 - rows are known anyway
        """Begin to find the units of the epoch of a position on a thread, if that takes long.

        Args:
            at: returns the position.
        """

    def close(self) -> None:  # noqa: B027 - most units have no thread
        """End the thread of `foresee`. Idempotent."""

    def prepare(self, at: Position, mine: Share) -> Iterator[None]:  # noqa: ARG002 - see RowUnits
        """Compute parts of `read_plan`, one before each `yield`: it then takes less time.

        Args:
            at: a position in the epoch.
            mine: the share to plan.
        """
        return iter(())

    @abstractmethod
    def read_plan(self, at: Position, mine: Share, *, stripe_rows: int, ramp: bool) -> ReadPlan:
        """Plan the rows of a share of units of the epoch of a position.

        The other arguments are as for `read_plan.share_plan`.
        """

    def lanes_plan(
        self, at: Position, shares: Sequence[Share], *, stripe_rows: int, ramp: bool
    ) -> ReadPlan:
        """Plan the rows of several shares side by side, each as a lane.

        The shares have as many batches each. The other arguments are as for `read_plan`.
        """
        return in_lanes(
            [self.read_plan(at, share, stripe_rows=stripe_rows, ramp=ramp) for share in shares]
        )

    def batches(self, at: Position, world: int, rank: int | None) -> int:
        """Return the batches that a rank still delivers after a position; see `batches`."""
        return batches(self.total(at), self.options, at.progress, world, rank)

    def share(self, at: Position, part: WorkerSlot) -> Share:
        """Return the units that a worker delivers after a position; see `share`."""
        name = (self.total(at), self.options, at.progress, part, at.taken)
        latest = self._latest_share  # another thread may replace the latest share
        if latest is None or latest[0] != name:
            self._latest_share = latest = name, share(*name)
        return latest[1]

    def step_shares(
        self, at: Position, steps: Iterable[StepOfLeg], rank: int | None
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
        permute: the permutation of n row groups by a key, as `permutation`.

    Attributes:
        row_groups: all row groups, in canonical order.
    """

    def __init__(
        self, row_groups: RowGroups, options: Options, permute: Permute = permutation
    ) -> None:
        self.options = options
        self.row_groups = row_groups
        self._permute = permute
        # The latest plan of an epoch in order, with what the plan was made of.
        self._latest_plan: tuple[Share, int, bool, ReadPlan] | None = None
        # The row groups of an epoch, in order until the epoch is planned, with the epoch.
        self._ordered: tuple[tuple[int, int, str], EpochSequence] | None = None
        # The latest cuts at windows, with the share that was cut.
        self._latest_cuts: tuple[Share, WindowCuts] | None = None
        # The same of several shares.
        self._latest_lanes: tuple[Sequence[Share], LaneCuts] | None = None

    def use_window(self, window: Window) -> None:
        """Replace the shuffle windows of all epochs."""
        self.options = self.options.in_windows(window)
        self.__dict__.update(dict.fromkeys(_LATEST))

    @property
    def varies(self) -> bool:
        """False: all epochs have all rows."""
        return False

    def groups_of(self, at: Position) -> RowGroups:  # noqa: ARG002 - all epochs have all rows
        """Return the row groups, with the number of rows that the epoch of a position has."""
        return self.row_groups

    def rows_of_copies(self, at: Position, rows: Int64s) -> Int64s:  # noqa: ARG002 - as above
        """Return rows of `groups_of`, (n, 3) as `delivered_rows`, among the rows that stay."""
        return rows

    def total(self, at: Position) -> int:
        """Return the number of rows."""
        return self.groups_of(at).total_rows

    def read_plan(self, at: Position, mine: Share, *, stripe_rows: int, ramp: bool) -> ReadPlan:
        """Plan the rows of a share."""
        lasts = not self.options.shuffle and not self.varies  # all epochs have the same order
        latest = self._latest_plan if lasts else None
        if latest is not None and latest[0] is mine and latest[1:3] == (stripe_rows, ramp):
            return replace(latest[3], seed=at.seed, epoch=at.epoch)
        sequence = self._sequence(at)
        plan = share_plan(
            self.groups_of(at),
            self._options(at),
            at.epoch,
            mine,
            stripe_rows=stripe_rows,
            ramp=ramp,
            sequence=sequence,
            cuts=self._cuts(sequence, mine) if self.options.shuffle else None,
        )
        if lasts and len(plan.pieces) <= _MOST_KEPT_PIECES:
            self._latest_plan = mine, stripe_rows, ramp, plan
        return plan

    def prepare(self, at: Position, mine: Share) -> Iterator[None]:
        """Order the row groups of an epoch, then cut them at windows."""
        if not self.options.shuffle:  # all epochs may have one plan
            return
        sequence = self._sequence(at)
        self._ordered = (at.seed, at.epoch, at.weights), sequence
        yield
        if not self.varies:  # else the cuts are not kept
            cuts = self._cuts(sequence, mine)
            sequence.pieces(cuts.starts, cuts.stops)
            yield

    def _sequence(self, at: Position) -> EpochSequence:
        """Return the row groups of the epoch of a position, in order."""
        ordered, self._ordered = self._ordered, None
        if ordered is not None and ordered[0] == (at.seed, at.epoch, at.weights):
            return ordered[1]
        return EpochSequence.of(self.groups_of(at), self._options(at), at.epoch, self._permute)

    def _options(self, at: Position) -> Options:
        """Return the dataset's parameters with the seed of a position."""
        options = self.options
        return options if options.seed == at.seed else replace(options, seed=at.seed)

    def _cuts(self, sequence: EpochSequence, mine: Share) -> WindowCuts:
        """Return the cuts of a share at the windows of a shuffled epoch."""
        latest = self._latest_cuts
        if latest is not None and latest[0] is mine and not self.varies:
            return latest[1]
        cuts = window_cuts(ShuffleWindows.of(sequence.rows, self.options), mine.intervals)
        if len(cuts.takes) <= _MOST_KEPT_PIECES:
            self._latest_cuts = mine, cuts
        return cuts

    def lanes_plan(
        self, at: Position, shares: Sequence[Share], *, stripe_rows: int, ramp: bool
    ) -> ReadPlan:
        """Plan the rows of several shares side by side, each as a lane."""
        if len(shares) == 1 or not self.options.shuffle:
            return super().lanes_plan(at, shares, stripe_rows=stripe_rows, ramp=ramp)
        sequence = self._sequence(at)
        cuts = self._lane_cuts(sequence, shares)
        return shuffled_lanes(sequence, self._options(at), at.epoch, cuts)

    def _lane_cuts(self, sequence: EpochSequence, shares: Sequence[Share]) -> LaneCuts:
        """Return the cuts of lanes at the windows of a shuffled epoch."""
        latest = self._latest_lanes
        if latest is not None and latest[0] is shares and not self.varies:
            return latest[1]
        windows = ShuffleWindows.of(sequence.rows, self.options)
        cuts = lane_cuts(windows, shares, self.options.batch_size)
        if len(cuts.windows.takes) <= _MOST_KEPT_PIECES:
            self._latest_lanes = shares, cuts
        return cuts

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, **dict.fromkeys(_LATEST)}
