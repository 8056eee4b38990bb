"""A pack: one file that holds many footers.

A pack begins with a head of 56 bytes: magic; numbers of entries, row groups and schemas; bytes of
the schemas and of the packed footers; CRC-32 of everything after the head. After the head come
the entries, the rows of all row groups as int64, the lengths of the schemas' tails as int64, the
tails, and the footers as `Footer.pack` packs them. A pack appears by an atomic rename and never
changes; no part of a pack is ever executed.
"""

from __future__ import annotations

import os
import struct
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fastload.errors import FastloadError
from fastload.runtime.native import core

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray


__all__ = ["FooterPack", "NewFooter", "PackedFooter", "pack_parts"]

_MAGIC = b"FLFOOT01"
_HEAD = struct.Struct("<8s5qI4x")
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
_BLOCK_BYTES = 1 << 20
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
        keys: keys of the footers in the pack, in order.

    Raises:
        ValueError: the file is damaged, or is not a pack.
        OSError: the file can't be read.
    """

    def __init__(self, path: Path, schemas: core.FooterSchemas, *, check: bool = True) -> None:
        self._path = path
        with path.open("rb") as file:
            self._kept = core.KeptFile(f"/dev/fd/{file.fileno()}")
            head = file.read(_HEAD.size)
            if len(head) < _HEAD.size:
                raise ValueError("Expected a pack of footers, got a shorter file")
            magic, entries, groups, tails, tail_bytes, packed_bytes, crc = _HEAD.unpack(head)
            counts = (entries, groups, tails, tail_bytes, packed_bytes)
            if magic != _MAGIC or not all(0 <= count < _MOST for count in counts):
                raise ValueError("Expected a pack of footers, got other bytes")
            start = _HEAD.size + entries * _ENTRY.itemsize + 8 * (groups + tails) + tail_bytes
            if os.fstat(file.fileno()).st_size != start + packed_bytes:
                raise ValueError("Expected a whole pack of footers, got a part")
            index = file.read(start - _HEAD.size)
            found = zlib.crc32(index)
            # The pack is read, not mapped, so that it does not count as this process's memory.
            while check and (block := file.read(_BLOCK_BYTES)):
                found = zlib.crc32(block, found)
        if check and found != crc:
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
        with self._path.open("rb") as file:
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
    crc = 0
    for part in body:
        crc = zlib.crc32(part, crc)
    counts = (
        len(footers),
        int(entries["row_groups"].sum()),
        len(tails),
        int(lengths.sum()),
        int(entries["bytes"].sum()),
    )
    return [_HEAD.pack(_MAGIC, *counts, crc), *body]
