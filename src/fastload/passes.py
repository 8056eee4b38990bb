"""One pass over a dataset: an iterator that knows what it has delivered."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import torch

from fastload.errors import CorruptFileError
from fastload.plan import Leg, advance
from fastload.state import Position

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fastload._core import LentBatch, Scan
    from fastload.batch import Batch
    from fastload.engine import Engine
    from fastload.skipping import Skipping

__all__ = ["Mark", "Part", "Pass", "Prepared"]


@dataclass(frozen=True, slots=True)
class Part:
    """Which worker of how many delivers a pass, of how many ranks.

    No worker processes count as one worker.
    """

    world: int
    workers: int = 1
    worker: int = 0


@dataclass(frozen=True, slots=True)
class Mark:
    """Where a batch stands: where its pass began, and the rank's batches up to it."""

    start: Position
    part: Part
    delivered: int

    @property
    def position(self) -> Position:
        """The position right after the batch."""
        part = self.part
        legs = advance(self.start.progress, part.world, part.workers, self.delivered)
        return Position(self.start.seed, self.start.epoch, legs)


# Batches carry their marks; torch.load asks what it may make.
torch.serialization.add_safe_globals([Mark, Part, Position, Leg])


class Pass:
    """An iterator of batches.

    Args:
        engine: does the work.
        scan: the core's side of the pass.
        start: where the pass begins.
        part: which worker this is.
        on_copy: told of each batch that is handed out as a copy.
        on_opened: told, with the scan, when the last window is in work; with None, when that
            scan was given up for another one.
        skipping: goes on where a row group can't be read; None = that is an error.
    """

    def __init__(
        self,
        engine: Engine,
        scan: Scan,
        start: Position,
        part: Part,
        on_copy: Callable[[], None],
        on_opened: Callable[[Scan | None], None] | None,
        skipping: Skipping | None = None,
    ) -> None:
        self.start = start
        self.finished = False
        self.consuming_s = 0.0
        self.part = part
        self._engine = engine
        self._on_copy = on_copy
        self._taken = 0
        self._handed_out_at: float | None = None
        self._on_opened = on_opened
        self._opened = False  # on_opened has been told
        self._scan = scan
        self._skipping = skipping
        self._lead = skipping.lead if skipping else 0  # rows that are not to be delivered

    @property
    def mark(self) -> Mark:
        """After what was handed out last."""
        part = self.part
        if not self._taken:
            return Mark(self.start, part, 0)
        # Workers take turns, so those before this one have delivered one more.
        turns = self.start.taken + self._taken - 1
        return Mark(self.start, part, turns * part.workers + part.worker + 1)

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
            lead, self._lead = self._lead, 0
            for row in islice(zip(*columns, strict=True), lead, None):
                if self.finished:
                    return
                self._taken += 1
                yield dict(zip(names, row, strict=True))

    def close(self) -> None:
        """Abandons what is left. Idempotent."""
        self.finished = True
        self._scan.close()

    def _next(self, counts: int) -> Batch | None:
        if self.finished:
            return None
        if self._handed_out_at is not None:
            self.consuming_s += time.perf_counter() - self._handed_out_at
        lent = self._lent()
        if lent is None:
            self.close()
            return None
        self._taken += counts
        batch, copied = self._engine.batch_of(lent, self.mark)
        if copied:
            self._on_copy()
        if self._on_opened is not None and not self._opened and self._scan.opened_all:
            self._opened = True
            self._on_opened(self._scan)
        self._handed_out_at = time.perf_counter()
        return batch

    def _lent(self) -> LentBatch | None:
        """The core's next batch of which a row is to be delivered."""
        while True:
            try:
                lent = self._scan.next()
            except CorruptFileError as error:
                if not self._restarted(error):
                    raise
                continue
            if lent is None or lent.rows > self._lead:
                return lent
            self._lead -= lent.rows

    def _restarted(self, error: CorruptFileError) -> bool:
        """Whether the pass goes on after an error of its scan."""
        if self._skipping is None:
            return False
        if self._on_opened is not None and self._opened:
            self._opened = False
            self._on_opened(None)
        scan = self._skipping.restart(self._scan, error, self._taken)
        if scan is None:
            return False
        self._scan, self._lead = scan, self._skipping.lead
        return True


class Prepared:
    """A pass that is expected after the one that runs; its first windows are being read.

    Args:
        engine: does the work.
        scan: the core's side of the pass.
        start: where it begins.
        part: which worker this is.
        skipping: as `Pass`.
    """

    def __init__(
        self,
        engine: Engine,
        scan: Scan,
        start: Position,
        part: Part,
        skipping: Skipping | None = None,
    ) -> None:
        self.start = start
        self._engine = engine
        self._scan = scan
        self._part = part
        self._skipping = skipping

    def take(
        self, engine: Engine, start: Position, part: Part
    ) -> tuple[Scan, Skipping | None] | None:
        """The scan, if the pass that begins is the one expected; else closes it."""
        if engine is self._engine and (start, part) == (self.start, self._part):
            engine.begin(self._scan)
            return self._scan, self._skipping
        self.close()
        return None

    def close(self) -> None:
        """Gives back its memory. Idempotent."""
        self._scan.close()


def warn_of_copies(memory_budget: int) -> None:
    """Says once why batches are copies from now on."""
    warnings.warn(
        f"Batches that are kept hold all the memory that memory_budget={memory_budget} leaves for "
        "them; from now on batches come as copies in ordinary memory. To keep batches, or one "
        "column of each, keep batch.clone() or column.clone(), or raise memory_budget",
        stacklevel=5,  # whoever asked for the batch
    )
