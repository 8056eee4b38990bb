"""What feeds that take their batches from another feed have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastload.dataset.passes.epoch_iterator import OpenFeed
    from fastload.engine.engine import Engine
    from fastload.runtime.native import core

__all__ = ["WrappedFeed"]


class WrappedFeed:
    """Stands for another feed in all but its batches.

    Args:
        feed: where the batches come from.
    """

    def __init__(self, feed: OpenFeed) -> None:
        self._feed = feed

    @property
    def engine(self) -> Engine:
        """The same attribute of the wrapped feed."""
        return self._feed.engine

    @property
    def on_opened(self) -> Callable[[core.Scan | None], bool] | None:
        """The same attribute of the wrapped feed."""
        return self._feed.on_opened

    @on_opened.setter
    def on_opened(self, told: Callable[[core.Scan | None], bool] | None) -> None:
        self._feed.on_opened = told

    @property
    def ready(self) -> bool:
        """The same attribute of the wrapped feed."""
        return self._feed.ready

    def begin(self) -> None:
        """Begins what was prepared."""
        self._feed.begin()

    def close(self) -> None:
        """Abandons what is left. Idempotent."""
        self._feed.close()
