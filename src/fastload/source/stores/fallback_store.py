"""Stores that obstore reads as long as their answers have the headers that it needs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from typing_extensions import override

from fastload.source.stores.store import Store

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from typing_extensions import Buffer

    from fastload.source.files import StoredFile

__all__ = ["FallbackStore"]

# Part of obstore's messages about answers of some emulators and web servers.
_LACKING = "Header missing from response"


class FallbackStore(Store):
    """A store that switches to another client when an answer lacks headers.

    Args:
        first: store to read with at first.
        open_other: opens the store to read with after such an answer.
    """

    def __init__(self, first: Store, open_other: Callable[[], Awaitable[Store]]) -> None:
        self._first = first
        self._open_other = open_other
        self._other: asyncio.Future[Store] | None = None
        self.pins = first.pins

    @override
    async def ls(self, directory: str) -> Sequence[StoredFile]:
        return await self._first.ls(directory)

    @override
    async def info(self, path: str) -> StoredFile | None:
        return await (self._first if self._other is None else await self._opened()).info(path)

    @override
    async def read(self, file: StoredFile, start: int, stop: int) -> Buffer:
        if self._other is None:
            try:
                return await self._first.read(file, start, stop)
            except Exception as error:
                if _LACKING not in str(error):
                    raise
        return await (await self._opened()).read(file, start, stop)

    async def _opened(self) -> Store:
        if self._other is None:
            self._other = asyncio.ensure_future(self._open_other())
        other = await asyncio.shield(self._other)
        self.pins = other.pins
        return other

    @override
    async def close(self) -> None:
        await self._first.close()
        if self._other is not None:
            await (await self._other).close()
