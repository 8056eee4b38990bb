"""The factory of the feeds that the passes over a dataset take their batches from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fastload.dataset.passes.feed import ComposedFeed, PreparedFeed, RereadFeed
from fastload.dataset.passes.scan_feed import ScanFeed, SkippingFeed
from fastload.dataset.passes.step_feed import SteppedFeed
from fastload.engine.prepared_engine import PreparedEngine
from fastload.plan.position import Position, turn
from fastload.plan.substitution import Substitution
from fastload.runtime.user_warnings import warn
from fastload.steps.run import SeedKey

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastload.dataset.passes.feed import OpenFeed
    from fastload.dataset.process_engine import ProcessEngine
    from fastload.engine.engine import Engine
    from fastload.errors import FastloadError
    from fastload.plan.mix.source_share import SourceShare
    from fastload.plan.position import WorkerSlot
    from fastload.plan.rank_split import Share
    from fastload.plan.read_plan import ReadPlan
    from fastload.plan.units.units import Units
    from fastload.rows.skip_report import SkipReport
    from fastload.runtime.native import core
    from fastload.steps.steps import Steps

__all__ = ["FeedFactory"]


@dataclass(kw_only=True)
class FeedFactory:
    """A factory that opens the feed of a pass.

    Attributes:
        engines: the arguments with which the engines of the passes are made.
        units: the units of an epoch, which batches count.
        steps: the steps that the batches pass through; None = Python runs no step.
        report: collects the row groups that are unreadable and left out; None = an unreadable row
            group is an error.
        composed: the files are prepared rows of a cache.
        copied_batches: number of batches handed out as copies so far.
    """

    engines: ProcessEngine
    units: Units
    steps: Steps | None
    report: SkipReport | None
    composed: bool = False
    copied_batches: int = 0

    def open(
        self,
        engine: Engine,
        start: Position,
        part: WorkerSlot,
        before: core.Scan | None = None,
        planned: ReadPlan | None = None,
    ) -> OpenFeed:
        """Open the feed of a pass.

        Args:
            engine: the engine that makes the batches.
            start: the position where the pass begins.
            part: the slot of this worker.
            before: as in `Engine.start`.
            planned: the result of `plan_of` for the pass, if it was made before.
        """

        def opened(
            engine: Engine,
            taken: int,
            before: core.Scan | None = None,
            planned: ReadPlan | None = None,
        ) -> OpenFeed:
            feed = begun(engine, taken, before, planned)
            return self._rereading(feed, lambda more: begun(engine, taken + more))

        def begun(
            engine: Engine,
            taken: int,
            before: core.Scan | None = None,
            planned: ReadPlan | None = None,
        ) -> OpenFeed:
            at = replace(start, taken=start.taken + taken)
            if self.plans:
                if planned is None:
                    mine = self.units.share(at, part)
                    planned = self.plan_of(engine, at, mine, ramp=True)
                feed: OpenFeed = self._scanning(engine, planned, before)
            else:
                feed = self._skipping(engine, *self._share_of_leg(engine, at, part), before)
            return self._stepped(feed, SeedKey(at.seed, at.epoch))

        return self._mended(opened(engine, 0, before, planned), opened)

    @property
    def plans(self) -> bool:
        """True if the reads of a pass are known when the pass begins.

        False with on_error="skip", where the reads depend on the row groups that fail.
        """
        return self.report is None

    def plan_of(self, engine: Engine, at: Position, mine: Share, *, ramp: bool) -> ReadPlan:
        """Return the read plan of a pass that delivers a share of the epoch of a position."""
        stripe_rows = engine.budget.stripe_rows
        return self.units.read_plan(at, mine, stripe_rows=stripe_rows, ramp=ramp)

    def _share_of_leg(
        self, engine: Engine, start: Position, part: WorkerSlot
    ) -> tuple[Substitution, int]:
        """Return a worker's share of the whole leg that a pass continues, with its substitutes.

        Returns:
            The share with its substitutes, and the number of rows of the share that were delivered
            before the pass.
        """
        options = self.units.options
        here = turn(self.units.total(start), options, start.progress, part, start.taken)
        leg = replace(start, progress=here.before, taken=0)

        def plan_of(worker: int) -> ReadPlan:
            mine = self.units.share(leg, replace(part, worker=worker))
            return self.plan_of(engine, leg, mine, ramp=False)

        substitution = Substitution(plan_of, here.worker, part.workers)
        return substitution, here.delivered * options.batch_size

    def open_share(
        self, engine: Engine, epoch: int, own: SourceShare, before: core.Scan | None
    ) -> OpenFeed:
        """Open the feed of a share that a mix takes from the dataset."""

        def opened(engine: Engine, delivered: int, before: core.Scan | None = None) -> OpenFeed:
            feed = begun(engine, delivered, before)
            return self._rereading(feed, lambda more: begun(engine, delivered + more))

        def begun(engine: Engine, delivered: int, before: core.Scan | None = None) -> OpenFeed:
            left = own._replace(delivered=own.delivered + delivered)

            def plan_of(mine: Share) -> ReadPlan:
                return self.plan_of(engine, Position(left.seed, epoch, ()), mine, ramp=False)

            if self.report is None:
                feed: OpenFeed = self._scanning(engine, plan_of(left.share), before)
            else:
                shares = left.shares_of_leg
                substitution = Substitution(lambda part: plan_of(shares[part]), worker=1, workers=3)
                first_row = left.delivered * self.units.options.batch_size
                feed = self._skipping(engine, substitution, first_row, before)
            return self._stepped(feed, SeedKey(left.seed, epoch))

        return self._mended(opened(engine, 0, before), opened)

    def _mended(self, feed: OpenFeed, opened: Callable[[Engine, int], OpenFeed]) -> OpenFeed:
        """Wrap a feed over prepared rows in a PreparedFeed; `opened` opens the rest of a pass."""
        if self.composed:
            return ComposedFeed(feed, self.engines.source.files)
        if not isinstance(feed.engine, PreparedEngine):
            return feed

        def rest(engine: PreparedEngine, error: FastloadError, handed_out: int) -> OpenFeed:
            return opened(self.engines.mended(engine, error), handed_out)

        return PreparedFeed(feed, rest)

    def _rereading(self, feed: OpenFeed, rest: Callable[[int], OpenFeed]) -> OpenFeed:
        """Wrap a feed over files of stores in a RereadFeed, unless corrupt row groups are skipped.

        Such a feed reads row groups again by itself.
        """
        if self.report is not None or not self.engines.source.remote:
            return feed
        return RereadFeed(feed, rest)

    def _scanning(self, engine: Engine, read_plan: ReadPlan, before: core.Scan | None) -> ScanFeed:
        scan = engine.start(read_plan, self.engines.batch_rows, before)
        return ScanFeed(engine, scan, self._count_copy, read_plan.batches)

    def _skipping(
        self,
        engine: Engine,
        substitution: Substitution,
        first_row: int,
        before: core.Scan | None,
    ) -> ScanFeed:
        assert self.report is not None
        return SkippingFeed(
            engine,
            self._count_copy,
            substitution,
            first_row,
            self.engines.batch_rows,
            [file.path for file in self.engines.source.files],
            self.report,
            marked=self.units.options.uneven == "pad",
            before=before,
        )

    def _stepped(self, feed: OpenFeed, order: SeedKey) -> OpenFeed:
        steps = feed.engine.steps if isinstance(feed.engine, PreparedEngine) else self.steps
        if not steps:
            return feed
        engines = self.engines
        return SteppedFeed(feed, steps, order, engines.source.files, engines.prefetch)

    def _count_copy(self) -> None:
        self.copied_batches += 1
        if self.copied_batches == 1:
            warn(self.engines.copies_warning)
