"""The feed of a pass over cached row groups, which turns to the files if the cache fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastload.dataset.passes.feed import WrappedFeed
from fastload.engine.cache.arrow_format import UnfitOutputError
from fastload.engine.cache.entry_lock import NoRoomError

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastload.batch.batch import Batch
    from fastload.dataset.passes.feed import OpenFeed
    from fastload.plan.position import BatchPosition

__all__ = ["BlockFeed"]


class BlockFeed(WrappedFeed):
    """A feed over cached row groups, replaced by a feed over files once the cache fails.

    The cache fails if it has no room for a row group, or an output has no form in the cache.

    Args:
        feed: the feed over cached row groups; its engine is a BlockEngine.
        refuse: called with the reason why a row group can't be kept.
        rest: opens a feed that reads the rest of the pass from the files. Called with the count
            of batches handed out so far (of rows, if `counts_rows`) and the position of the next
            batch.
        counts_rows: True if the pass hands out single rows.
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
        """Number of rows at the start of the latest batch that must not be delivered."""
        return self._feed.lead

    def next(self, mark: BatchPosition) -> Batch | None:
        """Return the next batch, with the position `mark`; None at the end."""
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
