"""One pass over a dataset: an iterator that knows what it has delivered, and what feeds it."""

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


# Batches carry their marks; torch.load asks what it may make.
torch.serialization.add_safe_globals([batch_position_of])


class Feed(Protocol):
    """What a pass takes its batches from."""

    @property
    def lead(self) -> int:
        """Rows at the start of the batch that came last that are not to be delivered."""

    def next(self, mark: BatchPosition) -> Batch | None:
        """The next batch, which carries the mark; None at the end."""

    def close(self) -> None:
        """Abandons what is left. Idempotent."""


class OpenFeed(Feed, Protocol):
    """A feed of one engine.

    on_opened: as `ScanFeed` has it.
    """

    on_opened: Callable[[core.Scan | None], bool] | None

    @property
    def engine(self) -> Engine:
        """Does the work."""

    @property
    def ready(self) -> bool:
        """Whether the next batch can be had at once, and kept beside those handed out."""

    def begin(self) -> None:
        """Begins what was prepared."""


class ScanFeed:
    """The batches of one scan.

    Args:
        engine: does the work.
        scan: the core's side of it.
        on_copy: told of each batch that is handed out as a copy.

    Attributes:
        lead: as `Feed` has it.
        on_opened: told, with the scan, after each batch from when the last window is in work on,
            until it says that it has done all there is to do then: it does that in steps, so that
            no batch waits for all of them. Told with None when that scan was given up for another
            one. None = nobody is told.
    """

    lead = 0

    def __init__(self, engine: Engine, scan: core.Scan, on_copy: Callable[[], None]) -> None:
        self.engine = engine
        self.on_opened: Callable[[core.Scan | None], bool] | None = None
        self._done = False  # on_opened has nothing left to do
        self._first = True  # the batch that comes next is
        self._scan = scan
        self._on_copy = on_copy

    @property
    def ready(self) -> bool:
        """Whether the next batch can be had at once, and kept beside those handed out."""
        engine = self.engine
        return self._scan.ready and 2 * engine.pipeline.lent_bytes <= engine.lend_bytes

    def begin(self) -> None:
        """Begins what was prepared."""
        self.engine.begin(self._scan)

    def next(self, mark: BatchPosition) -> Batch | None:
        """The next batch, which carries the mark; None at the end."""
        lent = self._lent()
        if lent is None:
            return None
        batch, copied = self.engine.batch_of(lent, mark)
        if copied:
            self._on_copy()
        if self.on_opened is not None and not self._done and self._scan.opened_all:
            self._done = self.on_opened(self._scan)
            # A pass of few batches has no time to lose.
            while self._first and not self._done:
                self._done = self.on_opened(self._scan)
        self._first = False
        return batch

    def close(self) -> None:
        """Abandons what is left. Idempotent."""
        self._scan.close()

    def _lent(self) -> core.LentBatch | None:
        return self.engine.next_of(self._scan)


class EpochIterator:
    """An iterator of batches.

    Args:
        feed: where they come from.
        start: where the pass begins.
        part: which worker this is.
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
        """After what was handed out last."""
        return self._mark_after(self._taken)

    @property
    def own_position(self) -> Position:
        """Where this worker goes on by itself."""
        return replace(self.start, taken=self.start.taken + self._taken)

    @property
    def untouched(self) -> bool:
        """Whether nothing was asked of it."""
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
        """The rows of the batches, one by one; each counts as delivered."""
        while (batch := self._next(0)) is not None:
            columns = [list(value) for value in batch.values()]
            names = list(batch)
            for row in islice(zip(*columns, strict=True), self._feed.lead, None):
                if self.finished:
                    return
                self._taken += 1
                yield dict(zip(names, row, strict=True))

    def close(self) -> None:
        """Abandons what is left. Idempotent."""
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
        # Workers take turns, so those before this one have delivered one more.
        turns = self.start.taken + taken - 1
        return BatchPosition(self.start, part, turns * part.workers + part.worker + 1)


class PreparedPass:
    """A pass that is expected after the one that runs; its first windows are being read.

    Args:
        feed: where its batches come from.
        start: where it begins.
        part: which worker this is.
    """

    def __init__(self, feed: OpenFeed, start: Position, part: WorkerSlot) -> None:
        self.start = start
        self._feed = feed
        self._part = part

    def take(self, engine: Engine, start: Position, part: WorkerSlot) -> OpenFeed | None:
        """The feed, if the pass that begins is the one expected; else closes it."""
        if engine is self._feed.engine and (start, part) == (self.start, self._part):
            self._feed.begin()
            return self._feed
        self.close()
        return None

    def close(self) -> None:
        """Gives back its memory. Idempotent."""
        self._feed.close()


def copies_warning(memory_budget: int) -> str:
    """What is said once when batches are copies from now on."""
    return (
        f"Batches that are kept hold all the memory that memory_budget={memory_budget} leaves for "
        "them; from now on batches come as copies in ordinary memory. To keep batches, or one "
        "column of each, keep batch.clone() or column.clone(), or raise memory_budget"
    )
