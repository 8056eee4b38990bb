"""Positions in an epoch: where a run is, and which position each batch stands for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from fastload.plan.progress import Leg, advance

__all__ = ["BatchPosition", "Position", "WorkerSlot", "batch_position_of"]


@dataclass(frozen=True, slots=True)
class Position:
    """A position in an epoch: the legs run so far (plan.Leg), up to and including a batch.

    seed: of the dataset.
    taken: batches of its own share after those legs that one worker has delivered, where a
        worker goes on by itself; 0 for a position of the whole rank.
    """

    seed: int
    epoch: int
    progress: tuple[Leg, ...]
    taken: int = 0
    seeds: tuple[int, ...] = ()

    def of_epoch(self, epoch: int) -> Position:
        """The beginning of an epoch, with the same seeds."""
        return Position(self.seed, epoch, (), seeds=self.seeds)


@dataclass(frozen=True, slots=True)
class WorkerSlot:
    """Which worker of how many delivers a pass, of how many ranks.

    No worker processes count as one worker.
    """

    world: int
    workers: int = 1
    worker: int = 0


@dataclass(frozen=True, slots=True)
class BatchPosition:
    """Where a batch stands: where its pass began, and the rank's batches up to it.

    source: the one of a mix that the batch comes from.
    """

    start: Position
    part: WorkerSlot
    delivered: int
    source: str | None = None

    @property
    def position(self) -> Position:
        """The position right after the batch."""
        part = self.part
        legs = advance(self.start.progress, part.world, part.workers, self.delivered)
        return replace(self.start, progress=legs, taken=0)

    def __reduce__(self) -> tuple[Any, ...]:
        # Each batch of a worker process brings one along: plain numbers take a third of the time.
        legs = tuple((leg.world, leg.workers, leg.delivered) for leg in self.start.progress)
        start = (self.start.seed, self.start.epoch, legs, self.start.taken, self.start.seeds)
        part = (self.part.world, self.part.workers, self.part.worker)
        return batch_position_of, (start, part, self.delivered, self.source)

    def of_source(self, name: str) -> BatchPosition:
        """The same place, for a batch of that source."""
        return replace(self, source=name)


def batch_position_of(
    start: tuple[Any, ...], part: tuple[int, int, int], delivered: int, source: str | None
) -> BatchPosition:
    """Build a Mark from the plain numbers that `BatchPosition.__reduce__` pickles."""
    seed, epoch, legs, taken, seeds = start
    progress = tuple(Leg(*leg) for leg in legs)
    return BatchPosition(
        Position(seed, epoch, progress, taken, seeds), WorkerSlot(*part), delivered, source
    )
