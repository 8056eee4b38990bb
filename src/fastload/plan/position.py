"""Positions in an epoch: how far a run has come, and the position that each batch stands for.

Four words describe progress:

- A `Leg` (module `progress`) is a stretch of an epoch that was run on one number of ranks and
  workers, with the count of batches that each rank delivered. The legs so far are the progress.
- A `WorkerSlot` (module `progress`) says which worker of a pass a process is: worker 0 of 2, on
  4 ranks. The number comes from the DataLoader and counts from 0 in every new pass.
- A `WorkerTurn` (module `progress`) is the part of a leg that a worker takes over. When a pass
  continues a leg, the worker whose turn is next in that leg becomes worker 0 of the new pass.
- A `BatchPosition` travels with a batch. It holds the position where the pass began, the slot of
  the worker that delivers the batch, and the count of the rank's batches in this pass up to and
  including the batch. So a batch alone yields the `Position` right after it.

An example: on 2 ranks with 2 workers each, a run stops after 5 batches of each rank. Workers
take turns, so worker 0 has delivered 3 of these batches and worker 1 has delivered 2. The progress
is one leg, `Leg(world=2, workers=2, delivered=5)`. A new run begins, again on 2 ranks with 2
workers: the process in slot `WorkerSlot(world=2, workers=2, worker=0)` continues the leg with
`WorkerTurn(before=(), worker=1, delivered=2)`, because worker 1's turn is next. The first batch
of that process has a `BatchPosition` with `delivered=1`, so the position after the batch is
`Leg(2, 2, 6)`. Were the new run on 4 ranks, a second leg would begin: `before` would hold the
first leg, and every worker would begin with none of its batches delivered.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from fastload.plan.progress import Leg, WorkerSlot, advance

__all__ = ["BatchPosition", "Position", "batch_position_of"]


@dataclass(frozen=True, slots=True)
class Position:
    """A position in an epoch: everything that was delivered, up to and including some batch.

    Attributes:
        seed: seed of the dataset.
        epoch: number of the epoch.
        progress: the legs run so far.
        taken: batches of its own share that one worker has delivered after these legs, if
            the worker resumes independently of the others; 0 for a position of the whole rank.
        seeds: seeds of the sources of a mix.
        weights: digest of the weights of the epoch's rows; "" = each row comes once.
    """

    seed: int
    epoch: int
    progress: tuple[Leg, ...]
    taken: int = 0
    seeds: tuple[int, ...] = ()
    weights: str = ""

    def of_epoch(self, epoch: int) -> Position:
        """Return the position at the beginning of an epoch, with the same seeds."""
        return Position(self.seed, epoch, (), seeds=self.seeds, weights=self.weights)


class BatchPosition(NamedTuple):
    """The position of a batch, counted from the beginning of its pass.

    A pass makes a BatchPosition for each batch, and a NamedTuple is made in a third of the time of
    a frozen dataclass.

    Attributes:
        start: position where the pass began.
        part: slot of the worker that delivers the batch.
        delivered: batches of the rank in this pass, up to and including this batch, and steps
            that `skip_steps` has left out until the next batch.
        source: name of the source of a mix that the batch comes from; else None.
        of: digest of the files and the order of the dataset; "" = not known.
    """

    start: Position
    part: WorkerSlot
    delivered: int
    source: str | None = None
    of: str = ""

    @property
    def position(self) -> Position:
        """Position right after the batch."""
        part = self.part
        legs = advance(self.start.progress, part.world, part.workers, self.delivered)
        return replace(self.start, progress=legs, taken=0)

    def __reduce__(self) -> tuple[Any, ...]:
        # Every batch from a worker process carries its position. Pickling plain numbers takes a
        # third of the time that pickling the objects takes.
        legs = tuple((leg.world, leg.workers, leg.delivered) for leg in self.start.progress)
        at = self.start
        weights = (at.weights,) if at.weights else ()
        start = (at.seed, at.epoch, legs, at.taken, at.seeds, *weights)
        part = (self.part.world, self.part.workers, self.part.worker, self.part.rank)
        return batch_position_of, (start, part, self.delivered, self.source, self.of)

    def of_source(self, name: str) -> BatchPosition:
        """Return the same position, for a batch of the source `name`."""
        return self._replace(source=name)


def batch_position_of(
    start: tuple[Any, ...],
    part: tuple[int, ...],
    delivered: int,
    source: str | None,
    of: str = "",
) -> BatchPosition:
    """Build a BatchPosition from the plain values that `BatchPosition.__reduce__` pickles.

    Batches that earlier versions have saved hold no `of`, and no rank in `part`.
    """
    seed, epoch, legs, *rest = start
    progress = tuple(Leg(*leg) for leg in legs)
    return BatchPosition(
        Position(seed, epoch, progress, *rest), WorkerSlot(*part), delivered, source, of
    )
