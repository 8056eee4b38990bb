"""What feeds a pass from blocks, and from the files once a block can't be kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastload.dataset.passes.wrapped_feed import WrappedFeed
from fastload.engine.cache.arrow_format import UnfitOutputError
from fastload.engine.cache.entry_lock import NoRoomError

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastload.batch.batch import Batch
    from fastload.dataset.passes.epoch_iterator import OpenFeed
    from fastload.plan.position import BatchPosition

__all__ = ["BlockFeed"]


class BlockFeed(WrappedFeed):
    """The batches of a feed whose engine reads blocks.

    Args:
        feed: it.
        refuse: called with the reason why a block can't be kept.
        rest: opens the feed of what is left, from the files, after so many batches, or rows where
            `counts_rows`.
        counts_rows: the pass hands out rows.
    """

    def __init__(
        self,
        feed: OpenFeed,
        refuse: Callable[[BaseException], None],
        rest: Callable[[int, BatchPosition], OpenFeed],
        *,
        counts_rows: bool,
    ) -> None:
        super().__init__(feed)
        self._refuse = refuse
        self._rest = rest
        self._counts_rows = counts_rows
        self._handed_out = 0

    @property
    def lead(self) -> int:
        """The wrapped feed's `lead`, in rows: see `Feed`."""
        return self._feed.lead

    def next(self, mark: BatchPosition) -> Batch | None:
        """The next batch, which carries the mark; None at the end."""
        try:
            batch = self._feed.next(mark)
        except (NoRoomError, UnfitOutputError) as cause:
            self._refuse(cause)
            on_opened, self._feed.on_opened = self._feed.on_opened, None
            self._feed.close()
            if on_opened is not None:
                on_opened(None)
            self._feed = self._rest(self._handed_out, mark)
            batch = self._feed.next(mark)
        if batch is not None:
            self._handed_out += batch.rows - self.lead if self._counts_rows else 1
        return batch
