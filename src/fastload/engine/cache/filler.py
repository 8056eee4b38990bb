"""What one process has to bring blocks: the cache, their names, and what makes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastload.engine.cache.key import BlockNames
    from fastload.engine.cache.maker import BlockMaker
    from fastload.engine.cache.tier import DecodedTier
    from fastload.runtime._core import DecodedQueue, Scan
    from fastload.source.files import SourceFile

__all__ = ["BlockFiller", "row_groups_at_once"]

# Of local files one is read and computed while the other one is written.
_AT_ONCE = 2
# Of a store's each has its requests on their way.
_REMOTE_AT_ONCE = 32
# Each holds a few record batches, which should not be small ones, and what is on its way: all of a
# row group, or its columns come in many small requests.
_LEAST_BYTES = 8 << 20
_ROW_GROUPS = 2


def row_groups_at_once(memory_bytes: int, row_group_bytes: int, *, remote: bool) -> int:
    """Row groups that are made into blocks at a time, of local files or others.

    memory_bytes: for all.
    row_group_bytes: decoded, of the largest one.
    """
    most = _REMOTE_AT_ONCE if remote else _AT_ONCE
    each = max(_LEAST_BYTES, _ROW_GROUPS * row_group_bytes)
    return max(_AT_ONCE, min(most, memory_bytes // each))


class BlockFiller:
    """What attempts to get blocks share.

    Args:
        tier: of the cache.
        names: of its entries.
        maker: of what is not there.
        files: of the dataset.
        at_once: row groups that are in work at a time.
        core_threads: that decode for them.
        patience_s: without progress of another process that makes a block, until that counts as
            hanging.

    Attributes:
        at_once, maker, patience_s, tier: as it was made with.
        threads: that compute and write.
    """

    def __init__(
        self,
        tier: DecodedTier,
        names: BlockNames,
        maker: BlockMaker,
        files: Sequence[SourceFile],
        at_once: int,
        core_threads: int,
        patience_s: float,
    ) -> None:
        self.at_once = at_once
        self.maker = maker
        self.patience_s = patience_s
        self.tier = tier
        # One computes while another one writes.
        self.threads = min(at_once, max(_AT_ONCE, core_threads // 2))
        self._names = names
        self._files = files

    def name(self, file: int, row_group: int) -> str:
        """Of the entry."""
        return f"{self._names.object(file)}/{self._names.entry(file, row_group)}"

    def rows(self, file: int, row_group: int) -> int:
        """Of the block."""
        return self._names.rows(file, row_group)

    def place(self, file: int, row_group: int) -> str:
        """Of the row group, for people to read."""
        return f"{self._files[file].path}, row group {row_group}"

    def read(self, file: int, row_group: int, queue: DecodedQueue) -> Scan:
        """Begins to read what the block is made of; the queue is woken when some is there."""
        return self.maker.start(file, row_group, self.rows(file, row_group), queue)

    def describe(self, name: str, file: int) -> None:
        """Says what file an entry is of, for people to read."""
        self.tier.describe(name, self._files[file])
