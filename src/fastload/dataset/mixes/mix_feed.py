"""The feeds of a pass over a mix: batches of the sources in the order that was drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import torch

from fastload.dataset.passes.feed import weakly

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fastload.batch.batch import Batch
    from fastload.dataset.passes.feed import Feed
    from fastload.plan.position import BatchPosition
    from fastload.runtime.native import core

__all__ = ["MixedFeed", "SourceFeed"]


class Source(Protocol):
    """A source of a mix, as far as a feed needs the source."""

    name: str

    @property
    def provenance(self) -> bool:
        """True if batches of the source have `__file__` and `__row__`."""

    @property
    def closed(self) -> bool:
        """True if the dataset of the source was closed."""


class MixedFeed:
    """A feed that takes each batch from one of several sources.

    Args:
        order: the number of the source of each batch.
        feeds: the feed of each source; None = the source has no batch in this pass.
        sources: the sources, in the order of their numbers.

    Attributes:
        held: the batch that `next` made, until the caller sets this to None.
    """

    def __init__(
        self,
        order: Sequence[int],
        feeds: Sequence[SourceFeed | None],
        sources: Sequence[Source],
    ) -> None:
        self._order = order
        self._taken = 0
        self.held: Batch | None = None
        self._feeds = feeds
        self._sources = sources

    def next(self, mark: BatchPosition) -> Batch | None:
        """Return the next batch, with the position `mark`; None at the end.

        Raises:
            RuntimeError: the dataset of the source that was drawn was closed.
        """
        feeds = self._feeds
        if self.held is not None:
            return self.held
        if self._taken == len(self._order) or not feeds:
            return None
        number = self._order[self._taken]
        feed = feeds[number]
        assert feed is not None
        source = self._sources[number]
        try:
            batch = feed.next(mark.of_source(source.name))
        except RuntimeError as error:
            if source.closed:
                raise RuntimeError(
                    f"close() of the dataset of source `{source.name}` ended this pass of the mix "
                    f"after {self._taken} batches: close the mix instead, after its last pass; the "
                    "mix closes its datasets"
                ) from error
            raise
        assert batch is not None
        if source.provenance:
            batch["__source__"] = torch.full((batch.rows,), number, dtype=torch.int32, device="cpu")
        self.held = batch
        self._taken += 1
        feed.running.held = None
        return batch

    def close(self) -> None:
        """Abandon the batches that are left. Idempotent."""
        feeds, self._feeds = self._feeds, ()
        self.held = None
        for feed in feeds:
            if feed is not None:
                feed.close()


class SourceFeed:
    """A feed of one source in a pass of a mix, with one share for each repetition of the source.

    Args:
        first: the feed of the first share.
        open_next: opens the feed of the next share, or returns None after the last share. Called
            with a scan, the function only prepares the feed while the scan ends.
        on_last: called with the scan of the last share once the scan has opened its last window.

    Attributes:
        running: the feed of the share that is being delivered, which holds the latest batch.
    """

    def __init__(
        self,
        first: Feed,
        open_next: Callable[[core.Scan | None], Feed | None],
        on_last: Callable[[core.Scan], None],
    ) -> None:
        self._open_next = open_next
        self._on_last = on_last
        self._following: Feed | None = None
        self._looked = False  # True once the share after the running share was opened
        self.running = self._watched(first)

    def next(self, mark: BatchPosition) -> Batch | None:
        """Return the next batch, as `Feed.next` does."""
        while (batch := self.running.next(mark)) is None:
            if self._following is not None:
                self._following.begin()
            else:
                self._following = self._open_next(None)
            if self._following is None:
                return None
            self.running.close()
            self.running = self._watched(self._following)
            self._following = None
        return batch

    def close(self) -> None:
        """Abandon the batches that are left. Idempotent."""
        self.running.close()
        if self._following is not None:
            self._following.close()

    def _watched(self, feed: Feed) -> Feed:
        self._looked = False
        feed.on_opened = weakly(self._look_ahead) if feed.engine.looks_ahead else None
        return feed

    def _look_ahead(self, scan: core.Scan | None) -> bool:
        if scan is None or self._looked:
            return True  # the scan was given up for another, or replaces a scan that was
        self._looked = True
        self._following = self._open_next(scan)
        if self._following is None:
            self._on_last(scan)
        return True
