"""The base class of the tiers of a cache on local disk."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any, ClassVar

from fastload.errors import CacheError
from fastload.runtime.disk.cache import tell_once
from fastload.runtime.disk.private_directory import open_directory
from fastload.runtime.disk.quota import Quota

if TYPE_CHECKING:
    from pathlib import Path

    from typing_extensions import Self

    from fastload.runtime.disk.cache import Cache

__all__ = ["CacheTier"]


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
