"""An entry of the decoded tier while it is written."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from fastload.engine.cache.claim import NoRoomError
from fastload.errors import FastloadError
from fastload.runtime.native import core

if TYPE_CHECKING:
    from collections.abc import Generator

    import pyarrow as pa

    from fastload.engine.cache.blocks import Heads
    from fastload.engine.cache.claim import BlockClaim
    from fastload.engine.cache.tier import DecodedTier
    from fastload.runtime._core import BlockBatch

__all__ = ["BlockEntry"]


class BlockEntry:
    """An entry that is being written: it appears at once, when it is whole.

    Args:
        tier: of the entry.
        claim: to fill it.
        name: of it.
        schema: of its rows.
        heads: what is written beside these.

    Raises:
        NoRoomError: it can't be written.
    """

    def __init__(
        self, tier: DecodedTier, claim: BlockClaim, name: str, schema: pa.Schema, heads: Heads
    ) -> None:
        self._tier = tier
        self._claim = claim
        self._heads = heads
        with self._told():
            self._writer = core.DecodedWriter(claim.descriptor, name, schema)
        self._take_room(heads.file_bytes, first=tier.is_new(name))

    def add(self, batch: BlockBatch | pa.RecordBatch) -> None:
        """Writes rows. Raises NoRoomError."""
        self._take_room(batch.nbytes + self._heads.batch_bytes)
        with self._told():
            self._writer.add(batch)

    def publish(self) -> int:
        """Has it appear; returns its checksum. Raises NoRoomError."""
        with self._told():
            checksum = self._writer.finish()
            self._claim.publish()
        return checksum

    def _take_room(self, data_bytes: int, *, first: bool = False) -> None:
        with self._told():
            if not self._tier.take_room(data_bytes, self._claim, first=first):
                raise NoRoomError("max_bytes leave no room for a row group beside those in use")

    @contextlib.contextmanager
    def _told(self) -> Generator[None, None, None]:
        """What can't be written ends the filling, in the words of its cause."""
        try:
            yield
        except NoRoomError as error:
            self._tier.give_up(str(error))
            raise
        except (FastloadError, OSError) as error:
            cause = f"{getattr(error, 'strerror', None) or error} - at {self._tier.directory}"
            self._tier.give_up(cause)
            raise NoRoomError(cause) from error
