"""Feed: a source of batches for a pass, the base of feeds that wrap another, and BlockFeed."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Protocol

from fastload.engine.cache.arrow_format import UncacheableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastload.batch.batch import Batch
    from fastload.engine.cache.block_engine import BlockEngine
    from fastload.engine.engine import Engine
    from fastload.plan.position import BatchPosition
    from fastload.runtime.native import core

__all__ = ["BlockFeed", "Feed", "OpenFeed", "WrappedFeed", "weakly"]


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


def weakly(method: Callable[..., Any], *arguments: Any) -> Callable[..., Any]:
    """Return a function that calls a method, but does not keep the method's object.

    A feed calls back whoever holds the feed. With a reference to the holder, the two would be a
    cycle: a dataset that is dropped in the middle of a pass would keep its threads and memory until
    Python's garbage collector comes.

    Args:
        method: the method. Once its object is gone, the function returns True: no step is left.
        arguments: the first arguments of each call.
    """
    kept = weakref.WeakMethod(method)

    def call(*more: Any) -> Any:
        bound = kept()
        return True if bound is None else bound(*arguments, *more)

    return call


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


class BlockFeed(WrappedFeed):
    """A feed over cached row groups, replaced by a feed over files once a row group isn't kept.

    This is the only way in which a pass deals with a row group that can't be kept: the rest of
    the pass, and all later passes of the process, read the files.

    Args:
        feed: the feed over cached row groups.
        engine: the engine of the feed.
        rest: opens a feed of the files over the rest of the pass, given the error because of which
            a row group can't be kept (None = the pass before met it), and the count of batches
            handed out so far (of rows, if `counts_rows`).
        counts_rows: True if the pass hands out single rows.
    """

    def __init__(
        self,
        feed: OpenFeed,
        engine: BlockEngine,
        rest: Callable[[UncacheableError | None, int], OpenFeed],
        *,
        counts_rows: bool,
    ) -> None:
        super().__init__(feed)
        self._engine = engine
        self._rest = rest
        self._counts_rows = counts_rows
        self._handed_out = 0
        self._got: Batch | None = None  # a batch that was not counted yet, because of Ctrl-C
        self._given_up = False  # the feed was closed, and the rest is not open yet
        self._cause: UncacheableError | None = None  # the error because of which it was closed

    @property
    def lead(self) -> int:
        """Number of rows at the start of the latest batch that must not be delivered."""
        return self._feed.lead

    def begin(self) -> None:
        """Begin the pass, if the feed was opened to prepare the next pass."""
        if self._engine.replaced:  # by the pass that ran before
            self._fall_back(None)
        else:
            super().begin()

    def next(self, mark: BatchPosition) -> Batch | None:
        """Return the next batch, with the position `mark`; None at the end."""
        if self._given_up:  # an error, or Ctrl-C, left the rest unopened
            self._open_rest()
        batch = self._got
        try:
            if batch is None:
                batch = self._feed.next(mark)
        except UncacheableError as cause:
            self._fall_back(cause)
            batch = self._feed.next(mark)
        if batch is not None:
            self._got = batch
            rows = batch.rows - self.lead if self._counts_rows else 1
            self._handed_out += rows
            self._got = None
        return batch

    def close(self) -> None:
        """Abandon the batches that are left. Idempotent."""
        self._got = None
        super().close()

    def _fall_back(self, cause: UncacheableError | None) -> None:
        on_opened, self._feed.on_opened = self._feed.on_opened, None
        self._given_up, self._cause = True, cause
        self._feed.close()
        if on_opened is not None:
            on_opened(None)
        self._open_rest()

    def _open_rest(self) -> None:
        self._feed = self._rest(self._cause, self._handed_out)
        self._given_up, self._cause = False, None
