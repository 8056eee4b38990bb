"""Thrift's compact protocol as trees, so that tests can change any number of a footer or header.

A struct is a dict of field id to `(type, value)`; a list is `(type of its elements, elements)`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Struct", "build", "crafted", "parse"]

_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)

Struct = dict[int, tuple[int, Any]]


class _Reader:
    def __init__(self, data: bytes, at: int) -> None:
        self.data, self.at = data, at

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def integer(self) -> int:
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def take(self, count: int) -> bytes:
        self.at += count
        return self.data[self.at - count : self.at]

    def value(self, kind: int, *, element: bool = False) -> Any:
        if kind in (_TRUE, _FALSE):
            return self.byte() == _TRUE if element else kind == _TRUE
        if kind == _BYTE:
            return self.byte()
        if kind in (_I16, _I32, _I64):
            return self.integer()
        if kind == _DOUBLE:
            return self.take(8)
        if kind == _BINARY:
            return self.take(self.varint())
        if kind in (_LIST, _SET):
            head = self.byte()
            size = head >> 4 if head < 0xF0 else self.varint()
            return head & 0xF, [self.value(head & 0xF, element=True) for _ in range(size)]
        if kind == _STRUCT:
            return self.struct()
        raise ValueError(f"Expected a type of Parquet's structs, got {kind}")

    def struct(self) -> Struct:
        fields: Struct = {}
        field = 0
        while head := self.byte():
            field = field + (head >> 4) if head >> 4 else self.integer()
            fields[field] = (head & 0xF, self.value(head & 0xF))
        return fields


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _integer(value: int) -> bytes:
    return _varint((value << 1) ^ (value >> 63))


def _value(kind: int, value: Any, *, element: bool = False) -> bytes:
    if kind in (_TRUE, _FALSE):
        return bytes([_TRUE if value else _FALSE]) if element else b""
    if kind == _BYTE:
        return bytes([value])
    if kind in (_I16, _I32, _I64):
        return _integer(value)
    if kind == _DOUBLE:
        return value
    if kind == _BINARY:
        return _varint(len(value)) + value
    if kind in (_LIST, _SET):
        of, elements = value
        size = len(elements)
        head = bytes([size << 4 | of]) if size < 15 else bytes([0xF0 | of]) + _varint(size)
        return head + b"".join(_value(of, one, element=True) for one in elements)
    return build(value)


def parse(data: bytes, at: int = 0) -> tuple[Struct, int]:
    """Return the struct at `at`, and the position behind it."""
    reader = _Reader(data, at)
    return reader.struct(), reader.at


def build(struct: Struct) -> bytes:
    """Return the bytes of a struct."""
    out = b""
    last = 0
    for field, (kind, value) in sorted(struct.items()):
        if kind in (_TRUE, _FALSE):
            kind = _TRUE if value else _FALSE
        step = field - last
        out += bytes([step << 4 | kind]) if 0 < step < 16 else bytes([kind]) + _integer(field)
        out += _value(kind, value)
        last = field
    return out + b"\0"


def crafted(
    data: bytes,
    *,
    page: Callable[[Struct, int], None] | None = None,
    footer: Callable[[Struct], None] | None = None,
) -> bytes:
    """Return a file of one row group and one column with other headers, and right offsets.

    Args:
        data: the file.
        page: changes the header of a page, given the number of the page; the dictionary is page 0.
        footer: changes the footer, last.
    """
    length = int.from_bytes(data[-8:-4], "little")
    metadata, _ = parse(data, len(data) - 8 - length)
    chunk = metadata[4][1][1][0][1][1][1][0][3][1]
    dictionary = chunk.get(11, (_I64, 0))[1]
    at = dictionary or chunk[9][1]
    end = at + chunk[7][1]
    out = data[:4]
    starts = []
    while at < end:
        starts.append(len(out))
        header, body = parse(data, at)
        at = body + header[3][1]
        if page:
            page(header, len(starts) - 1)
        out += build(header) + data[body:at]
    chunk[7] = (_I64, len(out) - 4)
    chunk[9] = (_I64, starts[1 if dictionary else 0])
    if footer:
        footer(metadata)
    tail = build(metadata)
    return out + tail + len(tail).to_bytes(4, "little") + b"PAR1"
