"""Feed: a source of batches for a pass, and the base of feeds that wrap another feed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastload.batch.batch import Batch
    from fastload.engine.engine import Engine
    from fastload.plan.position import BatchPosition
    from fastload.runtime.native import core

__all__ = ["Feed", "OpenFeed", "WrappedFeed"]


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


class WrappedFeed:
    """A feed that passes everything but batches on to another feed.

    Args:
        feed: the feed that the batches come from.
    """

    def __init__(self, feed: OpenFeed) -> None:
        self._feed = feed

    @property
    def engine(self) -> Engine:
        """The engine of the wrapped feed."""
        return self._feed.engine

    @property
    def on_opened(self) -> Callable[[core.Scan | None], bool] | None:
        """The function that prepares the next pass, as in `ScanFeed`."""
        return self._feed.on_opened

    @on_opened.setter
    def on_opened(self, function: Callable[[core.Scan | None], bool] | None) -> None:
        self._feed.on_opened = function

    @property
    def ready(self) -> bool:
        """True if the wrapped feed has a batch ready, as in `ScanFeed`."""
        return self._feed.ready

    def begin(self) -> None:
        """Begin the pass, if the feed was opened to prepare the next pass."""
        self._feed.begin()

    def close(self) -> None:
        """Abandon the batches that are left. Idempotent."""
        self._feed.close()
