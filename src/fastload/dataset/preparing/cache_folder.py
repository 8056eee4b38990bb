"""The folder of prepared rows in a cache."""

from __future__ import annotations

import contextlib
import os
import time
import weakref
from typing import TYPE_CHECKING, Any, BinaryIO

from fastload.dataset.preparing.errors import UnpreparableError
from fastload.errors import FastloadError
from fastload.runtime.disk.cache import PREPARED
from fastload.runtime.disk.entries import describe, use_object
from fastload.runtime.disk.entry_file import EntryFile, is_entry
from fastload.runtime.disk.tier import CacheTier

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from contextlib import AbstractContextManager

    from typing_extensions import Buffer

__all__ = ["CacheFolder", "PreparedTier"]

# A part that is opened is marked as just used, unless its mark is younger than this.
_USED_S = 10.0


class PreparedTier(CacheTier):
    """The prepared rows of one cache."""

    _name = PREPARED
    _instead = "read and computed"

    def path(self, key: str) -> str:
        """Return the path of the folder of the rows that a key decides."""
        return os.path.join(self.directory, self.name_of(key))

    @staticmethod
    def name_of(key: str) -> str:
        """Return the name of the folder below the tier's directory."""
        return f"{key[:2]}/{key}"

    def take_room(self, nbytes: int) -> None:
        """Make room for bytes that are about to be written, by removing old entries if necessary.

        Raises:
            UnpreparableError: `max_bytes` leave no room.
            OSError: the system can't lock the file of the quota.
        """
        if not self._quota.take(nbytes):
            raise UnpreparableError(
                f"max_bytes={self._cache.max_bytes} leave no room for all prepared rows"
            )


class CacheFolder:
    """A folder of prepared rows in a cache, which holds them for one key. See `Folder`.

    Until `close`, no process removes a file of the folder to make room for others.

    Args:
        tier: the tier of the cache.
        key: digest of all that decides the rows.
        about: what the rows are, for people to read.
    """

    def __init__(self, tier: PreparedTier, key: str, about: dict[str, Any]) -> None:
        self.path = tier.path(key)
        self._tier = tier
        self._key = key
        self._about = about
        self._entry: EntryFile | None = None  # the part that this process writes
        with self._errors():
            self._end_use = weakref.finalize(self, os.close, use_object(self.path))
            describe(tier.directory, tier.name_of(key), about)

    def begin(self, parts: list[str]) -> bool:
        """Return False if no part is missing, and mark all parts as just used."""
        missing = False
        for name in parts:
            path = os.path.join(self.path, name)
            if not is_entry(path):
                missing = True
                continue
            with contextlib.suppress(OSError):  # a directory that only can be read
                if time.time() - os.stat(path).st_mtime > _USED_S:
                    os.utime(path)
        return missing

    def end(self) -> None:
        """The folder needs no mark: a process looks for each part."""

    def has(self, name: str) -> bool:
        """Return True if a file is there."""
        return is_entry(os.path.join(self.path, name))

    def remove(self, name: str) -> None:
        """Remove a file, if it is there. Errors are ignored."""
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(self.path, name))

    @contextlib.contextmanager
    def claimed(self, name: str) -> Iterator[bool]:
        """Hold the right to write a file within the block; yield False if another process does."""
        with self._errors():
            self._entry = EntryFile.claim(os.path.join(self.path, name))
        if self._entry is None:
            yield False
            return
        try:
            yield True
        finally:
            self._entry.close()
            self._entry = None

    def beat(self) -> None:
        """Tell other processes that this process still writes the part that it claimed."""
        if self._entry is not None:
            self._entry.beat()

    def beat_of(self, name: str) -> int:
        """Return when the process that writes a part told last that it goes on, in ns."""
        return EntryFile.beat_of(os.path.join(self.path, name))

    @contextlib.contextmanager
    def publish(self, name: str) -> Iterator[Any]:
        """Return a context manager whose file, which is claimed, appears at the end of the block.

        Raises:
            UnpreparableError: the file can't be written, or `max_bytes` leave no room.
        """
        assert self._entry is not None, f"Expected a claim of {name}"
        with self._errors():
            file = self._entry.opened()
        try:
            yield _Written(file, self._tier.take_room, self._errors)
            with self._errors():
                file.close()
        finally:
            with contextlib.suppress(OSError):
                file.close()
        with self._errors():
            self._entry.publish()

    def close(self) -> None:
        """Let other processes remove the files. Idempotent."""
        self._end_use()

    def __reduce__(self) -> tuple[Any, ...]:
        return CacheFolder, (self._tier, self._key, self._about)

    @contextlib.contextmanager
    def _errors(self) -> Generator[None, None, None]:
        """Raise UnpreparableError in place of an error of the system."""
        try:
            yield
        except FastloadError:
            raise
        except OSError as error:
            raise UnpreparableError(f"{error.strerror or error} - at {self.path}") from error


class _Written:
    """A file that asks for room on disk before it writes, and tells that rows can't be kept."""

    def __init__(
        self,
        file: BinaryIO,
        take_room: Callable[[int], None],
        errors: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._file = file
        self._take_room = take_room
        self._errors = errors

    @property
    def closed(self) -> bool:
        return self._file.closed

    def write(self, data: Buffer) -> int:
        view = memoryview(data)
        with self._errors():
            self._take_room(view.nbytes)
            return self._file.write(view)

    def tell(self) -> int:
        return self._file.tell()

    def flush(self) -> None:
        with self._errors():
            self._file.flush()

    def close(self) -> None:
        with self._errors():
            self._file.close()
