"""The number of bytes that a cache takes, counted by all processes that fill the cache."""

from __future__ import annotations

import fcntl
import os
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any

from fastload.runtime.disk.cache import tiers_of
from fastload.runtime.disk.entries import make_room, whole_blocks

if TYPE_CHECKING:
    from fastload.runtime.disk.cache import Cache

__all__ = ["Quota"]

# Bytes of an entry's head, and of an object's directory and description.
_MORE_BYTES = 64
_OBJECT_BYTES = 3 * whole_blocks(1)
# Eviction frees more space than the next entry needs, because finding the oldest entries is slow.
_LEFT = 0.9


class Quota:
    """The bytes of a cache's tiers, which stay below the `max_bytes` of the cache.

    The sum is kept in a file, under a lock. A killed process may leave too large a sum, so the
    files are counted again at each eviction, and when a process writes its first entry. This count
    includes entries that other processes are writing, whose files have their final length from
    the beginning.
    """

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._limit = cache.limit_bytes
        self._counted = False  # by this process
        self._newest_left_out_ns = 0  # the last use of an entry removed, or the time of a refusal
        self._file = -1
        self._close: weakref.finalize[..., Any] | None = None  # closes the file, if it is open
        self._lock = threading.Lock()

    def lacked_room_since(self, time_ns: int) -> bool:
        """Return True if entries used or asked for at `time_ns` or later found no room together.

        This process then refused one of these entries, or removed one for another.
        """
        return self._newest_left_out_ns >= time_ns

    def take(self, data_bytes: int, part: int, *, first: bool) -> bool:
        """Reserve space for an entry, and return True if the quota has room for the entry.

        Args:
            data_bytes: size of the entry's data.
            part: descriptor of the entry's unfinished file. The file is extended to its final
                length, which another process includes if it counts meanwhile.
            first: True if the entry is the first one of its object in this process.

        Raises:
            OSError: the system refuses to extend the file, or to open the file of the sum.
        """
        if self._limit is None:
            return True
        needed = whole_blocks(data_bytes + _MORE_BYTES)
        needed += _OBJECT_BYTES * first
        # flock excludes other processes only: the threads of this one share the descriptor.
        with self._lock:
            file = self._opened()
            fcntl.flock(file, fcntl.LOCK_EX)
            try:
                if not self._take(file, self._limit, needed):
                    self._newest_left_out_ns = time.time_ns()
                    return False
                os.ftruncate(part, os.fstat(part).st_size + data_bytes + _MORE_BYTES)
                return True
            finally:
                fcntl.flock(file, fcntl.LOCK_UN)

    def _opened(self) -> int:
        """Return the descriptor of the file of the sum."""
        # If the cache was removed, other processes count in a new file.
        if self._close is not None and not os.fstat(self._file).st_nlink:
            self._close()
            self._close = None
        if self._close is None:
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            self._file = os.open(self._cache.path / "used", flags, 0o600)
            self._close = weakref.finalize(self, os.close, self._file)
        return self._file

    def _take(self, descriptor: int, limit: int, needed: int) -> bool:
        if needed > _LEFT * limit:
            return False
        text = os.pread(descriptor, 32, 0)
        used = int(text) if text.isdigit() else limit
        if used + needed > limit or not self._counted:
            used, removed = make_room(tiers_of(self._cache), max(0, int(_LEFT * limit) - needed))
            self._newest_left_out_ns = max([self._newest_left_out_ns, *removed])
            self._counted = True
        if used + needed > limit:
            return False
        os.pwrite(descriptor, b"%020d" % (used + needed), 0)
        return True
