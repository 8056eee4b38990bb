"""The folder of prepared rows: which files are there, who writes one, and how a file appears."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from fastload.runtime.disk.private_directory import publish, remove_abandoned, try_lock, unlock
from fastload.source.table_formats import PREPARING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Folder"]

_DONE = "_prepared.json"
_PLAN = "plan.json"
# Directories of these names hold nothing of a user.
_OWN = (PREPARING,)


class Folder:
    """A local folder of prepared rows.

    While files are missing, the folder has a subdirectory of plans and locks, because of which it
    is no source of a dataset. A file appears by a rename, under a lock of the kernel, so processes
    share the work, and what a killed one leaves is taken over.

    Args:
        path: path of the folder.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def begin(self, key: str, files: int) -> bool:
        """Make the folder, or find what an earlier run left; return False if nothing is missing.

        Args:
            key: digest of all that decides the rows.
            files: number of files of the rows.

        Raises:
            ValueError: the folder holds other files.
            OSError: the folder can't be written to.
        """
        plan = {"key": key, "files": files}
        self.path.mkdir(parents=True, exist_ok=True)
        for name, finished in ((_DONE, True), (f"{PREPARING}/{_PLAN}", False)):
            found = self._read(name)
            if found is not None:
                self._compare(found, plan)
                if finished:
                    return False
        remove_abandoned(self.path)
        others = [name for name in sorted(os.listdir(self.path)) if name not in _OWN]
        if others and self._read(f"{PREPARING}/{_PLAN}") is None:
            raise ValueError(
                f"Expected an empty folder, or one that `prepare` has begun, got one with "
                f"{others[0]!r} - at {self.path}"
            )
        (self.path / PREPARING).mkdir(exist_ok=True)
        self._write(f"{PREPARING}/{_PLAN}", plan)
        return True

    def end(self) -> None:
        """Make the folder a source of a dataset. Idempotent."""
        plan = self._read(f"{PREPARING}/{_PLAN}")
        if plan is not None:
            self._write(_DONE, plan)
        for path in (self.path / PREPARING).glob("*"):
            with contextlib.suppress(OSError):  # another process ends, too
                path.unlink()
        with contextlib.suppress(OSError):
            (self.path / PREPARING).rmdir()

    def has(self, name: str) -> bool:
        """Return True if a file is there."""
        return (self.path / name).is_file()

    @contextlib.contextmanager
    def claimed(self, name: str) -> Iterator[bool]:
        """Hold the right to write a file within the block; yield False if another process does."""
        try:
            lock = os.open(self.path / PREPARING / f"{name}.lock", os.O_RDWR | os.O_CREAT, 0o600)
        except FileNotFoundError:  # another process has ended the work
            yield False
            return
        try:
            yield try_lock(lock)
        finally:
            unlock(lock)

    def publish(self, name: str) -> contextlib.AbstractContextManager[BinaryIO]:
        """Return a context manager whose file appears at the end of the block."""
        return publish(self.path / name)

    def _read(self, name: str) -> dict[str, Any] | None:
        try:
            found = json.loads((self.path / name).read_text())
        except (FileNotFoundError, NotADirectoryError):
            return None
        except ValueError:
            found = None
        return found if isinstance(found, dict) else {}

    def _write(self, name: str, plan: dict[str, Any]) -> None:
        with publish(self.path / name) as file:
            file.write(json.dumps(plan).encode())

    def _compare(self, found: dict[str, Any], plan: dict[str, Any]) -> None:
        if found != plan:
            raise ValueError(
                "Expected the rows of this dataset and of these steps, got a folder that was "
                f"prepared of others: name another, or remove this one - at {self.path}"
            )
