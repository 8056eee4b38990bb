"""Sizes and orientations from the first bytes of images."""

import math
import struct

import numpy as np
import pytest

from fastload.images import sizes
from fastload.images.header import read_header
from support.image_files import encoded, kinds, picture, with_orientation

KINDS = list(kinds())


@pytest.mark.parametrize("kind", KINDS)
def test_size_of(kind):
    assert sizes(kinds()[kind]) == (120, 160)
    assert read_header(kinds()[kind]).kind.lower() == kind.split()[0]


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientation(kind, orientation):
    data = with_orientation(kind, orientation)
    assert read_header(data).orientation == orientation
    assert sizes(data) == ((120, 160) if orientation < 5 else (160, 120))


@pytest.mark.parametrize("orientation", [0, 9, 65535])
def test_an_orientation_that_exif_does_not_know_is_upright(orientation):
    assert read_header(with_orientation("JPEG", orientation)).orientation == 1


def test_damaged_exif_is_upright():
    data = with_orientation("JPEG", 6)
    start = data.index(b"Exif\0\0") + 6
    for end in range(start, start + 6):
        damaged = data[:end] + b"\xee" * 20 + data[end + 20 :]
        assert read_header(damaged).orientation in (1, 6)


def test_any_buffer():
    data = kinds()["jpeg"]
    for given in (bytearray(data), memoryview(data), np.frombuffer(data, np.uint8)):
        assert sizes(given) == (120, 160)
    with pytest.raises(TypeError, match=r"Expected an image as bytes, got str$"):
        sizes("a.jpg")
    with pytest.raises(TypeError, match=r"got int$"):
        sizes(3)


@pytest.mark.parametrize("kind", KINDS)
def test_bytes_that_end_in_the_header(kind):
    data = kinds()[kind]
    for end in range(10):
        with pytest.raises(ValueError, match=r"^Expected (an|a JPEG, PNG, GIF or WebP) image, got"):
            sizes(data[:end])


def test_bytes_without_an_image():
    with pytest.raises(ValueError, match=r"^Expected an image, got 0 bytes$"):
        sizes(b"")
    with pytest.raises(ValueError, match=r"got 5 bytes without .* which begin with b'hello'$"):
        sizes(b"hello")


MAGICS = [b"", b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF89a", b"RIFF\xff\xff\0\0WEBPVP8X"]


def outcome(data):
    """The number of pixels, or the first word of the error."""
    try:
        return math.prod(sizes(data))
    except ValueError as error:
        return str(error).partition(" ")[0]


@pytest.mark.parametrize("magic", MAGICS)
def test_random_bytes(magic):
    random = np.random.default_rng(0)
    for size in [1, 20, 300, 5_000] * 20:
        found = outcome(magic + random.bytes(size))
        assert found == "Expected" or 0 < found <= 178_956_970


def test_headers_that_never_come_to_an_end():
    for endless in (b"\xff" * 1_000_000, b"\xff\xe0\0\2" * 250_000, b"\xff\1" * 500_000):
        with pytest.raises(ValueError, match="without a whole header"):
            sizes(b"\xff\xd8" + endless)
    chunks = struct.pack(">I4sI", 0, b"tEXt", 0) * 80_000
    png = kinds()["png"]
    with pytest.raises(ValueError, match="without a whole header"):
        sizes(png[:33] + chunks)


def huge(kind, height, width):
    """An image whose header says a size."""
    data = bytearray(encoded(picture(), kind))
    if kind == "PNG":
        data[16:24] = struct.pack(">II", width, height)
    elif kind == "JPEG":
        at = data.index(b"\xff\xc0")
        data[at + 5 : at + 9] = struct.pack(">HH", height, width)
    elif kind == "GIF":
        data[6:10] = struct.pack("<HH", width, height)
    else:
        data[12:] = b"VP8X" + struct.pack("<IIHBHB", 10, 0, width, 0, height, 0) + data[12:]
    return bytes(data)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP"])
def test_a_size_beyond_all_memory(kind):
    height, width = (100_000, 100_000) if kind == "PNG" else (60_000, 60_000)
    with pytest.raises(ValueError, match=r"Expected an image of 1 to 178956970 pixels, got a .* x"):
        sizes(huge(kind, height, width))


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF"])
def test_no_pixels(kind):
    with pytest.raises(ValueError, match=r"Expected an image of 1 to .* 0 x 160 pixels"):
        sizes(huge(kind, 0, 160))
