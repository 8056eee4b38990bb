"""Objects and their entries in the directory of a cache, and how entries are evicted."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import time
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

from fastload.runtime.disk.private_directory import UNFINISHED, publish

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

__all__ = [
    "USED_BY",
    "Entry",
    "describe",
    "described",
    "entries_of",
    "entries_of_object",
    "make_room",
    "remove_all",
    "use_object",
    "used_bytes",
    "whole_blocks",
]

# Only files and directories with names of these forms are ever removed.
_RANGE = re.compile(r"(\d+)-(\d+)")
_ENTRY = re.compile(r"\d+-\d+|part-\d+\.parquet")
_PART = re.compile(rf"\.({_ENTRY.pattern})\.part")
_OBJECT = re.compile(r"[0-9a-f]{32}")
_FOLDER = re.compile(r"[0-9a-f]{2}")
_DESCRIPTION = "object.json"
_LOCK_TRIES, _LOCK_S = 100, 0.01
USED_BY = "used_by"
"""The file in the directory of an object that processes lock while its entries must stay."""
_COUNTED_BYTES = 512  # of st_blocks, whatever the file system's own are
_BLOCK_BYTES = 4096  # the unit in which most file systems allocate


@dataclass(frozen=True, slots=True)
class Entry:
    """One file of a cache: a byte range, or a file of prepared rows.

    Attributes:
        object: name of the object that the entry belongs to: the remote file of a byte range, or
            the dataset and the steps of prepared rows.
        name: name of the file: "start-stop" for a byte range, "part-00000.parquet" for prepared
            rows.
        path: path of the file.
        disk_bytes: space that the file takes on disk.
        used_ns: time when the entry was last read or written, in ns since 1970.
    """

    object: str
    name: str
    path: str
    disk_bytes: int
    used_ns: int

    @property
    def range(self) -> tuple[int, int] | None:
        """The start and stop of a byte range; None for prepared rows."""
        match = _RANGE.fullmatch(self.name)
        return (int(match[1]), int(match[2])) if match else None


def entries_of(directory: Path) -> Iterator[Entry]:
    """Yield the entries in the directory of a tier."""
    for name, path in _objects(directory):
        yield from _entries_in(name, path)


def entries_of_object(directory: Path, name: str) -> Iterator[Entry]:
    """Yield the entries of one object, with the name "ab/abcdef...", in the directory of a tier."""
    return _entries_in(name.rpartition("/")[2], os.path.join(directory, name))


def _entries_in(name: str, path: str) -> Iterator[Entry]:
    for file in _files(path):
        if _ENTRY.fullmatch(file.name):
            with contextlib.suppress(FileNotFoundError):
                status = file.stat(follow_symlinks=False)
                disk_bytes = status.st_blocks * _COUNTED_BYTES
                yield Entry(name, file.name, file.path, disk_bytes, status.st_mtime_ns)


def whole_blocks(data_bytes: int) -> int:
    """Return the bytes on disk that a file with `data_bytes` bytes takes."""
    return -(-data_bytes // _BLOCK_BYTES) * _BLOCK_BYTES


def used_bytes(directory: Path) -> int:
    """Return the bytes on disk of a directory and everything below it.

    A file that is still being written counts with its final length.
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
        # The file may have been renamed to its entry.
        return _file_bytes(directory, part[1]) if part else 0
    disk_bytes = status.st_blocks * _COUNTED_BYTES
    return max(disk_bytes, whole_blocks(status.st_size)) if part else disk_bytes


def make_room(directories: Sequence[Path], most_bytes: int) -> tuple[int, list[int]]:
    """Remove the least recently used entries until at most `most_bytes` are on disk.

    Entries that are being read or written stay.

    Args:
        directories: the directories of all tiers.
        most_bytes: limit of the bytes on disk.

    Returns:
        The bytes on disk afterwards, and for each entry removed the time of its last use, in ns
        since the epoch.
    """
    for directory in directories:
        for _, path in _objects(directory):
            for file in _files(path):
                if _PART.fullmatch(file.name):
                    _unlink(file.path)  # unless the process that writes the file is alive
    total = sum(map(used_bytes, directories))
    removed: list[int] = []
    if total > most_bytes:
        entries = chain.from_iterable(map(entries_of, directories))
        for entry in sorted(entries, key=lambda each: each.used_ns):
            if total <= most_bytes:
                break
            if _removed(entry):
                total -= entry.disk_bytes
                removed.append(entry.used_ns)
        for directory in directories:
            _remove_empty(directory)
    return total, removed


def remove_all(*directories: Path) -> int:
    """Remove all entries that are not in use, and return the number of entries removed."""
    return len(make_room(directories, -1)[1])


def describe(directory: Path, name: str, description: dict[str, Any]) -> None:
    """Write what an object is, for people to read, unless the object has been removed."""
    path = directory / name / _DESCRIPTION
    with contextlib.suppress(FileNotFoundError), publish(path) as file:
        file.write(json.dumps(description).encode())


def described(directory: Path, name: str) -> dict[str, Any]:
    """Return what `describe` wrote; {} if there is nothing that can be read."""
    try:
        found = json.loads((directory / name / _DESCRIPTION).read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _objects(directory: Path) -> Iterator[tuple[str, str]]:
    """Yield the name and the path of each object."""
    for folder in _files(directory):
        if _FOLDER.fullmatch(folder.name) and folder.is_dir(follow_symlinks=False):
            for file in _files(folder.path):
                if _OBJECT.fullmatch(file.name) and file.is_dir(follow_symlinks=False):
                    yield f"{folder.name}/{file.name}", file.path


def _files(directory: str | Path) -> list[os.DirEntry[str]]:
    """Return the entries of a directory; none if the directory has vanished."""
    try:
        with os.scandir(directory) as found:
            return list(found)
    except OSError:
        return []


def _removed(entry: Entry) -> bool:
    """Remove an entry unless it is in use; return True if it was removed."""
    # The files of prepared rows are used together.
    if entry.range is None and _in_use(os.path.dirname(entry.path)):
        return False
    return _unlink(entry.path)


def _unlink(path: str) -> bool:
    """Remove a file unless it is being read or written; return True if it was removed."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Another process may have put a new file at this path meanwhile.
        if not os.path.samestat(os.fstat(descriptor), os.lstat(path)):
            return False
        os.unlink(path)
    except OSError:
        return False
    else:
        return True
    finally:
        os.close(descriptor)


def use_object(path: str) -> int:
    """Make an object's directory, and return a descriptor: until it is closed, entries stay.

    Raises:
        OSError: the directory can't be made, or no file in it.
    """
    os.makedirs(path, mode=0o700, exist_ok=True)
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(os.path.join(path, USED_BY), flags, 0o600)
    for _ in range(_LOCK_TRIES):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            break
        except BlockingIOError:  # `_in_use` of another process has it for a moment
            time.sleep(_LOCK_S)
        except OSError:  # a file system without locks
            break
    return descriptor


def _in_use(path: str) -> bool:
    """Return True if a process uses an object, given the path of the object's directory."""
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(os.path.join(path, USED_BY), flags)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    else:
        return False
    finally:
        os.close(descriptor)


def _remove_empty(directory: Path) -> None:
    """Remove the directories of objects without entries."""
    for _, path in _objects(directory):
        if _in_use(path):
            continue
        left = [file.name for file in _files(path)]
        if all(name in (_DESCRIPTION, USED_BY) or name.startswith(UNFINISHED) for name in left):
            with contextlib.suppress(OSError):
                for name in left:
                    os.unlink(os.path.join(path, name))
                os.rmdir(path)
                os.rmdir(os.path.dirname(path))
