"""Reads the format, size and orientation of an encoded image from its first bytes.

- JPEG: ITU-T T.81, annex B.
- PNG: W3C, "Portable Network Graphics (PNG) Specification (Third Edition)", sections 5 and 11.
- WebP: RFC 9649.
- GIF: CompuServe, "Graphics Interchange Format, version 89a".
- EXIF: CIPA DC-008, section 4.6.
"""

from __future__ import annotations

import re
import struct
from typing import Literal, NamedTuple

__all__ = ["MOST_PIXELS", "Header", "read_header"]

# The number from which Pillow takes an image for an attack, too. An image of as many pixels takes
# 0.5 GB.
MOST_PIXELS = 178_956_970

# Real files have fewer than a hundred segments or chunks before their pixels.
_MOST_PARTS = 10_000
_PNG = b"\x89PNG\r\n\x1a\n"
# Start-of-frame markers, all of them C0 to CF but for DHT, JPG and DAC.
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
# libjpeg, too, skips whatever stands before a marker, and fill bytes.
_MARKER = re.compile(rb"\xff([^\x00\xff])")
_START_OF_SCAN, _END_OF_IMAGE, _APP1 = 0xDA, 0xD9, 0xE1
# Markers without a length: TEM, RST0 to RST7 and SOI.
_BARE = frozenset((0x01, *range(0xD0, 0xD9)))
_ORIENTATION, _SHORT = 0x0112, 3


class Header(NamedTuple):
    """The format, size and orientation of an encoded image.

    Attributes:
        kind: the format.
        height: number of rows that the file stores.
        width: number of columns that the file stores.
        orientation: EXIF's orientation, 1 to 8. From 5 on, the upright image has its rows where
            the file stores columns.
        channels: number of channels that a JPEG stores; 3 for another format.
    """

    kind: Literal["JPEG", "PNG", "GIF", "WebP"]
    height: int
    width: int
    orientation: int = 1
    channels: int = 3

    @property
    def upright(self) -> tuple[int, int]:
        """The height and width of the upright image."""
        turned = self.orientation > 4
        return (self.width, self.height) if turned else (self.height, self.width)


def read_header(data: bytes) -> Header:
    """Return the format, size and orientation that the first bytes of an image say.

    Raises:
        ValueError: the bytes are no JPEG, PNG, GIF or WebP image, the bytes end within the header,
            or the image has no pixels, or more pixels than `MOST_PIXELS`.
    """
    if not data:
        raise ValueError("Expected an image, got 0 bytes")
    try:
        header = _header(data)
    except (struct.error, IndexError):
        header = None
    if header is None:
        raise ValueError(
            f"Expected a JPEG, PNG, GIF or WebP image, got {len(data)} bytes without a whole "
            f"header of such an image, which begin with {data[:12]!r}"
        )
    pixels = header.height * header.width
    if not 0 < pixels <= MOST_PIXELS:
        raise ValueError(
            f"Expected an image of 1 to {MOST_PIXELS} pixels, got a {header.kind} image of "
            f"{header.height} x {header.width} pixels"
        )
    return header


def _header(data: bytes) -> Header | None:
    if data.startswith(b"\xff\xd8\xff"):
        return _jpeg(data)
    if data.startswith(_PNG):
        return _png(data)
    if data.startswith((b"GIF87a", b"GIF89a")):
        width, height = struct.unpack_from("<HH", data, 6)
        return Header("GIF", height, width)
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return _webp(data)
    return None


def _jpeg(data: bytes) -> Header | None:
    at, orientation = 2, 1
    for _ in range(_MOST_PARTS):
        found = _MARKER.search(data, at)
        if found is None:
            return None
        marker, at = found[1][0], found.end()
        if marker in (_START_OF_SCAN, _END_OF_IMAGE):
            return None
        if marker in _BARE:
            continue
        (length,) = struct.unpack_from(">H", data, at)
        if marker in _FRAMES:
            height, width = struct.unpack_from(">HH", data, at + 3)
            return Header("JPEG", height, width, orientation, channels=data[at + 7])
        if marker == _APP1 and orientation == 1 and data.startswith(b"Exif\0\0", at + 2):
            orientation = _orientation(data[at + 8 : at + length])
        at += length
    return None


def _png(data: bytes) -> Header | None:
    at, size = len(_PNG), None
    for _ in range(_MOST_PARTS):
        length, name = struct.unpack_from(">I4s", data, at)
        if size is None:
            if name != b"IHDR":
                return None
            size = struct.unpack_from(">II", data, at + 8)
        elif name == b"eXIf":
            exif = data[at + 8 : at + 8 + length]
            return Header("PNG", size[1], size[0], _orientation(exif))
        elif name in (b"IDAT", b"IEND"):
            return Header("PNG", size[1], size[0])
        at += 12 + length
    return None


def _webp(data: bytes) -> Header | None:
    kind = data[12:16]
    if kind == b"VP8 " and data[23:26] == b"\x9d\x01\x2a":
        width, height = struct.unpack_from("<HH", data, 26)
        return Header("WebP", height & 0x3FFF, width & 0x3FFF)
    if kind == b"VP8L" and data[20] == 0x2F:
        (bits,) = struct.unpack_from("<I", data, 21)
        return Header("WebP", (bits >> 14 & 0x3FFF) + 1, (bits & 0x3FFF) + 1)
    if kind == b"VP8X":
        flags, width_low, width_high, height_low, height_high = struct.unpack_from(
            "<B3xHBHB", data, 20
        )
        width, height = width_low + (width_high << 16) + 1, height_low + (height_high << 16) + 1
        orientation = _orientation(_webp_exif(data)) if flags & 8 else 1
        return Header("WebP", height, width, orientation)
    return None


def _webp_exif(data: bytes) -> bytes:
    at = 12
    for _ in range(_MOST_PARTS):
        if at + 8 > len(data):
            break
        name, length = struct.unpack_from("<4sI", data, at)
        if name == b"EXIF":
            return data[at + 8 : at + 8 + length]
        at += 8 + length + length % 2
    return b""


def _orientation(exif: bytes) -> int:
    """Return the orientation that EXIF data say; 1, upright, if they say none or are damaged."""
    exif = exif.removeprefix(b"Exif\0\0")
    order = {b"II*\0": "<", b"MM\0*": ">"}.get(exif[:4])
    if order is None:
        return 1
    try:
        (at,) = struct.unpack_from(order + "I", exif, 4)
        (count,) = struct.unpack_from(order + "H", exif, at)
        for entry in range(at + 2, at + 2 + 12 * count, 12):
            tag, kind, _, value = struct.unpack_from(order + "HHIH", exif, entry)
            if tag == _ORIENTATION:
                return value if kind == _SHORT and 1 <= value <= 8 else 1
    except struct.error:
        pass
    return 1
