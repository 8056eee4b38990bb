"""What the passes over a dataset take their batches from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fastload.dataset.passes.block_feed import BlockFeed
from fastload.dataset.passes.epoch_iterator import ScanFeed, copies_warning
from fastload.dataset.passes.skipping_feed import SkippingFeed, share_of_leg
from fastload.dataset.passes.step_feed import SteppedFeed
from fastload.engine.cache.block_engine import BlockEngine
from fastload.plan import read_plan as plan
from fastload.plan.substitution import Substitution
from fastload.runtime.user_warnings import warn
from fastload.steps.run import SeedKey

if TYPE_CHECKING:
    from fastload.dataset.passes.epoch_iterator import OpenFeed
    from fastload.engine.engine import Engine
    from fastload.plan.mix_plan import SourceShare
    from fastload.plan.position import BatchPosition, Position, WorkerSlot
    from fastload.plan.rank_split import Share
    from fastload.rows.epoch_rows import EpochRows
    from fastload.rows.skip_report import SkipReport
    from fastload.runtime.native import core
    from fastload.source.source import Source
    from fastload.steps.steps import Steps

__all__ = ["FeedFactory"]


@dataclass(kw_only=True)
class FeedFactory:
    """Opens what a pass takes its batches from.

    rows: of an epoch.
    options: that decide the order.
    steps: what the batches go through.
    source: the files.
    report: is told of row groups that can't be read and are left out; None = they are errors.
    batch_rows: rows of the core's batches.
    yields_rows: the dataset hands out rows, not these batches.
    prefetch, memory_budget: as `FastParquetDataset` takes them.
    copied_batches: that were handed out as copies so far.
    """

    rows: EpochRows
    options: plan.Options
    steps: Steps
    source: Source
    report: SkipReport | None
    batch_rows: int
    yields_rows: bool
    prefetch: int
    memory_budget: int
    copied_batches: int = 0

    def open(
        self,
        engine: Engine,
        start: Position,
        part: WorkerSlot,
        rank: int,
        before: core.Scan | None = None,
        planned: plan.ReadPlan | None = None,
    ) -> OpenFeed:
        """The batches of a pass.

        engine: does the work.
        start: where the pass begins.
        part: which worker of how many, of how many ranks.
        rank: which of those.
        before: as `Engine.start` takes it.
        planned: its `plan_of`, if that was made before.
        """
        feed = self._open(engine, start, part, rank, before, planned)
        if not isinstance(engine, BlockEngine):
            return feed

        def rest(handed_out: int, _mark: BatchPosition) -> OpenFeed:
            left = replace(start, taken=start.taken + handed_out)
            return self._open(engine.of_files(), left, part, rank, None, None)

        return BlockFeed(feed, engine.refuse, rest, counts_rows=self.yields_rows)

    @property
    def plans(self) -> bool:
        """Whether a pass can be planned before it begins: not where it skips what can't be read."""
        return self.report is None

    def share_of(self, start: Position, part: WorkerSlot, rank: int) -> Share:
        """The positions that a pass delivers."""
        return plan.share_of(
            self.rows.row_groups,
            self.options,
            start.progress,
            part.world,
            rank,
            part.workers,
            part.worker,
            skip_batches=start.taken,
        )

    def plan_of(
        self, engine: Engine, seed: int, epoch: int, mine: Share, *, ramp: bool
    ) -> plan.ReadPlan:
        """What a pass reads that delivers this share; `ramp` as `plan.read_plan` takes it."""
        row_groups, options = self.rows.row_groups, replace(self.options, seed=seed)
        stripe_rows = engine.budget.stripe_rows
        return plan.share_plan(row_groups, options, epoch, mine, stripe_rows=stripe_rows, ramp=ramp)

    def _open(
        self,
        engine: Engine,
        start: Position,
        part: WorkerSlot,
        rank: int,
        before: core.Scan | None,
        planned: plan.ReadPlan | None,
    ) -> OpenFeed:
        """Open the feed of a pass, which fails at a row group that `engine` can't bring."""
        if self.plans:
            if planned is None:
                mine = self.share_of(start, part, rank)
                planned = self.plan_of(engine, start.seed, start.epoch, mine, ramp=True)
            feed: OpenFeed = self._scanning(engine, planned, before)
        else:
            feed = self._skipping(engine, *self._share_of_leg(engine, start, part, rank), before)
        return self._stepped(feed, SeedKey(start.seed, start.epoch))

    def open_share(
        self, engine: Engine, epoch: int, own: SourceShare, before: core.Scan | None
    ) -> OpenFeed:
        """What a mix takes of the dataset."""
        feed = self._open_share(engine, epoch, own, before)
        if not isinstance(engine, BlockEngine):
            return feed

        def rest(handed_out: int, mark: BatchPosition) -> OpenFeed:
            again = self._open_share(engine.of_files(), epoch, own, None)
            for _ in range(handed_out):
                again.next(mark)
            return again

        return BlockFeed(feed, engine.refuse, rest, counts_rows=False)

    def _open_share(
        self, engine: Engine, epoch: int, own: SourceShare, before: core.Scan | None
    ) -> OpenFeed:
        """Open the feed of a mix, which fails at a row group that `engine` can't bring."""

        def plan_of(mine: Share) -> plan.ReadPlan:
            return self.plan_of(engine, own.seed, epoch, mine, ramp=False)

        if self.report is None:
            feed: OpenFeed = self._scanning(engine, plan_of(own.share), before)
        else:
            shares = own.shares_of_leg
            substitution = Substitution(lambda part: plan_of(shares[part]), worker=1, workers=3)
            first_row = own.delivered * self.options.batch_size
            feed = self._skipping(engine, substitution, first_row, before)
        return self._stepped(feed, SeedKey(own.seed, epoch))

    def _share_of_leg(
        self, engine: Engine, start: Position, part: WorkerSlot, rank: int
    ) -> tuple[Substitution, int]:
        row_groups, stripe_rows = self.rows.row_groups, engine.budget.stripe_rows
        return share_of_leg(row_groups, self.options, start, part, rank, stripe_rows)

    def _scanning(
        self, engine: Engine, read_plan: plan.ReadPlan, before: core.Scan | None
    ) -> ScanFeed:
        return ScanFeed(engine, engine.start(read_plan, self.batch_rows, before), self._count_copy)

    def _skipping(
        self,
        engine: Engine,
        share: Substitution,
        first_row: int,
        before: core.Scan | None,
    ) -> ScanFeed:
        assert self.report is not None
        return SkippingFeed(
            engine,
            self._count_copy,
            share,
            first_row,
            self.batch_rows,
            [file.path for file in self.source.files],
            self.report,
            before,
        )

    def _stepped(self, feed: OpenFeed, order: SeedKey) -> OpenFeed:
        steps = feed.engine.steps if isinstance(feed.engine, BlockEngine) else self.steps
        if not steps:
            return feed
        unit = "rows" if self.yields_rows else "batches"
        return SteppedFeed(feed, steps, order, self.source.files, self.prefetch, unit)

    def _count_copy(self) -> None:
        self.copied_batches += 1
        if self.copied_batches == 1:
            warn(copies_warning(self.memory_budget))
