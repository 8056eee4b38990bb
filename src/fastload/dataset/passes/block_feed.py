"""What feeds a pass from blocks, and from the files once blocks can't be kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastload.dataset.passes.wrapped_feed import WrappedFeed
from fastload.engine.cache.blocks import UnfitOutputError
from fastload.engine.cache.claim import NoRoomError
from fastload.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fastload.batch.batch import Batch
    from fastload.dataset.passes.epoch_iterator import OpenFeed
    from fastload.plan.position import Mark

__all__ = ["BlockFeed"]


class BlockFeed(WrappedFeed):
    """The batches of a feed whose engine reads blocks.

    Args:
        feed: it.
        failures: by their messages, what kept blocks from being made.
        refuse: is told why there are no more blocks.
        rest: from what was handed out so far to a feed of what is left, from the files: of
            batches, or of rows where `counts_rows`.
        counts_rows: likewise.
    """

    def __init__(
        self,
        feed: OpenFeed,
        failures: Mapping[str, BaseException],
        refuse: Callable[[BaseException], None],
        rest: Callable[[int, Mark], OpenFeed],
        *,
        counts_rows: bool,
    ) -> None:
        super().__init__(feed)
        self._failures = failures
        self._refuse = refuse
        self._rest = rest
        self._counts_rows = counts_rows
        self._handed_out = 0

    @property
    def lead(self) -> int:
        """Of the feed."""
        return self._feed.lead

    def next(self, mark: Mark) -> Batch | None:
        """The next batch, which carries the mark; None at the end."""
        try:
            batch = self._feed.next(mark)
        except StorageError as error:
            cause = self._failures.get(str(error))
            if cause is None:
                raise
            if not isinstance(cause, (NoRoomError, UnfitOutputError)):
                raise cause from None
            self._refuse(cause)
            told, self._feed.on_opened = self._feed.on_opened, None
            self._feed.close()
            if told is not None:
                told(None)
            self._feed = self._rest(self._handed_out, mark)
            batch = self._feed.next(mark)
        if batch is not None:
            self._handed_out += batch.rows - self.lead if self._counts_rows else 1
        return batch
