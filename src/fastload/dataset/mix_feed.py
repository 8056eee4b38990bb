"""What feeds a pass over a mix: the batches of its sources, in the order that was drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fastload.batch.batch import Batch
    from fastload.dataset.passes.epoch_iterator import OpenFeed
    from fastload.plan.position import BatchPosition
    from fastload.runtime.native import core

__all__ = ["MixedFeed", "SourceFeed"]


class MixedFeed:
    """Batches of several sources.

    Args:
        order: the source of each batch.
        feeds: of each source; None = it has none in this pass.
        sources: their names, and whether their batches say where their rows come from.
    """

    lead = 0

    def __init__(
        self,
        order: Sequence[int],
        feeds: Sequence[SourceFeed | None],
        sources: Sequence[tuple[str, bool]],
    ) -> None:
        self._order = order
        self._taken = 0
        self._feeds = feeds
        self._sources = sources

    def next(self, mark: BatchPosition) -> Batch | None:
        """The next batch, which carries the mark; None at the end."""
        if self._taken == len(self._order):
            return None
        number = self._order[self._taken]
        feed = self._feeds[number]
        assert feed is not None
        name, provenance = self._sources[number]
        batch = feed.next(mark.of_source(name))
        assert batch is not None
        self._taken += 1
        if provenance:
            batch["__source__"] = torch.full((batch.rows,), number, dtype=torch.int32)
        return batch

    def close(self) -> None:
        """Abandons what is left. Idempotent."""
        for feed in self._feeds:
            if feed is not None:
                feed.close()


class SourceFeed:
    """The batches of one source in a pass, of one repetition after the other.

    Args:
        first: those of the first one.
        open_next: begins the next one; with a scan, only prepares it while that one ends. None
            if there is none.
        on_last: told, with the scan, when the last window of the last one is in work.
    """

    def __init__(
        self,
        first: OpenFeed,
        open_next: Callable[[core.Scan | None], OpenFeed | None],
        on_last: Callable[[core.Scan], None],
    ) -> None:
        self._open_next = open_next
        self._on_last = on_last
        self._following: OpenFeed | None = None
        self._looked = False  # ahead of the running one
        self._running = self._watched(first)

    def next(self, mark: BatchPosition) -> Batch | None:
        """The next batch, which carries the mark; None at the end."""
        while (batch := self._running.next(mark)) is None:
            following, self._following = self._following, None
            if following is not None:
                following.begin()
            else:
                following = self._open_next(None)
            if following is None:
                return None
            self._running.close()
            self._running = self._watched(following)
        return batch

    def close(self) -> None:
        """Abandons what is left. Idempotent."""
        self._running.close()
        if self._following is not None:
            self._following.close()

    def _watched(self, feed: OpenFeed) -> OpenFeed:
        self._looked = False
        feed.on_opened = self._look_ahead if feed.engine.looks_ahead else None
        return feed

    def _look_ahead(self, scan: core.Scan | None) -> bool:
        if scan is None or self._looked:
            return True  # that scan was given up, or goes on for one that was
        self._looked = True
        self._following = self._open_next(scan)
        if self._following is None:
            self._on_last(scan)
        return True
