"""The next pass, prepared in small steps while a pass is running."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fastload.dataset.passes.feed import OpenFeed
    from fastload.dataset.passes.open_feed import FeedFactory
    from fastload.engine.engine import Engine
    from fastload.plan.position import Position, WorkerSlot
    from fastload.runtime.native import core

__all__ = ["LookAhead", "NextPass", "PreparedPass"]


class NextPass:
    """The pass expected after the running pass, planned and opened step by step.

    The consumer of the running pass takes the steps between batches, so each step is short.

    Args:
        feeds: opens the feeds of the expected pass.
        engine: the engine that makes the batches.
        start: the position where the expected pass begins.
        part: the slot of this worker.
        before: the scan of the running pass.
    """

    def __init__(
        self,
        feeds: FeedFactory,
        engine: Engine,
        start: Position,
        part: WorkerSlot,
        before: core.Scan,
    ) -> None:
        self.start = start
        self.part = part
        self.before = before
        self._steps = _opened(feeds, engine, start, part, before)

    def step(self) -> OpenFeed | None:
        """Take the next step; return the feed after the last one."""
        return next(self._steps)


# Not a method: its frame would hold the pass that holds the frame, and with them the scan before,
# until the garbage collector of Python comes.
def _opened(
    feeds: FeedFactory, engine: Engine, start: Position, part: WorkerSlot, before: core.Scan
) -> Iterator[OpenFeed | None]:
    """Yield None after each step towards a pass but the last, then the feed."""
    plan = None
    if feeds.plans:
        share = feeds.units.share(start, part)
        yield None
        yield from feeds.units.prepare(start, share)
        plan = feeds.plan_of(engine, start, share, ramp=False)
        yield None
    yield feeds.open(engine, start, part, before, plan)


class PreparedPass(NamedTuple):
    """The pass expected after the running pass; the first windows are being read.

    Attributes:
        feed: the open feed of the expected pass.
        start: the position where the expected pass begins.
        part: the slot of this worker.
    """

    feed: OpenFeed
    start: Position
    part: WorkerSlot


class LookAhead:
    """The pass after the running one: planned step by step, then prepared until it begins."""

    def __init__(self) -> None:
        self._planned: NextPass | None = None
        self._prepared: PreparedPass | None = None

    def set(self, prepared: PreparedPass) -> None:
        """Take a pass that was prepared elsewhere, in place of the pass before."""
        self.drop()
        self._prepared = prepared

    def take(self, engine: Engine, start: Position, part: WorkerSlot) -> OpenFeed | None:
        """Return the feed of the prepared pass if that pass begins; otherwise drop it."""
        prepared, self._prepared, self._planned = self._prepared, None, None
        if prepared is None:
            return None
        feed = prepared.feed
        if engine is not feed.engine or (start, part) != (prepared.start, prepared.part):
            feed.close()
            return None
        feed.begin()
        return feed

    def step(self, scan: core.Scan, plan: Callable[[core.Scan], NextPass]) -> bool:
        """Take one step towards the pass whose first windows are read while `scan` ends.

        Args:
            scan: the scan of the running pass.
            plan: returns the next pass, of which no step is taken yet.

        Returns:
            True if no step is left.
        """
        planned = self._planned
        if planned is None or planned.before is not scan:
            self.drop()
            self._planned = plan(scan)
            return False
        self._planned = None  # a pass whose step raises is planned anew
        following = planned.step()
        if following is None:
            self._planned = planned
            return False
        self._prepared = PreparedPass(following, planned.start, planned.part)
        return True

    def expect(self, start: Callable[[], Position]) -> None:
        """Drop the pass, unless it begins at the position that `start` returns."""
        ahead = self._prepared or self._planned
        if ahead is not None and ahead.start != start():
            self.drop()

    def drop(self) -> None:
        """Close the prepared pass, if there is one. Idempotent."""
        prepared, self._planned, self._prepared = self._prepared, None, None
        if prepared is not None:
            prepared.feed.close()

    def __reduce__(self) -> tuple[type[LookAhead], tuple[()]]:
        # A prepared pass belongs to this process.
        return LookAhead, ()
