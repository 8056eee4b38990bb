"""The iterator of one pass over a dataset, and the feed that hands out the batches of one scan."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

import torch

from fastload.plan.position import BatchPosition, batch_position_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fastload.batch.batch import Batch
    from fastload.engine.engine import Engine
    from fastload.plan.position import Position, WorkerSlot
    from fastload.runtime.native import core

__all__ = [
    "EpochIterator",
    "Feed",
    "OpenFeed",
    "PreparedPass",
    "ScanFeed",
    "copies_warning",
]


# Saved batches hold a BatchPosition; torch.load must be allowed to make one.
torch.serialization.add_safe_globals([batch_position_of])


class Feed(Protocol):
    """A source of batches for a pass."""

    @property
    def lead(self) -> int:
        """Number of rows at the start of the latest batch that must not be delivered."""

    def next(self, mark: BatchPosition) -> Batch | None:
        """Return the next batch, with the position `mark`; None at the end."""

    def close(self) -> None:
        """Abandon the batches that are left. Idempotent."""


class OpenFeed(Feed, Protocol):
    """A feed whose batches come from one engine.

    Attributes:
        on_opened: as in `ScanFeed`.
    """

    on_opened: Callable[[core.Scan | None], bool] | None

    @property
    def engine(self) -> Engine:
        """The engine that makes the batches."""

    @property
    def ready(self) -> bool:
        """True if `next` need not wait, and the batches handed out leave room for one more."""

    def begin(self) -> None:
        """Begin the pass, if the feed was opened to prepare the next pass."""


class ScanFeed:
    """A feed that hands out the batches of one scan.

    Args:
        engine: the engine that makes the batches.
        scan: the scan of the core.
        on_copy: called for each batch that is handed out as a copy.

    Attributes:
        lead: as in `Feed`.
        on_opened: a function that prepares the next pass in small steps, so that no batch waits
            for all of the steps; None = no call. Called with the scan after each batch once
            the scan has opened its last window, until the function returns True (no step is
            left). Called with None if the scan is given up for another scan.
    """

    lead = 0

    def __init__(self, engine: Engine, scan: core.Scan, on_copy: Callable[[], None]) -> None:
        self.engine = engine
        self.on_opened: Callable[[core.Scan | None], bool] | None = None
        self._done = False  # on_opened has no step left
        self._first = True  # no batch has been handed out
        self._scan = scan
        self._on_copy = on_copy

    @property
    def ready(self) -> bool:
        """True if `next` need not wait, and the batches handed out leave room for one more."""
        engine = self.engine
        return self._scan.ready and 2 * engine.pipeline.lent_bytes <= engine.lend_bytes

    def begin(self) -> None:
        """Begin the pass, if the feed was opened to prepare the next pass."""
        self.engine.begin(self._scan)

    def next(self, mark: BatchPosition) -> Batch | None:
        """Return the next batch, with the position `mark`; None at the end."""
        lent = self._lent()
        if lent is None:
            return None
        batch, copied = self.engine.batch_of(lent, mark)
        if copied:
            self._on_copy()
        if self.on_opened is not None and not self._done and self._scan.opened_all:
            self._done = self.on_opened(self._scan)
            # If the last window is open at the first batch, the pass has few batches: too few
            # to take only one step after each.
            while self._first and not self._done:
                self._done = self.on_opened(self._scan)
        self._first = False
        return batch

    def close(self) -> None:
        """Abandon the batches that are left. Idempotent."""
        self._scan.close()

    def _lent(self) -> core.LentBatch | None:
        return self.engine.next_of(self._scan)


class EpochIterator:
    """The iterator over the batches of one pass.

    Args:
        feed: the feed that the batches come from.
        start: the position where the pass begins.
        part: the slot of this worker.

    Attributes:
        start: the position where the pass begins.
        part: the slot of this worker.
        finished: True once the pass has ended or was closed.
        consuming_s: seconds that the consumer has spent between batches.
    """

    def __init__(self, feed: Feed, start: Position, part: WorkerSlot) -> None:
        self.start = start
        self.finished = False
        self.consuming_s = 0.0
        self.part = part
        self._feed = feed
        self._taken = 0
        self._handed_out_at: float | None = None

    @property
    def mark(self) -> BatchPosition:
        """The position after the latest batch."""
        return self._mark_after(self._taken)

    @property
    def own_position(self) -> Position:
        """The position where this worker continues, independently of the other workers."""
        return replace(self.start, taken=self.start.taken + self._taken)

    @property
    def untouched(self) -> bool:
        """True if no batch was taken and the pass has not ended."""
        return self._handed_out_at is None and not self.finished

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __repr__(self) -> str:
        over = ", over" if self.finished else ""
        return f"Pass(epoch {self.start.epoch}: {self._taken} batches delivered{over})"

    def __next__(self) -> Batch:
        batch = self._next(1)
        if batch is None:
            raise StopIteration
        return batch

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the rows of the batches one by one, and count each row as delivered."""
        while (batch := self._next(0)) is not None:
            columns = [list(value) for value in batch.values()]
            names = list(batch)
            for row in islice(zip(*columns, strict=True), self._feed.lead, None):
                if self.finished:
                    return
                self._taken += 1
                yield dict(zip(names, row, strict=True))

    def close(self) -> None:
        """Abandon the batches that are left. Idempotent."""
        self.finished = True
        self._feed.close()

    def _next(self, counts: int) -> Batch | None:
        if self.finished:
            return None
        if self._handed_out_at is not None:
            self.consuming_s += time.perf_counter() - self._handed_out_at
        batch = self._feed.next(self._mark_after(self._taken + counts))
        if batch is None:
            self.close()
            return None
        self._taken += counts
        self._handed_out_at = time.perf_counter()
        return batch

    def _mark_after(self, taken: int) -> BatchPosition:
        part = self.part
        if not taken:
            return BatchPosition(self.start, part, 0)
        # Workers take turns, so workers with lower numbers have delivered one batch more.
        turns = self.start.taken + taken - 1
        return BatchPosition(self.start, part, turns * part.workers + part.worker + 1)


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


def copies_warning(memory_budget: int) -> str:
    """Return the warning for the first batch that is handed out as a copy."""
    return (
        "Batches that the program keeps hold all the memory that memory_budget="
        f"{memory_budget} leaves for batches; from now on batches come as copies in ordinary "
        "memory. To keep batches, or one column of each, keep batch.clone() or column.clone(), or "
        "raise memory_budget"
    )
