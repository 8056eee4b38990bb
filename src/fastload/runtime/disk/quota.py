"""How many bytes a cache takes, kept by all processes that fill it."""

from __future__ import annotations

import fcntl
import os
import threading
import weakref
from typing import TYPE_CHECKING

from fastload.runtime.disk.cache import tiers_of
from fastload.runtime.disk.entries import make_room, whole_blocks

if TYPE_CHECKING:
    from fastload.runtime.disk.cache import Cache

__all__ = ["Quota"]

# Of an entry's head, and of an object's directory and description.
_MORE_BYTES = 64
_OBJECT_BYTES = 3 * whole_blocks(1)
# Room is made for more than the next entry, since looking for the oldest takes a while.
_LEFT = 0.9


class Quota:
    """The bytes of a cache's tiers, which stay below its `max_bytes`.

    The sum lies in a file, under a lock: what a killed process has added wrongly is found out
    when room is made next, and when the first entry of a process is. What others are about to
    write then is told by the lengths of their files.
    """

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._limit = cache.limit_bytes
        self._counted = False  # by this process
        self._file: int | None = None
        self._lock = threading.Lock()

    def take(self, data_bytes: int, part: int, *, first: bool) -> bool:
        """Return whether there is room for what is about to be written, which then counts.

        part: the file, which is made as long as it will be: whoever counts anew meanwhile counts
            its length.
        first: it begins the first entry of its object in this process.

        Raises `OSError` where the system refuses.
        """
        if self._limit is None:
            return True
        needed = whole_blocks(data_bytes + _MORE_BYTES)
        needed += _OBJECT_BYTES * first
        # flock holds back other processes, whose descriptors are others.
        with self._lock:
            if self._file is None:
                flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
                self._file = os.open(self._cache.path / "used", flags, 0o600)
                weakref.finalize(self, os.close, self._file)
            fcntl.flock(self._file, fcntl.LOCK_EX)
            try:
                if not self._take(self._file, self._limit, needed):
                    return False
                os.ftruncate(part, os.fstat(part).st_size + data_bytes + _MORE_BYTES)
                return True
            finally:
                fcntl.flock(self._file, fcntl.LOCK_UN)

    def _take(self, descriptor: int, limit: int, needed: int) -> bool:
        if needed > _LEFT * limit:
            return False
        text = os.pread(descriptor, 32, 0)
        used = int(text) if text.isdigit() else limit
        if used + needed > limit or not self._counted:
            used, _ = make_room(tiers_of(self._cache), max(0, int(_LEFT * limit) - needed))
            self._counted = True
        if used + needed > limit:
            return False
        os.pwrite(descriptor, b"%020d" % (used + needed), 0)
        return True
