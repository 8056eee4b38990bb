"""The base class of the tiers of a cache on local disk, and the quota that the tiers share."""

from __future__ import annotations

import fcntl
import os
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any, ClassVar

from fastload.errors import CacheError
from fastload.runtime.disk.cache import tell_once, tiers_of
from fastload.runtime.disk.entries import make_room, whole_blocks
from fastload.runtime.disk.private_directory import open_directory

if TYPE_CHECKING:
    from pathlib import Path

    from typing_extensions import Self

    from fastload.runtime.disk.cache import Cache

__all__ = ["CacheTier"]

# Bytes of an entry's head, and of an object's directory and description.
_MORE_BYTES = 64
_OBJECT_BYTES = 3 * whole_blocks(1)
# Eviction frees more space than the next entry needs, because finding the oldest entries is slow.
_LEFT = 0.9


class CacheTier:
    """A directory of entries in a cache.

    The tier starts with a new state after pickling and in a child of fork().

    Args:
        cache: the cache that holds the directory.
        keeps: True if entries may be written.

    Attributes:
        directory: path of the directory of the entries.
        writes: True as long as this process writes further entries.
        failure: why this process writes no further entries; "" if nothing failed.

    Raises:
        CacheError: other users may write to the directory.
        UserWarning: the directory can't be used, and Python's filters turn warnings into errors.
    """

    _name: ClassVar[str]  # name of the directory
    _instead: ClassVar[str]  # how data without an entry is produced, for the warning

    def __init__(self, cache: Cache, *, keeps: bool = True) -> None:
        self._cache = cache
        self._keeps = keeps
        self._begin(raises=True)

    def _begin(self, *, raises: bool = False) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._described: set[str] = set()
        self._quota = Quota(self._cache)
        self.directory: Path = self._cache.path / self._name
        self.writes = self._keeps
        self.failure = ""
        try:
            if self.writes:
                open_directory(self._cache.path, self._name)
        except FileExistsError:
            self.give_up(f"Not a directory - at {self._cache.path}", raises=raises)
        except OSError as error:
            self.give_up(f"{error.strerror} - at {self.directory}", raises=raises)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._cache,)

    def of_process(self) -> Self:
        """Return this tier, with a new state if this process is a child of fork()."""
        if self._pid != os.getpid():
            self._begin()
        return self

    def give_up(self, cause: str, *, raises: bool = False) -> None:
        """Stop writing entries in this process, and warn once; see `tell_once` for `raises`."""
        with self._lock:
            warned, self.writes = not self.writes, False
            if not warned:
                self.failure = cause
        if not warned:
            tell_once(
                self._cache,
                f"Can't keep more in the cache: {cause}; data that is not in the cache is "
                f"{self._instead} each time",
                raises=raises,
            )

    def check_room_since(self, began_ns: int) -> None:
        """Check that the entries which were used or written since a time are still in the cache.

        Args:
            began_ns: the time, in ns since the epoch.

        Raises:
            CacheError: `max_bytes` do not hold these entries.
        """
        if self._quota.lacked_room_since(began_ns):
            raise CacheError(
                f"Expected max_bytes of the cache to hold all rows, got {self._cache.max_bytes}, "
                f"which holds a part of the rows - at {self._cache.path}"
            )

    def _is_first(self, name: str) -> bool:
        """Return True for the first entry of an object, and False from then on."""
        with self._lock:
            first = name not in self._described
            self._described.add(name)
        return first


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

    def take(self, data_bytes: int, part: int = -1, *, first: bool = False) -> bool:
        """Reserve space for an entry, and return True if the quota has room for the entry.

        Args:
            data_bytes: size of the entry's data, or of the bytes that it grows by.
            part: descriptor of the entry's unfinished file. The file is extended to its final
                length, which another process includes if it counts meanwhile. -1 = the file grows
                as it is written.
            first: True if the entry is the first one of its object in this process.

        Raises:
            OSError: the system refuses to extend the file, or to open the file of the sum.
        """
        if self._limit is None:
            return True
        needed = data_bytes if part < 0 else whole_blocks(data_bytes + _MORE_BYTES)
        needed += _OBJECT_BYTES * first
        # flock excludes other processes only: the threads of this one share the descriptor.
        with self._lock:
            file = self._opened()
            fcntl.flock(file, fcntl.LOCK_EX)
            try:
                if not self._take(file, self._limit, needed):
                    self._newest_left_out_ns = time.time_ns()
                    return False
                if part >= 0:
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
