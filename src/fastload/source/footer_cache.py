"""Footers kept on disk, shared by the processes of a node.

The footers that one run reads lie together in packs. The packs lie in 64 directories (shards),
and all footers of one directory of files are in the same shard. Another format of packs has
another directory, which is left alone.

A pack is one file. It begins with a head of 56 bytes: magic; numbers of entries, row groups and
schemas; bytes of the schemas and of the packed footers; XXH64 of everything after the head. After
the head come the entries, the rows of all row groups as int64, the lengths of the schemas' tails as
int64, the tails, and the footers as `Footer.pack` packs them. A pack appears by an atomic rename
and never changes; no part of a pack is ever executed.
"""

from __future__ import annotations

import contextlib
import os
import struct
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from fastload.errors import FastloadError
from fastload.runtime.digest import digest
from fastload.runtime.disk.private_directory import (
    CacheDirectory,
    mark_used,
    publish,
    remove_abandoned,
    remove_unused_once,
    try_lock,
    unlock,
)
from fastload.runtime.native import core

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["FooterCache", "FooterKey", "NewFooter", "PackedFooter"]

_SHARDS = 64
_SUFFIX = ".pack"
# A shard with this many packs is merged into one: each pack costs a file to open at every start.
# Larger packs stay as they are, for a merge takes the memory of all of them.
_MOST_PACKS = 16
_LARGE_BYTES = 32 << 20
_TRIES = 3

_MAGIC = b"FLFOOT02"
_HEAD = struct.Struct("<8s5qQ")
_ENTRY = np.dtype(
    [
        ("key", "S32"),
        ("path", "S32"),
        ("digest", "V16"),
        ("schema", "<i8"),
        ("row_groups", "<i8"),
        ("bytes", "<i8"),
    ]
)
_MOST = 1 << 40  # the limit of each number in a head


@dataclass(frozen=True, slots=True)
class NewFooter:
    """A footer to be written to a pack.

    Attributes:
        key: digest of the file's path and version, 32 digits.
        path: digest of the file's path alone, the same for all versions, 32 digits.
        digest: 16 bytes, the digest of the footer's bytes.
        rows: rows of each row group, as the bytes of int64 numbers.
        packed: the footer as `Footer.pack` packed it.
        schema: the schema of the footer.
    """

    key: str
    path: str
    digest: bytes
    rows: bytes
    packed: bytes
    schema: core.FooterSchema


@dataclass(frozen=True, slots=True)
class PackedFooter:
    """A footer in a pack.

    Attributes:
        digest: 16 bytes, the digest of the footer's bytes.
        rows: rows of each row group, as the bytes of int64 numbers.
        schema: the schema of the footer.
        packed: the file of the pack, with the offset and the length of the packed footer.
    """

    digest: bytes
    rows: bytes
    schema: core.FooterSchema
    packed: tuple[core.KeptFile, int, int]

    def footer(self, file_bytes: int, path: str) -> core.Footer:
        """Make the footer of the file at `path`, which has `file_bytes` bytes."""
        name = os.fsencode(path)
        return core.Footer.of_packed(self.packed, file_bytes, name, self.rows, self.schema)


class FooterPack:
    """An open pack.

    Args:
        path: path of the pack.
        schemas: schemas of all packs, so that equal schemas share memory.
        check: True to compare the checksum with the bytes of the pack.

    Attributes:
        path: path of the pack.
        keys: keys of the footers in the pack, in order.

    Raises:
        ValueError: the file is damaged, or is not a pack.
        OSError: the file can't be read.
    """

    def __init__(self, path: Path, schemas: core.FooterSchemas, *, check: bool = True) -> None:
        self.path = path
        with path.open("rb") as file:
            self._kept = core.KeptFile(f"/dev/fd/{file.fileno()}")
            head = file.read(_HEAD.size)
            if len(head) < _HEAD.size:
                raise ValueError("Expected a pack of footers, got a shorter file")
            magic, entries, groups, tails, tail_bytes, packed_bytes, checksum = _HEAD.unpack(head)
            counts = (entries, groups, tails, tail_bytes, packed_bytes)
            if magic != _MAGIC or not all(0 <= count < _MOST for count in counts):
                raise ValueError("Expected a pack of footers, got other bytes")
            start = _HEAD.size + entries * _ENTRY.itemsize + 8 * (groups + tails) + tail_bytes
            if os.fstat(file.fileno()).st_size != start + packed_bytes:
                raise ValueError("Expected a whole pack of footers, got a part")
            index = file.read(start - _HEAD.size)
        if check and self._kept.hash(_HEAD.size) != checksum:
            raise ValueError("The checksum of a pack of footers does not match its bytes")
        self._parse(index, entries, groups, tails, start, schemas)

    def _parse(
        self,
        index: bytes,
        entries: int,
        groups: int,
        tails: int,
        start: int,
        schemas: core.FooterSchemas,
    ) -> None:
        self._entries = np.frombuffer(index, _ENTRY, entries)
        at = entries * _ENTRY.itemsize
        self._rows = index[at : at + 8 * groups]
        at += 8 * groups
        lengths = np.frombuffer(index, "<i8", tails, at).tolist()
        at += 8 * tails
        self._schemas = []
        for length in lengths:
            try:
                self._schemas.append(schemas.share(core.FooterSchema(index[at : at + length])))
            except FastloadError as error:
                raise ValueError(str(error)) from None
            at += length
        self._first_row = _starts(self._entries["row_groups"]).tolist()
        self._offset = (start + _starts(self._entries["bytes"])).tolist()
        self.keys = [key.decode() for key in self._entries["key"].tolist()]

    def at(self, number: int) -> PackedFooter:
        """Return the footer at an index of `keys`."""
        entry = self._entries[number]
        first, stop = self._first_row[number : number + 2]
        offset, end = self._offset[number : number + 2]
        return PackedFooter(
            bytes(entry["digest"]),
            self._rows[8 * first : 8 * stop],
            self._schemas[int(entry["schema"])],
            (self._kept, offset, end - offset),
        )

    def footers(self) -> list[NewFooter]:
        """Read all footers, to be written to another pack.

        Raises:
            OSError: the pack can't be read.
        """
        found = []
        with self.path.open("rb") as file:
            for number, key in enumerate(self.keys):
                kept = self.at(number)
                _, offset, length = kept.packed
                packed = os.pread(file.fileno(), length, offset)
                path = self._entries[number]["path"].decode()
                parts = (key, path, kept.digest, kept.rows, packed, kept.schema)
                found.append(NewFooter(*parts))
        return found


def _starts(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])


def pack_parts(footers: Sequence[NewFooter]) -> list[bytes]:
    """Return the bytes of a pack, in parts to be written one after the other."""
    numbers: dict[int, int] = {}  # the number of each schema, by its id()
    tails: list[bytes] = []
    for footer in footers:
        if id(footer.schema) not in numbers:
            numbers[id(footer.schema)] = len(tails)
            tails.append(footer.schema.tail)
    entries = np.zeros(len(footers), _ENTRY)
    for number, footer in enumerate(footers):
        entries[number] = (
            footer.key.encode(),
            footer.path.encode(),
            footer.digest,
            numbers[id(footer.schema)],
            len(footer.rows) // 8,
            len(footer.packed),
        )
    lengths = np.array([len(tail) for tail in tails], "<i8")
    rows = [footer.rows for footer in footers]
    body = [entries.tobytes(), *rows, lengths.tobytes(), *tails]
    body += [footer.packed for footer in footers]
    checksum = core.Hash64()
    for part in body:
        checksum.update(part)
    counts = (
        len(footers),
        int(entries["row_groups"].sum()),
        len(tails),
        int(lengths.sum()),
        int(entries["bytes"].sum()),
    )
    return [_HEAD.pack(_MAGIC, *counts, checksum.digest), *body]


class FooterKey:
    """The key of a footer in the cache.

    Args:
        path: URL or absolute path of the file.
        version: a text that changes with the file and with the store that holds the file.

    Attributes:
        key: digest of the path and the version, 32 digits.
        path: digest of the path alone, the same for all versions of the file, 32 digits.
        shard: number of the shard whose packs hold the footer.
    """

    __slots__ = ("key", "path", "shard")

    def __init__(self, path: str, version: str) -> None:
        self.path = digest(path)
        self.key = digest(path, version)
        self.shard = int(digest(os.path.dirname(path))[:4], 16) % _SHARDS


class FooterCache:
    """The packs of kept footers.

    The cache keeps nothing if it has no directory, and nothing more after the first failure.

    Args:
        schemas: schemas that several footers share.
        home: directory to use instead of $FASTLOAD_CACHE_DIR and the user's cache directory.
    """

    def __init__(self, schemas: core.FooterSchemas, home: Path | None = None) -> None:
        self._schemas = schemas
        self._directory = CacheDirectory(
            "footers-4", "footers", "they are read again next time", home
        )

    def load(self, keys: Iterable[FooterKey]) -> dict[str, PackedFooter]:
        """Return the kept footers, by key, and remove damaged packs."""
        wanted: dict[int, set[str]] = {}
        for key in keys:
            wanted.setdefault(key.shard, set()).add(key.key)
        found: dict[str, PackedFooter] = {}
        for shard, of_shard in wanted.items():
            found |= self._find(shard, of_shard)
        return found

    def store(self, footers: Sequence[tuple[FooterKey, NewFooter]]) -> dict[str, PackedFooter]:
        """Write footers, and return the written footers by key, as `load` returns them."""
        by_shard: dict[int, list[NewFooter]] = {}
        for key, footer in footers:
            by_shard.setdefault(key.shard, []).append(footer)
        packed: dict[str, PackedFooter] = {}
        for shard, of_shard in by_shard.items():
            if self._directory.path is None:
                break
            try:
                packed |= self._write(shard, of_shard)
            except OSError as error:
                self._directory.give_up(error)
                break
            except ValueError:  # another program has damaged the pack
                continue
        return packed

    def _find(self, shard: int, keys: set[str]) -> dict[str, PackedFooter]:
        """Return the newest kept footer of each key that has one."""
        found: dict[str, PackedFooter] = {}
        for pack in self._packs(shard):
            of_pack = {key: pack.at(number) for number, key in enumerate(pack.keys) if key in keys}
            if of_pack:
                mark_used(pack.path)
            found |= of_pack
        return found

    def _write(self, shard: int, footers: Sequence[NewFooter]) -> dict[str, PackedFooter]:
        path = self._path(shard)
        path.mkdir(mode=0o700, exist_ok=True)
        remove_unused_once(path.parent, f"*/*{_SUFFIX}")
        if len(self._small(shard)) >= _MOST_PACKS:
            self._merge(shard)
        name = path / f"{time.time_ns():020d}-{os.getpid()}{_SUFFIX}"
        with publish(name) as file:
            file.writelines(pack_parts(footers))
        try:
            pack = FooterPack(name, self._schemas, check=False)
        except FileNotFoundError:  # another process has merged the pack into a larger one
            return self._find(shard, {footer.key for footer in footers})
        return {key: pack.at(number) for number, key in enumerate(pack.keys)}

    def _merge(self, shard: int) -> None:
        """Merge the packs of a shard into one, with the newest footer of each file."""
        lock = os.open(self._path(shard) / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            # If another process merges the packs, or has merged them, nothing is left to do.
            if not try_lock(lock) or len(paths := self._small(shard)) < _MOST_PACKS:
                return
            newest: dict[str, NewFooter] = {}
            for pack in self._packs(shard, paths):
                newest.update({footer.path: footer for footer in pack.footers()})
            if newest:
                # Named after the newest pack, so that packs written meanwhile sort as newer.
                merged = self._path(shard) / f"{paths[-1].stem}-m{_SUFFIX}"
                with publish(merged) as file:
                    file.writelines(pack_parts(list(newest.values())))
            for path in paths:
                with contextlib.suppress(OSError):
                    path.unlink()
            remove_abandoned(self._path(shard))
        finally:
            unlock(lock)

    def _packs(self, shard: int, paths: Sequence[Path] | None = None) -> list[FooterPack]:
        """Open the packs of a shard, oldest first; retry if another process merges them."""
        for _ in range(_TRIES):
            packs = [self._open(path) for path in paths or self._list(shard)]
            if None not in packs:
                break
        return [pack for pack in packs if pack]

    def _open(self, path: Path) -> FooterPack | Literal[False] | None:
        """Open a pack; return False if the pack can't be read, None if it no longer exists.

        A damaged pack is removed.
        """
        try:
            return FooterPack(path, self._schemas)
        except ValueError:
            with contextlib.suppress(OSError):
                path.unlink()
            return False
        except FileNotFoundError:
            return None
        except OSError:
            return False

    def _list(self, shard: int) -> list[Path]:
        """List the packs of a shard, oldest first."""
        if self._directory.path is None:
            return []
        path = self._path(shard)
        try:
            names = sorted(name for name in os.listdir(path) if name.endswith(_SUFFIX))
        except OSError:
            return []
        return [path / name for name in names]

    def _small(self, shard: int) -> list[Path]:
        """List the packs of a shard that may be merged, oldest first."""
        small = []
        for path in self._list(shard):
            with contextlib.suppress(OSError):
                if path.stat().st_size < _LARGE_BYTES:
                    small.append(path)
        return small

    def _path(self, shard: int) -> Path:
        assert self._directory.path is not None
        return self._directory.path / f"{shard:02x}"
