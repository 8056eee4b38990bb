"""Pass: the iterator over the batches of one pass, which gives each batch its position."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

import torch

from fastload.plan.position import BatchPosition, batch_position_of
from fastload.runtime.tracing import untraced

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastload.batch.batch import Batch
    from fastload.dataset.epochs import EpochCell
    from fastload.plan.position import Position, WorkerSlot

__all__ = ["Pass"]


# Saved batches hold a BatchPosition; torch.load must be allowed to make one.
torch.serialization.add_safe_globals([batch_position_of])


class Batches(Protocol):
    """The batches of a pass, as `Feed` and `MixedFeed` deliver them.

    Attributes:
        held: the batch that `next` made, until the pass sets this to None.
    """

    held: Batch | None

    def next(self, mark: BatchPosition) -> Batch | None:
        """Return the held batch, or else hold and return the next one; None at the end."""

    def close(self) -> None:
        """Abandon the batches that are left. Idempotent."""


class Pass:
    """The iterator over the batches of one pass.

    Args:
        feed: the feed that the batches come from.
        start: the position where the pass begins.
        part: the slot of this worker.
        cell: the cell in which the pass has begun; the batches carry its `order`.
        of: digest of the files and the order of the dataset, which its batches carry.

    Attributes:
        start: the position where the pass begins.
        part: the slot of this worker.
        taken: number of batches delivered.
        finished: True once the pass is exhausted, was closed or was ended.
        consuming_s: seconds that the consumer has spent between batches.
    """

    def __init__(
        self,
        feed: Batches,
        start: Position,
        part: WorkerSlot,
        cell: EpochCell,
        *,
        of: str,
    ) -> None:
        self.start = start
        self._of = of
        self._cell = cell
        self._order = cell.order
        self._counts = True  # the pass takes an epoch
        self.finished = False
        self.consuming_s = 0.0
        self.part = part
        # Workers take turns, so workers with lower numbers have delivered one batch more.
        self._delivered_before = (start.taken - 1) * part.workers + part.worker + 1
        self._feed = feed
        self.taken = 0
        self._ended: str | None = None  # why the pass raises, if something else ended it
        self._handed_out_at: float | None = None

    @property
    def mark(self) -> BatchPosition:
        """The position after the latest batch."""
        return self._mark_after(self.taken)

    @property
    def own_position(self) -> Position:
        """The position where this worker continues, independently of the other workers."""
        return replace(self.start, taken=self.start.taken + self.taken)

    @property
    def untouched(self) -> bool:
        """True if no batch was taken and the pass has not ended."""
        return self._handed_out_at is None and not self.finished

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __repr__(self) -> str:
        over = ", over" if self.finished else ""
        return f"Pass(epoch {self.start.epoch}: {self.taken} batches delivered{over})"

    @untraced
    def __next__(self) -> Batch:
        batch = self._next()
        if batch is None:
            raise StopIteration
        return batch

    def close(self) -> None:
        """Abandon the batches that are left, and behave as exhausted from now on. Idempotent."""
        self.finished = True
        self._feed.close()

    def end(self, cause: str, advice: str) -> None:
        """Abandon the batches that are left, and raise if someone asks for one from now on.

        Without effect on a pass that is exhausted or was closed.

        Args:
            cause: the subject of the sentence "... ended this pass".
            advice: what the caller can write instead.
        """
        if not self.finished:
            self._ended = f"{cause} ended this pass after {self.taken} batches: {advice}"
        self.close()

    def end_as_ordered(self) -> None:
        """End this worker's pass, as `end` does, if the main process has ended it."""
        if self._order[0] and (ended := self._cell.ended) is not None:
            self.end(*ended)

    def _next(self) -> Batch | None:
        self.end_as_ordered()
        if (self.finished or self._ended is not None) and self._is_over():
            return None
        if self._handed_out_at is not None:
            self.consuming_s += time.perf_counter() - self._handed_out_at
        try:
            batch = self._feed.next(self._mark_after(self.taken + 1))
        except Exception as error:
            # The core raises RuntimeError if another thread closes the scan during the wait.
            if type(error) is RuntimeError and self._is_over():
                return None
            # Worker 0 delivers the first batch of a pass. A worker that continues on its own does
            # not know which batch is the first.
            if self.untouched and not (self.part.worker or self.start.taken):
                self._set_counts(False)
            raise
        if batch is None:
            self.close()
            self._is_over()
            return None
        if not self._counts:  # a warning was raised as an error, and the pass goes on
            self._set_counts(True)
        self._handed_out_at = time.perf_counter()
        # If Ctrl-C ends this call before here, the feed holds the batch for the next call.
        self.taken += 1
        self._feed.held = None
        return batch

    def _set_counts(self, counts: bool) -> None:
        (self._cell.redo if counts else self._cell.undo)(self.start)
        self._counts = counts

    def _is_over(self) -> bool:
        """Return True if the pass is exhausted or was closed; raise if the pass was ended."""
        if self._ended is not None:
            raise RuntimeError(self._ended)
        return self.finished

    def _mark_after(self, taken: int) -> BatchPosition:
        delivered = self._delivered_before + taken * self.part.workers if taken else 0
        return BatchPosition(self.start, self.part, delivered, None, self._of, *self._order)
