"""Pixels equal those of OpenCV on the same path, and resemble those of Pillow."""

import io
import os
import subprocess
import sys
import threading

import cv2
import numpy as np
import pytest
from PIL import Image, ImageOps

from fastload.images import center_box, crop_box, decode
from fastload.images.pixels import _opencv
from support.image_files import by_pillow, encoded, kinds, picture, with_orientation

KINDS = list(kinds())


def difference(one, other):
    """The largest and the mean difference of two images."""
    assert one.shape == other.shape
    apart = np.abs(one.astype(int) - other.astype(int))
    return apart.max(), apart.mean()


def by_opencv(data, flags=cv2.IMREAD_COLOR):
    """The pixels that OpenCV decodes, in RGB."""
    pixels = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
    return pixels[..., None] if pixels.ndim == 2 else pixels[..., ::-1]


@pytest.mark.parametrize("kind", KINDS)
def test_whole_images_equal_those_of_opencv_and_pillow(kind):
    data = kinds()[kind]
    pixels = decode(data)
    assert pixels.dtype == np.uint8
    assert np.array_equal(pixels, by_opencv(data))
    if kind == "png 16 bit gray":  # Pillow cuts such values off at 255
        expected = (picture()[..., :1].astype(np.uint16) * 257 // 2 >> 8).repeat(3, axis=2)
        assert np.array_equal(pixels, expected)
    else:
        assert difference(pixels, by_pillow(data))[0] <= (1 if kind == "jpeg cmyk" else 0)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "png 16 bit gray"])
def test_luma_is_that_of_opencv_and_within_5_of_pillow(kind):
    data = kinds()[kind]
    pixels = decode(data, mode="L")
    assert pixels.shape == (120, 160, 1)
    assert np.array_equal(pixels, by_opencv(data, cv2.IMREAD_GRAYSCALE))
    largest, mean = difference(pixels, by_pillow(data, "L"))
    assert largest <= 5
    assert mean <= 1


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientation_is_that_of_pillow(kind, orientation):
    data = with_orientation(kind, orientation)
    upright = np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(data))))
    assert np.array_equal(decode(data), upright)
    box = (5, 11, 70, 90)
    assert np.array_equal(decode(data, box=box), upright[5:75, 11:101])
    resized = decode(data, box=box, size=(50, 60))
    crop = np.ascontiguousarray(upright[5:75, 11:101])
    assert np.array_equal(resized, cv2.resize(crop, (60, 50), interpolation=cv2.INTER_AREA))


@pytest.mark.parametrize("factor", [1, 2, 4, 8])
@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_jpegs_are_reduced_as_far_as_the_size_allows(factor, mode):
    data = encoded(picture(501, 803), "JPEG")
    name = f"IMREAD_REDUCED_{'COLOR' if mode == 'RGB' else 'GRAYSCALE'}_{factor}"
    plain = cv2.IMREAD_COLOR if mode == "RGB" else cv2.IMREAD_GRAYSCALE
    reduced = by_opencv(data, getattr(cv2, name, plain))
    box = (factor, 2 * factor, 50 * factor, 70 * factor)
    part = decode(data, mode=mode, box=box, size=(50, 70))
    assert np.array_equal(part, reduced[1:51, 2:72])
    smaller = decode(data, mode=mode, box=box, size=(45, 41))
    crop = np.ascontiguousarray(reduced[1:51, 2:72])
    expected = cv2.resize(crop, (41, 45), interpolation=cv2.INTER_AREA)
    assert np.array_equal(smaller, expected.reshape(smaller.shape))


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_resized_boxes_resemble_those_of_pillow(kind, seed):
    data = encoded(picture(900, 1200), kind)
    box = crop_box(900, 1200, seed)
    top, left, height, width = box
    pixels = decode(data, box=box, size=96)
    image = Image.open(io.BytesIO(data)).convert("RGB")
    place = (left, top, left + width, top + height)
    expected = np.asarray(image.resize((96, 96), Image.Resampling.BOX, place))
    largest, mean = difference(pixels, expected)
    factor = next(factor for factor in (8, 4, 2, 1) if min(height, width) >= 96 * factor)
    if kind != "JPEG" or factor == 1:
        assert mean < 3
        assert largest < 20
        return
    # A reduced JPEG differs about as much where Pillow reduces and crops. The rounded edges of the
    # box, which Pillow does not round, add to the difference.
    reduced = Image.open(io.BytesIO(data))
    reduced.draft("RGB", (1200 // factor, 900 // factor))
    place = tuple(edge / factor for edge in place)
    by_draft = np.asarray(reduced.resize((96, 96), Image.Resampling.BOX, place))
    largest_of_draft, mean_of_draft = difference(by_draft, expected)
    assert mean < 1.6 * mean_of_draft + 1
    assert largest < 1.6 * largest_of_draft + 10


@pytest.mark.parametrize("kind", ["jpeg", "png", "webp"])
@pytest.mark.parametrize("size", [(60, 80), (300, 7), (1, 1), (400, 500), (120, 160)])
@pytest.mark.parametrize("mode", ["RGB", "L"])
@pytest.mark.parametrize("flip", [False, True])
def test_every_layout_of_the_result_has_the_same_pixels(kind, size, mode, flip):
    data, channels = kinds()[kind], 3 if mode == "RGB" else 1
    pixels = decode(data, mode=mode, size=size, flip=flip)
    if flip:
        assert np.array_equal(pixels, decode(data, mode=mode, size=size)[:, ::-1])
    rows = np.full((3, *size, channels), 7, np.uint8)
    assert decode(data, mode=mode, size=size, flip=flip, out=rows[1]) is not None
    planes = np.full((3, channels, *size), 7, np.uint8)
    view = planes[1].transpose(1, 2, 0)
    assert decode(data, mode=mode, size=size, flip=flip, out=view) is view
    odd = np.full((size[0], size[1] * 2, channels * 2), 7, np.uint8)
    decode(data, mode=mode, size=size, flip=flip, out=odd[:, ::2, ::2])
    for result in (rows[1], view, odd[:, ::2, ::2]):
        assert np.array_equal(result, pixels)
    for untouched in (rows[0], rows[2], planes[0], planes[2], odd[:, 1::2], odd[:, :, 1::2]):
        assert (untouched == 7).all()


def test_a_function_gives_the_box():
    data = encoded(picture(90, 200), "PNG")
    pixels = decode(data, box=lambda height, width: center_box(height, width, (1, 1)))
    assert np.array_equal(pixels, picture(90, 200)[:, 55:145])


@pytest.mark.parametrize("kind", KINDS)
def test_truncated_images(kind):
    data = kinds()[kind]
    for end in [len(data) * tenth // 10 for tenth in range(10)] + [len(data) - 12]:
        with pytest.raises(ValueError, match=r"^Expected "):
            decode(data[:end])


def outcome(data):
    """ "decoded", or the first word of the error."""
    try:
        pixels = decode(data, size=32)
    except ValueError as error:
        return str(error).partition(" ")[0]
    return "decoded" if pixels.shape == (32, 32, 3) else "another shape"


def test_damaged_images_have_the_size_of_their_header_or_an_error():
    random = np.random.default_rng(1)
    for kind in KINDS:
        for _ in range(20):
            damaged = bytearray(kinds()[kind])
            for at in random.integers(0, len(damaged), 5):
                damaged[at] = random.integers(256)
            assert outcome(damaged) in ("decoded", "Expected")


def test_the_message_of_an_image_that_opencv_cannot_decode():
    jpeg = kinds()["jpeg"]
    with pytest.raises(ValueError, match=r"^Expected a JPEG image, got 700 bytes that OpenCV"):
        decode(jpeg[:700])
    with pytest.raises(ValueError, match=r"got 900 bytes that .* can't decode: the image is trunc"):
        decode(kinds()["png"][:900])


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"mode": "RGBA"}, ValueError, r"Expected mode to be 'RGB' or 'L', got 'RGBA'$"),
        ({"size": "224"}, TypeError, r"Expected size as an int or \(height, width\), got '224'$"),
        ({"size": (224,)}, TypeError, r"Expected size as an int or \(height, width\)"),
        ({"size": 0}, ValueError, r"Expected height and width in \[1, 32767\] as size, got 0$"),
        ({"box": (0, 0, 121, 160)}, ValueError, r"within 120 x 160 pixels, got \(0, 0, 121, 160\)"),
        ({"box": (-1, 0, 10, 10)}, ValueError, r"Expected a box \(top, left, height, width\)"),
        ({"box": (0, 0, 0, 10)}, ValueError, r"Expected a box \(top, left, height, width\)"),
        ({"out": [1]}, TypeError, r"Expected out to be a NumPy array, got list$"),
        (
            {"out": np.zeros((1, 2, 3), np.uint8)},
            ValueError,
            r"uint8 \(120, 160, 3\), got uint8",
        ),
        ({"out": np.zeros((120, 160, 3))}, ValueError, r"got float64 \(120, 160, 3\)$"),
    ],
)
def test_arguments_that_do_not_fit(options, error, message):
    with pytest.raises(error, match=message):
        decode(kinds()["jpeg"], **options)


def test_a_result_that_may_not_be_written():
    out = np.zeros((120, 160, 3), np.uint8)
    out.flags.writeable = False
    with pytest.raises(ValueError, match=r"got uint8 \(120, 160, 3\), read-only$"):
        decode(kinds()["jpeg"], out=out)


def test_threads_decode_the_same_pixels():
    data = [encoded(picture(200, 210 + number), "JPEG") for number in range(8)]
    expected = [decode(each, size=64) for each in data]
    batch = np.zeros((4, 8, 3, 64, 64), np.uint8)

    def fill(thread):
        for number, each in enumerate(data):
            decode(each, size=64, out=batch[thread, number].transpose(1, 2, 0))

    threads = [threading.Thread(target=fill, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for rows in batch:
        assert np.array_equal(rows.transpose(0, 2, 3, 1), np.stack(expected))


@pytest.mark.skipif(sys.platform != "linux", reason="counts threads in /proc")
def test_opencv_starts_no_threads_for_a_result_of_256_pixels_squared():
    code = """
import os, sys
import cv2
from fastload.images import decode
data = sys.stdin.buffer.read()
before = len(os.listdir("/proc/self/task"))
decode(data, size=256), decode(data, box=(0, 0, 999, 999), size=256), decode(data, size=250)
assert len(os.listdir("/proc/self/task")) == before
"""
    data = encoded(picture(1500, 2000), "PNG")
    subprocess.run([sys.executable, "-c", code], input=data, check=True, env={**os.environ})


def test_the_error_without_opencv(monkeypatch):
    monkeypatch.setitem(sys.modules, "cv2", None)
    _opencv.cache_clear()
    with pytest.raises(
        ImportError, match=r"got none: install it by .pip install opencv-python-headless"
    ):
        decode(kinds()["jpeg"])
    monkeypatch.undo()
    _opencv.cache_clear()


def test_an_opencv_that_damaged_images_can_end(monkeypatch):
    monkeypatch.setattr(cv2, "__version__", "4.12.0")
    _opencv.cache_clear()
    with pytest.raises(ImportError, match=r"^Expected OpenCV from 5.0 on, got 4.12.0: install"):
        decode(kinds()["jpeg"])
    monkeypatch.undo()
    _opencv.cache_clear()
