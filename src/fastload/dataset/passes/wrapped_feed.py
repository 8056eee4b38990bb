"""The base of feeds that take their batches from another feed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastload.dataset.passes.epoch_iterator import OpenFeed
    from fastload.engine.engine import Engine
    from fastload.runtime.native import core

__all__ = ["WrappedFeed"]


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
