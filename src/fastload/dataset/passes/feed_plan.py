"""What a feed delivers: a worker's share of an epoch, or of one repetition of a source of a mix."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from fastload.plan.position import Position, turn
from fastload.plan.substitution import Substitution
from fastload.steps.run import SeedKey

if TYPE_CHECKING:
    from collections.abc import Generator

    from fastload.plan.mix.source_share import SourceShare
    from fastload.plan.position import WorkerSlot
    from fastload.plan.read_plan import ReadPlan
    from fastload.plan.units.units import Units

__all__ = ["FeedPlan", "PassPlan", "SourcePlan"]


class FeedPlan(Protocol):
    """The batches that a feed delivers."""

    @property
    def seeds(self) -> SeedKey:
        """The numbers from which the seeds of the rows are derived."""

    def reads(self, stripe_rows: int, delivered: int) -> ReadPlan:
        """Return the reads of all batches but the first `delivered`."""

    def substitution(self, stripe_rows: int, delivered: int) -> tuple[Substitution, int]:
        """Return the reads with substitutes for unreadable rows.

        Returns:
            The reads of the whole share of the leg, and the number of its first rows that were
            delivered, `delivered` batches of the feed among them.
        """


@dataclass(frozen=True)
class PassPlan:
    """The batches of a pass over a dataset.

    Args:
        units: the units of an epoch, which batches count.
        start: the position where the pass begins.
        part: the slot of this worker.
    """

    units: Units
    start: Position
    part: WorkerSlot

    @property
    def seeds(self) -> SeedKey:
        """As in `FeedPlan`."""
        return SeedKey(self.start.seed, self.start.epoch)

    def reads(self, stripe_rows: int, delivered: int) -> ReadPlan:
        """As in `FeedPlan`."""
        at = self._after(delivered)
        share = self.units.share(at, self.part)
        return self.units.read_plan(at, share, stripe_rows=stripe_rows, ramp=True)

    def reads_in_steps(self, stripe_rows: int) -> Generator[None, None, ReadPlan]:
        """Find the reads of a pass that begins once another ends; yield after each short step."""
        share = self.units.share(self.start, self.part)
        yield
        yield from self.units.prepare(self.start, share)
        plan = self.units.read_plan(self.start, share, stripe_rows=stripe_rows, ramp=False)
        yield
        return plan

    def substitution(self, stripe_rows: int, delivered: int) -> tuple[Substitution, int]:
        """As in `FeedPlan`."""
        units, at = self.units, self._after(delivered)
        here = turn(units.total(at), units.options, at.progress, self.part, at.taken)
        leg = replace(at, progress=here.before, taken=0)

        def reads_of(worker: int) -> ReadPlan:
            share = units.share(leg, replace(self.part, worker=worker))
            return units.read_plan(leg, share, stripe_rows=stripe_rows, ramp=False)

        substitution = Substitution(reads_of, here.worker, self.part.workers)
        return substitution, here.delivered * units.options.batch_size

    def _after(self, delivered: int) -> Position:
        return replace(self.start, taken=self.start.taken + delivered)


@dataclass(frozen=True)
class SourcePlan:
    """The batches of one repetition of a source in a pass over a mix.

    Args:
        units: the units of an epoch of the source.
        epoch: number of the epoch.
        own: the share of this worker.
    """

    units: Units
    epoch: int
    own: SourceShare

    @property
    def seeds(self) -> SeedKey:
        """As in `FeedPlan`."""
        return SeedKey(self.own.seed, self.epoch)

    def reads(self, stripe_rows: int, delivered: int) -> ReadPlan:
        """As in `FeedPlan`."""
        share = self._after(delivered).share
        return self.units.read_plan(self._start, share, stripe_rows=stripe_rows, ramp=False)

    def substitution(self, stripe_rows: int, delivered: int) -> tuple[Substitution, int]:
        """As in `FeedPlan`."""
        own = self._after(delivered)
        shares = own.shares_of_leg

        def reads_of(part: int) -> ReadPlan:
            share = shares[part]
            return self.units.read_plan(self._start, share, stripe_rows=stripe_rows, ramp=False)

        substitution = Substitution(reads_of, worker=1, workers=len(shares))
        return substitution, own.delivered * self.units.options.batch_size

    @property
    def _start(self) -> Position:
        return Position(self.own.seed, self.epoch, ())

    def _after(self, delivered: int) -> SourceShare:
        return self.own._replace(delivered=self.own.delivered + delivered)
