"""A file object over a file of a store, for pyarrow."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING, Any

from typing_extensions import override

if TYPE_CHECKING:
    from fastload.source.files import SourceFile
    from fastload.source.stores.stores import Stores

__all__ = ["RemoteFile"]


class RemoteFile(io.RawIOBase):
    """A file object without a buffer: each read is one request for exactly the bytes to read."""

    def __init__(self, storage: Stores, file: SourceFile) -> None:
        super().__init__()
        self._storage = storage
        self._file = file
        self._at = 0

    @override
    def readable(self) -> bool:
        return True

    @override
    def seekable(self) -> bool:
        return True

    @override
    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._file.size}[whence]
        self._at = base + offset
        return self._at

    @override
    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer)
        stop = min(self._file.size, self._at + len(view))
        if stop <= self._at:
            return 0
        data = self._storage.read(self._file, self._at, stop)
        view[: stop - self._at] = memoryview(data)
        read, self._at = stop - self._at, stop
        return read
