"""The folder of prepared rows: which files are there, who writes one, and how a file appears."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol

from fastload.runtime.disk.private_directory import (
    UNFINISHED,
    publish,
    remove_abandoned,
    try_lock,
    unlock,
)
from fastload.source.stores.store_folder import StoreFolder
from fastload.source.table_formats import PREPARING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["Folder"]

_DONE = "_prepared.json"
_PLAN = f"{PREPARING}/plan.json"


class _Files(Protocol):
    """The files of a local folder, or of a folder of a store."""

    def names(self) -> list[str]:
        """Return the paths below the folder of all files in it."""

    def has(self, name: str) -> bool:
        """Return True if a file is there."""

    def read(self, name: str) -> bytes | None:
        """Return the bytes of a file; None if there is no such file."""

    def publish(self, name: str) -> contextlib.AbstractContextManager[IO[bytes]]:
        """Return a context manager whose file appears at the end of the block."""

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""


class Folder:
    """A folder of prepared rows.

    While files are missing, the folder has a file in `PREPARING`, because of which it is no source
    of a dataset. A file appears whole. In a local folder it is written under a lock of the kernel,
    so processes share the work, and what a killed one leaves is taken over.

    Args:
        path: path or URL of the folder.
        key: digest of all that decides the rows.
        options: fsspec's options for the store of a URL.

    Attributes:
        path: the path or URL.
    """

    def __init__(self, path: str, key: str, options: Mapping[str, Any]) -> None:
        self.path = path
        self._key = key
        self._local = "://" not in path
        self._claimed = ""
        self._files: _Files = _LocalFolder(path) if self._local else StoreFolder(path, options)

    def begin(self, files: Sequence[str]) -> bool:
        """Make the folder, or find what an earlier call left; return False if nothing is missing.

        Args:
            files: the names of all files of the rows.

        Raises:
            ValueError: the folder holds other files.
            OSError: the folder can't be written to.
        """
        plan = {"key": self._key, "files": len(files)}
        if self._is_of(plan, _DONE):
            return False
        if self._is_of(plan, _PLAN):
            return True
        # Another process may begin just now.
        others = [n for n in self._files.names() if not n.startswith((PREPARING, UNFINISHED))]
        if others and self._files.read(_PLAN) is None and self._files.read(_DONE) is None:
            raise ValueError(
                "Expected an empty folder, or one that `prepare` has begun, got one with "
                f"{others[0]!r} - at {self.path}"
            )
        self._write(_PLAN, plan)
        return True

    def end(self) -> None:
        """Make the folder a source of a dataset. Idempotent."""
        plan = self._files.read(_PLAN)
        if plan is not None:
            self._write(_DONE, json.loads(plan))
        for name in self._files.names():
            if name.startswith(f"{PREPARING}/"):
                self._files.remove(name)
        if isinstance(self._files, _LocalFolder):
            self._files.remove_directory(PREPARING)

    def has(self, name: str) -> bool:
        """Return True if a file is there."""
        return self._files.has(name)

    @contextlib.contextmanager
    def claimed(self, name: str) -> Iterator[bool]:
        """Hold the right to write a file within the block; yield False if another process does.

        Processes that write to a store don't see each other: two may write the same file.
        """
        if not isinstance(self._files, _LocalFolder):
            yield True
            return
        with self._files.locked(_lock_of(name)) as mine:
            self._claimed = name
            yield mine

    def beat(self) -> None:
        """Tell other processes that this process still writes the part that it claimed."""
        if isinstance(self._files, _LocalFolder):
            self._files.touch(_lock_of(self._claimed))

    def beat_of(self, name: str) -> int:
        """Return when the process that writes a part told last that it goes on, in ns."""
        return self._files.touched(_lock_of(name)) if isinstance(self._files, _LocalFolder) else 0

    def publish(self, name: str) -> contextlib.AbstractContextManager[IO[bytes]]:
        """Return a context manager whose file appears at the end of the block."""
        return self._files.publish(name)

    def _is_of(self, plan: dict[str, Any], name: str) -> bool:
        """Return True if a plan is there; raise ValueError if another plan is."""
        text = self._files.read(name)
        if text is None:
            return False
        try:
            found = json.loads(text)
        except ValueError:
            found = None
        if found != plan:
            raise ValueError(
                "Expected the rows of this dataset and of these steps, got a folder that was "
                f"prepared of others: name another, or remove this one - at {self.path}"
            )
        return True

    def _write(self, name: str, plan: dict[str, Any]) -> None:
        with self._files.publish(name) as file:
            file.write(json.dumps(plan).encode())


def _lock_of(name: str) -> str:
    return f"{PREPARING}/{name}.lock"


class _LocalFolder:
    """The files of a local folder; see `_Files`."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def names(self) -> list[str]:
        found = (each for each in self._path.rglob("*") if not each.is_dir())
        return sorted(each.relative_to(self._path).as_posix() for each in found)

    def has(self, name: str) -> bool:
        return (self._path / name).is_file()

    def read(self, name: str) -> bytes | None:
        try:
            return (self._path / name).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def publish(self, name: str) -> contextlib.AbstractContextManager[IO[bytes]]:
        path = self._path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_abandoned(path.parent)
        return publish(path)

    def touch(self, name: str) -> None:
        with contextlib.suppress(OSError):
            os.utime(self._path / name)

    def touched(self, name: str) -> int:
        try:
            return (self._path / name).stat().st_mtime_ns
        except OSError:
            return -1

    def remove(self, name: str) -> None:
        with contextlib.suppress(OSError):
            (self._path / name).unlink()

    def remove_directory(self, name: str) -> None:
        with contextlib.suppress(OSError):
            (self._path / name).rmdir()

    @contextlib.contextmanager
    def locked(self, name: str) -> Iterator[bool]:
        try:
            lock = os.open(self._path / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:  # another process has ended the work
            yield False
            return
        try:
            yield try_lock(lock)
        finally:
            unlock(lock)
