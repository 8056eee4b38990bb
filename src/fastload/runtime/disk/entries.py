"""What lies in a cache's directory: objects and their entries, and how room is made."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import tempfile
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

__all__ = [
    "Entry",
    "describe",
    "described",
    "entries_of",
    "make_room",
    "remove_all",
    "used_bytes",
    "whole_blocks",
]

# Nothing else is ever removed.
_RANGE = re.compile(r"(\d+)-(\d+)")
_ENTRY = re.compile(r"\d+-(\d+|[0-9a-f]{32}\.arrow)")
_PART = re.compile(rf"\.({_ENTRY.pattern})\.part")
_OBJECT = re.compile(r"[0-9a-f]{32}")
_FOLDER = re.compile(r"[0-9a-f]{2}")
_DESCRIPTION = "object.json"
_NEW = ".new-"
_COUNTED_BYTES = 512  # of st_blocks, whatever the file system's own are
_BLOCK_BYTES = 4096  # of most file systems


@dataclass(frozen=True, slots=True)
class Entry:
    """One file of a cache: a range of bytes, or a block of rows.

    object: the name of what it is of.
    name: of the file: "start-stop" of a range, "row group-digest.arrow" of a block.
    disk_bytes: that it takes.
    used_ns: when it was read or written last, in ns since the epoch.
    """

    object: str
    name: str
    path: str
    disk_bytes: int
    used_ns: int

    @property
    def range(self) -> tuple[int, int] | None:
        """Start and stop of a range; None of a block."""
        match = _RANGE.fullmatch(self.name)
        return (int(match[1]), int(match[2])) if match else None


def entries_of(directory: Path) -> Iterator[Entry]:
    """The entries of a tier's directory."""
    for name, path in _objects(directory):
        for file in _files(path):
            if _ENTRY.fullmatch(file.name):
                with contextlib.suppress(FileNotFoundError):
                    status = file.stat(follow_symlinks=False)
                    disk_bytes = status.st_blocks * _COUNTED_BYTES
                    yield Entry(name, file.name, file.path, disk_bytes, status.st_mtime_ns)


def whole_blocks(data_bytes: int) -> int:
    """Bytes on disk that a file with so many takes."""
    return -(-data_bytes // _BLOCK_BYTES) * _BLOCK_BYTES


def used_bytes(directory: Path) -> int:
    """Bytes on disk of all that lies below a directory, itself included.

    What is being written counts as if it were complete.
    """
    total = 0
    pending = [os.fspath(directory)]
    while pending:
        at = pending.pop()
        with contextlib.suppress(OSError):
            total += os.lstat(at).st_blocks * _COUNTED_BYTES
        for file in _files(at):
            if file.is_dir(follow_symlinks=False):
                pending.append(file.path)
            else:
                total += _file_bytes(at, file.name)
    return total


def _file_bytes(directory: str, name: str) -> int:
    """Return the bytes of a file on disk; 0 if the file has vanished."""
    part = _PART.fullmatch(name)
    try:
        status = os.lstat(os.path.join(directory, name))
    except FileNotFoundError:
        # Its entry may have appeared.
        return _file_bytes(directory, part[1]) if part else 0
    disk_bytes = status.st_blocks * _COUNTED_BYTES
    return max(disk_bytes, whole_blocks(status.st_size)) if part else disk_bytes


def make_room(directories: Sequence[Path], most_bytes: int) -> tuple[int, int]:
    """Removes entries that were not used for longest, until so many bytes at most are on disk.

    Those in use stay, as do those being written.

    directories: of all tiers.

    Returns:
        The bytes on disk after it, and how many entries were removed.
    """
    for directory in directories:
        for _, path in _objects(directory):
            for file in _files(path):
                if _PART.fullmatch(file.name):
                    _unlink(file.path)  # unless whoever writes it lives
    total = sum(map(used_bytes, directories))
    removed = 0
    if total > most_bytes:
        entries = chain.from_iterable(map(entries_of, directories))
        for entry in sorted(entries, key=lambda each: each.used_ns):
            if total <= most_bytes:
                break
            if _unlink(entry.path):
                total -= entry.disk_bytes
                removed += 1
        for directory in directories:
            _remove_empty(directory)
    return total, removed


def remove_all(*directories: Path) -> int:
    """Removes what is not in use; returns how many entries that were."""
    return make_room(directories, -1)[1]


def describe(directory: Path, name: str, description: dict[str, Any]) -> None:
    """Says what an object is, for people to read."""
    path = directory / name
    with contextlib.suppress(FileNotFoundError):
        descriptor, new = tempfile.mkstemp(prefix=_NEW, dir=path)
        with os.fdopen(descriptor, "w") as file:
            json.dump(description, file)
        os.replace(new, path / _DESCRIPTION)


def described(directory: Path, name: str) -> dict[str, Any]:
    """What `describe` said; {} if that is not to be read."""
    try:
        found = json.loads((directory / name / _DESCRIPTION).read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _objects(directory: Path) -> Iterator[tuple[str, str]]:
    """The name and the path of each."""
    for folder in _files(directory):
        if _FOLDER.fullmatch(folder.name) and folder.is_dir(follow_symlinks=False):
            for file in _files(folder.path):
                if _OBJECT.fullmatch(file.name) and file.is_dir(follow_symlinks=False):
                    yield f"{folder.name}/{file.name}", file.path


def _files(directory: str | Path) -> list[os.DirEntry[str]]:
    """What lies in a directory, which may have vanished."""
    try:
        with os.scandir(directory) as found:
            return list(found)
    except OSError:
        return []


def _unlink(path: str) -> bool:
    """Removes a file that nobody reads or writes; whether it did."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Another process may have put a new one there meanwhile.
        if not os.path.samestat(os.fstat(descriptor), os.lstat(path)):
            return False
        os.unlink(path)
    except OSError:
        return False
    else:
        return True
    finally:
        os.close(descriptor)


def _remove_empty(directory: Path) -> None:
    """Removes the directories of objects without entries."""
    for _, path in _objects(directory):
        left = [file.name for file in _files(path)]
        if all(name == _DESCRIPTION or name.startswith(_NEW) for name in left):
            with contextlib.suppress(OSError):
                for name in left:
                    os.unlink(os.path.join(path, name))
                os.rmdir(path)
                os.rmdir(os.path.dirname(path))
