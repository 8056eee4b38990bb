"""The next pass, prepared in small steps while a pass is running."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fastload.dataset.passes.feed import OpenFeed
    from fastload.dataset.passes.open_feed import FeedFactory
    from fastload.engine.engine import Engine
    from fastload.plan.position import Position, WorkerSlot
    from fastload.plan.rank_split import Share
    from fastload.plan.read_plan import ReadPlan
    from fastload.runtime.native import core

__all__ = ["NextPass", "PreparedPass"]


class NextPass:
    """The pass expected after the running pass, planned and opened step by step.

    The consumer of the running pass takes the steps between batches, so each step is short.

    Args:
        feeds: opens the feeds of the expected pass.
        engine: the engine that makes the batches.
        start: the position where the expected pass begins.
        part: the slot of this worker.
        rank: the number of this rank.
        before: the scan of the running pass.
    """

    def __init__(
        self,
        feeds: FeedFactory,
        engine: Engine,
        start: Position,
        part: WorkerSlot,
        rank: int,
        before: core.Scan,
    ) -> None:
        self.start = start
        self.part = part
        self.before = before
        self._feeds = feeds
        self._engine = engine
        self._rank = rank
        self._share: Share | None = None
        self._plan: ReadPlan | None = None

    def step(self) -> OpenFeed | None:
        """Take the next step: choose the share, plan the share, or open and return the feed."""
        feeds = self._feeds
        if feeds.plans and self._share is None:
            self._share = feeds.share_of(self.start, self.part, self._rank)
            return None
        if self._share is not None and self._plan is None:
            self._plan = feeds.plan_of(self._engine, self.start, self._share, ramp=False)
            return None
        return feeds.open(self._engine, self.start, self.part, self._rank, self.before, self._plan)


class PreparedPass:
    """The pass expected after the running pass; the first windows are being read.

    Args:
        feed: the open feed of the expected pass.
        start: the position where the expected pass begins.
        part: the slot of this worker.
    """

    def __init__(self, feed: OpenFeed, start: Position, part: WorkerSlot) -> None:
        self.start = start
        self._feed = feed
        self._part = part

    def take(self, engine: Engine, start: Position, part: WorkerSlot) -> OpenFeed | None:
        """Return the feed if the expected pass begins; otherwise close the feed, return None."""
        if engine is self._feed.engine and (start, part) == (self.start, self._part):
            self._feed.begin()
            return self._feed
        self.close()
        return None

    def close(self) -> None:
        """Close the feed and release its memory. Idempotent."""
        self._feed.close()
