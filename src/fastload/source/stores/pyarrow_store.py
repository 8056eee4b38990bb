"""Stores read by pyarrow's filesystems."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from pyarrow import fs
from typing_extensions import override

from fastload.source.files import StoredFile
from fastload.source.stores.store import Store

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Executor

    from typing_extensions import Buffer

__all__ = ["ArrowStore"]

# The number of files kept open: to open a file takes one or more requests.
_MOST_OPEN = 256


class ArrowStore(Store):
    """The store of a pyarrow filesystem.

    Args:
        filesystem: filesystem with blocking calls.
        threads: threads that run the calls.
    """

    pins = False

    def __init__(self, filesystem: fs.FileSystem, threads: Executor) -> None:
        self._fs = filesystem
        self._threads = threads
        self._open: dict[str, asyncio.Future[Any]] = {}

    async def _run(self, call: Any, *args: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._threads, call, *args)

    @override
    async def ls(self, directory: str) -> Sequence[StoredFile]:
        selector = fs.FileSelector(directory, allow_not_found=True, recursive=True)
        found = await self._run(self._fs.get_file_info, selector)
        return [_file(info) for info in found if info.type == fs.FileType.File]

    @override
    async def info(self, path: str) -> StoredFile | None:
        info = await self._run(self._fs.get_file_info, path)
        if info.type == fs.FileType.NotFound:
            raise FileNotFoundError(path)
        return _file(info) if info.type == fs.FileType.File else None

    @override
    async def read(self, file: StoredFile, start: int, stop: int) -> Buffer:
        if file.path not in self._open:
            if len(self._open) >= _MOST_OPEN:
                del self._open[next(iter(self._open))]
            opened = self._run(self._fs.open_input_file, file.path)
            self._open[file.path] = asyncio.ensure_future(opened)
        opening = self._open[file.path]
        try:
            # The first request that waits for the file may be cancelled while others still wait.
            handle = await asyncio.shield(opening)
            data: Buffer = await self._run(handle.read_at, stop - start, start)
        except OSError:
            if self._open.get(file.path) is opening:
                del self._open[file.path]
            raise
        return data

    @override
    async def close(self) -> None:
        self._open.clear()


def _file(info: fs.FileInfo) -> StoredFile:
    return StoredFile(info.path, info.size, str(info.mtime_ns or ""))
