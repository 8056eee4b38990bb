"""What the tiers of a cache on local disk have in common."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any, ClassVar

from fastload.runtime.disk.cache import open_directory, tell_once
from fastload.runtime.disk.quota import Quota

if TYPE_CHECKING:
    from pathlib import Path

    from typing_extensions import Self

    from fastload.runtime.disk.cache import Cache

__all__ = ["CacheTier"]


class CacheTier:
    """A directory of entries in a cache.

    Pickled and after a fork it begins anew.

    Args:
        cache: where it lies.
        keeps: whether anything is to be kept.

    Attributes:
        directory: of the entries.
        writes: whether more is kept.

    Raises:
        CacheError: the directory is not for this user alone.
    """

    _name: ClassVar[str]  # of the directory
    _instead: ClassVar[str]  # what happens to what is not kept

    def __init__(self, cache: Cache, *, keeps: bool = True) -> None:
        self._cache = cache
        self._keeps = keeps
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._described: set[str] = set()
        self._quota = Quota(self._cache)
        self.directory: Path = self._cache.path / self._name
        self.writes = self._keeps
        try:
            if self.writes:
                open_directory(self._cache, self._name)
        except OSError as error:
            self.give_up(f"{error.strerror} - at {self.directory}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._cache,)

    def of_process(self) -> Self:
        """Itself, in a state of this process."""
        if self._pid != os.getpid():
            self._begin()
        return self

    def give_up(self, cause: str) -> None:
        """Keeps nothing more in this process; says so once."""
        with self._lock:
            warned, self.writes = not self.writes, False
        if not warned:
            tell_once(
                self._cache,
                f"Can't keep more in the cache: {cause}; what is not there yet is {self._instead} "
                "each time",
            )

    def _is_first(self, name: str) -> bool:
        """Return whether this is the first entry of what is called so; from now on it is not."""
        with self._lock:
            first = name not in self._described
            self._described.add(name)
        return first
