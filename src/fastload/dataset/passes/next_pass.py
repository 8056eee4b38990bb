"""The next pass, planned in small steps and opened while a pass is running."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastload.dataset.passes.feed import Feed

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from fastload.dataset.passes.feed import FeedContext
    from fastload.dataset.passes.feed_plan import PassPlan
    from fastload.engine.engine import Engine
    from fastload.plan.position import Position, WorkerSlot
    from fastload.plan.read_plan import ReadPlan
    from fastload.runtime.native import core

__all__ = ["NextPass", "feed_in_steps"]


def feed_in_steps(
    context: FeedContext, engine: Engine, plan: PassPlan, before: core.Scan
) -> Iterator[Feed | None]:
    """Yield None after each short step towards the next pass, then the feed of that pass.

    Args:
        context: what the feeds of the dataset share.
        engine: the engine that makes the batches.
        plan: the batches of the next pass.
        before: the scan of the running pass.
    """
    reads = None
    if context.report is None:  # else the reads depend on the row groups that fail
        steps: Generator[None, None, ReadPlan] = plan.reads_in_steps(engine.budget.stripe_rows)
        reads = yield from steps
    yield Feed(context, engine, plan, before, reads)


class NextPass:
    """The pass after the running one: planned step by step, then open until it begins."""

    def __init__(self) -> None:
        self._start: tuple[Position, WorkerSlot] | None = None  # None = no pass is planned
        self._before: core.Scan | None = None  # the running scan, as long as steps are left
        self._steps: Iterator[Feed | None] = iter(())
        self._feed: Feed | None = None

    def set(self, feed: Feed, start: Position, part: WorkerSlot) -> None:
        """Take a feed that was opened elsewhere, in place of the pass planned so far."""
        self.drop()
        self._start, self._feed = (start, part), feed

    def take(self, engine: Engine, start: Position, part: WorkerSlot) -> Feed | None:
        """Return the open feed if its pass begins, and forget it; otherwise close it."""
        planned, feed = self._start, self._feed
        self._forget()
        if feed is None:
            return None
        if engine is not feed.engine or planned != (start, part):
            feed.close()
            return None
        feed.begin()
        return feed

    def step(
        self,
        scan: core.Scan,
        plan: Callable[[], tuple[Position, WorkerSlot, Iterator[Feed | None]]],
    ) -> bool:
        """Take one step towards the pass whose first windows are read while `scan` ends.

        Args:
            scan: the scan of the running pass.
            plan: returns where the next pass begins, and its steps as `feed_in_steps` does.

        Returns:
            True if no step is left.
        """
        if self._before is not scan:
            self.drop()
            start, part, self._steps = plan()
            self._start, self._before = (start, part), scan
            return False
        self._before = None  # a pass whose step raises is planned anew
        self._feed = next(self._steps)
        if self._feed is None:
            self._before = scan
            return False
        self._steps = iter(())  # which hold the scan of the running pass
        return True

    def expect(self, start: Callable[[], Position]) -> None:
        """Drop the pass, unless it begins at the position that `start` returns."""
        planned = self._start
        if planned is not None and planned[0] != start():
            self.drop()

    def drop(self) -> None:
        """Close the pass, if one is planned. Idempotent."""
        feed = self._feed
        self._forget()
        if feed is not None:
            feed.close()

    def _forget(self) -> None:
        self._start = self._before = self._feed = None
        self._steps = iter(())

    def __reduce__(self) -> tuple[type[NextPass], tuple[()]]:
        # An open feed belongs to this process.
        return NextPass, ()
