"""Cache of row selections on disk, which the processes of a node share.

An entry holds the rows of one file. It starts with a head of 32 bytes: magic, number of row groups,
number of bytes of bits, and the CRC-32 of the rest. The rest is the counts and the offsets of a
`FileRows`, as int64, and its bits. An entry is published by an atomic rename and never changes, and
no part of an entry is ever executed.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import struct
import time
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from fastload.plan.kept_rows import FileRows
from fastload.runtime.disk.private_directory import (
    CacheDirectory,
    publish,
    remove_abandoned_once,
    try_lock,
    unlock,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["SelectionCache"]

_MAGIC = b"FLROWS01"
_HEAD = struct.Struct("<8sqqII")
# A smaller entry is read rather than mapped, because a process may have only 65,530 mappings.
_MAPPED_BYTES = 1 << 20
_READ_BYTES = 1 << 20
_LOCKS = 64
_POLL_S = 0.05


class SelectionCache:
    """A directory of entries. Without a directory, and after the first failure, nothing is kept."""

    def __init__(self) -> None:
        self._home = CacheDirectory(
            "selections",
            "the counts of filtered rows",
            "they stay in memory and are counted again next time",
        )

    def load(self, key: str) -> FileRows | None:
        """Return the rows of an entry; None if no undamaged entry exists.

        A damaged entry is removed.

        Args:
            key: the key of the entry; "" = there is none.
        """
        if self._home.path is None or not key:
            return None
        path = self._path(key)
        try:
            with path.open("rb") as file:
                rows = _read(file.fileno())
        except OSError:
            # There may be no entry, or no file descriptor or mapping left for a sound one.
            return None
        if rows is None:
            with contextlib.suppress(OSError):
                path.unlink()
        return rows

    def store(self, key: str, rows: FileRows) -> FileRows:
        """Write an entry.

        Args:
            key: the key of the entry; "" = write none.
            rows: the rows to keep.

        Returns:
            The same rows: mapped from the entry if they are large and the entry was written, else
            `rows`.
        """
        if self._home.path is None or not key:
            return rows
        path = self._path(key)
        body: list[Any] = [rows.counts.astype("<i8"), rows.offsets.astype("<i8"), rows.bits]
        crc = 0
        for array in body:
            crc = zlib.crc32(array, crc)
        head = _HEAD.pack(_MAGIC, len(rows.counts), len(rows.bits), crc, 0)
        try:
            path.parent.mkdir(mode=0o700, exist_ok=True)
            remove_abandoned_once(path.parent)
            with publish(path) as file:
                file.writelines([head, *body])
        except OSError as error:
            self._home.give_up(error)
            return rows
        # Map large rows from now on, so that processes share their memory.
        return self.load(key) or rows if len(rows.bits) >= _MAPPED_BYTES else rows

    @contextlib.contextmanager
    def lock(self, key: str) -> Iterator[None]:
        """Hold the lock of a key, so that other processes don't find the same rows meanwhile.

        The body of the `with` runs without a lock if the lock file can't be opened.

        Args:
            key: the key to lock.
        """
        descriptor = self._open_lock(key)
        try:
            while descriptor is not None and not try_lock(descriptor):
                time.sleep(_POLL_S)
            yield
        finally:
            if descriptor is not None:
                unlock(descriptor)

    def _open_lock(self, key: str) -> int | None:
        if self._home.path is None:
            return None
        path = self._home.path / f"lock-{int(key[:8], 16) % _LOCKS:02d}"
        try:
            return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:
            return None

    def _path(self, key: str) -> Path:
        assert self._home.path is not None
        return self._home.path / key[:2] / f"{key}.rows"


def _read(descriptor: int) -> FileRows | None:
    """Return the rows in an open file; None if the file is damaged."""
    size = os.fstat(descriptor).st_size
    head = os.pread(descriptor, _HEAD.size, 0)
    if len(head) < _HEAD.size:
        return None
    magic, groups, bits_bytes, crc, _ = _HEAD.unpack(head)
    if magic != _MAGIC or groups < 0 or bits_bytes < 0:
        return None
    if size != _HEAD.size + 16 * groups + bits_bytes or _crc(descriptor) != crc:
        return None
    mapped = bits_bytes >= _MAPPED_BYTES
    whole = (
        mmap.mmap(descriptor, size, access=mmap.ACCESS_READ)
        if mapped
        else os.pread(descriptor, size, 0)
    )
    counts, offsets = np.frombuffer(whole, "<i8", 2 * groups, _HEAD.size).reshape(2, groups)
    bits = np.frombuffer(whole, np.uint8, bits_bytes, _HEAD.size + 16 * groups)
    return FileRows(counts.copy(), offsets.copy(), bits, mapped)


def _crc(descriptor: int) -> int:
    crc = 0
    at = _HEAD.size
    # Read rather than mapped, so that the file does not count as this process's memory.
    while block := os.pread(descriptor, _READ_BYTES, at):
        crc = zlib.crc32(block, crc)
        at += len(block)
    return crc
