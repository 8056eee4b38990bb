"""The iterator of one pass over a dataset, which gives each batch its position."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import torch

from fastload.plan.position import BatchPosition, batch_position_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastload.batch.batch import Batch
    from fastload.dataset.passes.feed import Feed
    from fastload.plan.position import Position, WorkerSlot

__all__ = ["EpochIterator"]


# Saved batches hold a BatchPosition; torch.load must be allowed to make one.
torch.serialization.add_safe_globals([batch_position_of])


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
