"""Pixels of encoded images, by OpenCV, whose C++ code releases the GIL.

OpenCV resizes a result of up to 65,536 pixels on the thread that calls it, and a larger one on its
own threads too. fastload does not call `cv2.setNumThreads`: the call ends the process with a
segmentation fault if OpenCV's threads were started before the process was forked.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from fastload.images.boxes import Box
from fastload.images.header import Header, read_header

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray
    from typing_extensions import Buffer

    Pixels = NDArray[np.uint8]

__all__ = ["decode", "opencv_version", "sizes"]

_CHANNELS = {"RGB": 3, "L": 1}
# libjpeg decodes an image at these parts of its size, at less cost.
_FACTORS = (8, 4, 2)
_LEAST_OPENCV = 5
_MOST_SIDE = 32_767  # OpenCV's resize counts rows and columns in 16 bits


def sizes(data: Buffer) -> tuple[int, int]:
    """Return the height and width of an encoded image, from the first bytes of the image alone.

    Example:
        photo = batch["image.bytes"][0]
        height, width = fastload.images.sizes(photo)

    The size is that of the upright image, as `decode` returns it.

    Args:
        data: a JPEG, PNG, GIF or WebP image, as bytes or another buffer.

    Raises:
        TypeError: `data` is no buffer.
        ValueError: the bytes are no such image, or the image has more than 178,956,970 pixels.
    """
    return read_header(_bytes_of(data)).upright


def decode(
    data: Buffer,
    *,
    mode: Literal["RGB", "L"] = "RGB",
    box: tuple[int, int, int, int] | Callable[[int, int], tuple[int, int, int, int]] | None = None,
    size: int | tuple[int, int] | None = None,
    flip: bool = False,
    out: NDArray[np.uint8] | None = None,
) -> NDArray[np.uint8]:
    """Decode an image, or a part of it, resized; uint8 (height, width, channels).

    Example:
        photo = batch["image.bytes"][0]
        box = fastload.images.center_box(*fastload.images.sizes(photo), (224, 224))
        pixels = fastload.images.decode(photo, box=box, size=224)  # uint8 (224, 224, 3)

    The image is upright: `decode` applies the orientation that EXIF data of a JPEG, PNG or WebP
    image say, as PIL.ImageOps.exif_transpose does. Of an animation `decode` returns the first
    frame. Alpha is dropped, as PIL's `convert("RGB")` drops it. Of 16 bits per channel the upper
    8 remain.

    A JPEG image is decoded at 1/2, 1/4 or 1/8 of its size if the reduced box still has at least
    `size` pixels per side; the edges of the box are then rounded to reduced pixels. If the box
    shrinks, each pixel of the result is the mean of the pixels that it covers (OpenCV's
    INTER_AREA). Otherwise OpenCV interpolates linearly.

    Args:
        data: a JPEG, PNG, WebP or GIF image, as bytes or another buffer.
        mode: "RGB" for three channels in this order, "L" for one channel of luma.
        box: the part to return as (top, left, height, width), in pixels of the upright image, or a
            function that takes the image's height and width and returns the part; None = all.
        size: height and width of the result, or one number for both; None = those of the box.
        flip: mirror the result, left to right.
        out: the array to write to, uint8 (height, width, channels), with any strides. A view
            `batch[i].transpose(1, 2, 0)` of an array (B, channels, height, width) puts the
            channels first.

    Returns:
        `out`, or a new array.

    Raises:
        TypeError: an argument has the wrong type.
        ValueError: `data` is no image, is truncated or damaged, or has more than 178,956,970
            pixels; or an argument does not fit.
        ImportError: OpenCV is not installed, or older than 5.0.
    """
    cv2 = _opencv()
    if mode not in _CHANNELS:
        raise ValueError(f"Expected mode to be 'RGB' or 'L', got {mode!r}")
    encoded = _bytes_of(data)
    header = read_header(encoded)
    part = _part(box, *header.upright)
    shape = (part.height, part.width) if size is None else _pair(size)
    if out is not None:
        _check_out(out, (*shape, _CHANNELS[mode]))
    factor = _factor(header, part, shape)
    pixels = _cut(_decoded(cv2, encoded, header, mode, factor), header, part, factor)
    return _fitted(cv2, pixels, shape, flip=flip, out=out)


def _decoded(cv2: Any, data: bytes, header: Header, mode: str, factor: int) -> Pixels:
    """Return the pixels that the file stores, reduced; (height, width, 3), or (height, width)."""
    flags = cv2.IMREAD_IGNORE_ORIENTATION | (cv2.IMREAD_COLOR_RGB if mode == "RGB" else 0)
    if factor > 1:
        flags |= getattr(cv2, f"IMREAD_REDUCED_GRAYSCALE_{factor}")
    pixels, reason = None, ""
    if not _is_whole(data, header):
        reason = ": the image is truncated"
    else:
        try:
            pixels = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
        except cv2.error as error:
            reason = f": {error.err or error}"
    if pixels is None:
        raise ValueError(
            f"Expected a {header.kind} image, got {len(data)} bytes that OpenCV "
            f"{cv2.__version__} can't decode{reason}"
        )
    expected = (-(-header.height // factor), -(-header.width // factor))
    if pixels.shape[:2] != expected:
        raise ValueError(
            f"Expected {expected[0]} x {expected[1]} pixels, as the header of the {header.kind} "
            f"image says, got {pixels.shape[0]} x {pixels.shape[1]}"
        )
    decoded: Pixels = pixels
    return decoded


def _is_whole(data: bytes, header: Header) -> bool:
    """Return whether the data may reach to the end of the image.

    OpenCV accepts truncated animations in PNG, and prints a line for other truncated images.
    """
    if header.kind == "PNG":
        return data.rfind(b"IEND") > 0
    if header.kind == "WebP":
        return len(data) >= 8 + int.from_bytes(data[4:8], "little")
    return True


def _factor(header: Header, part: Box, shape: tuple[int, int]) -> int:
    """Return by what the JPEG decoder may divide the size, so that enough pixels are left."""
    if header.kind == "JPEG":
        for factor in _FACTORS:
            if part.height >= shape[0] * factor and part.width >= shape[1] * factor:
                return factor
    return 1


def _cut(stored: Pixels, header: Header, part: Box, factor: int) -> Pixels:
    """Return the part of the upright image: a view of the stored pixels where these are upright.

    Pixel i of a reduced image covers the pixels from i * factor on, so edges are divided by
    `factor`, and rounded.
    """
    half = factor // 2
    top, left = (part.top + half) // factor, (part.left + half) // factor
    bottom = (part.top + part.height + half) // factor
    right = (part.left + part.width + half) // factor
    cut = _upright(stored, header.orientation)[top:bottom, left:right]
    # OpenCV takes no pixels that are turned or mirrored by strides.
    return cut if header.orientation == 1 else np.ascontiguousarray(cut)


def _upright(stored: Pixels, orientation: int) -> Pixels:
    """Return a view of the pixels with EXIF's orientation applied."""
    if orientation > 4:
        stored = stored.swapaxes(0, 1)
    if orientation in (2, 3, 6, 7):
        stored = stored[:, ::-1]
    return stored[::-1] if orientation in (3, 4, 7, 8) else stored


def _fitted(
    cv2: Any, pixels: Pixels, shape: tuple[int, int], *, flip: bool, out: Pixels | None
) -> Pixels:
    """Resize and flip pixels, and write them to `out`, or to a new array."""
    channels = 3 if pixels.ndim == 3 else 1
    if out is None:
        if pixels.shape[:2] == shape and not flip:
            return np.ascontiguousarray(pixels).reshape(*shape, channels)
        out = np.empty((*shape, channels), np.uint8)
    # OpenCV writes to packed arrays, and knows images of one channel as arrays (H, W).
    goal = out if channels > 1 else out[..., 0]
    target = goal if _is_packed(goal) else None
    if pixels.shape[:2] != shape:
        shrinks = pixels.shape[0] >= shape[0] and pixels.shape[1] >= shape[1]
        method = cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR
        pixels = cv2.resize(pixels, shape[::-1], dst=None if flip else target, interpolation=method)
    if flip:
        pixels = cv2.flip(pixels, 1, dst=target)
    if pixels is target:
        return out
    planes = [out[..., channel] for channel in range(channels)]
    if channels > 1 and all(map(_is_packed, planes)):
        # Faster than NumPy, which copies byte by byte.
        cv2.mixChannels([pixels], planes, [0, 0, 1, 1, 2, 2])
    else:
        np.copyto(goal, pixels)
    return out


def _is_packed(array: Pixels) -> bool:
    """Return whether an array has the strides of a new array of its shape.

    NumPy calls an array contiguous whatever the strides of its dimensions of size 1.
    """
    stride = array.itemsize
    for size, given in zip(reversed(array.shape), reversed(array.strides), strict=True):
        if given != stride:
            return False
        stride *= size
    return True


def _part(box: Any, height: int, width: int) -> Box:
    given = box(height, width) if callable(box) else box
    if given is None:
        return Box(0, 0, height, width)
    part = Box(*given)
    inside = (part.top >= 0 and part.left >= 0 and part.height >= 1 and part.width >= 1) and (
        part.top + part.height <= height and part.left + part.width <= width
    )
    if not inside:
        raise ValueError(
            f"Expected a box (top, left, height, width) within {height} x {width} pixels, got "
            f"{tuple(part)}"
        )
    return part


def _pair(size: Any) -> tuple[int, int]:
    pair = (size, size) if isinstance(size, int) else size
    if not isinstance(pair, tuple) or not [*map(type, pair)] == [int, int]:
        raise TypeError(f"Expected size as an int or (height, width), got {size!r}")
    height, width = pair
    if not (1 <= height <= _MOST_SIDE and 1 <= width <= _MOST_SIDE):
        raise ValueError(f"Expected height and width in [1, {_MOST_SIDE}] as size, got {size!r}")
    return height, width


def _check_out(out: object, shape: tuple[int, int, int]) -> None:
    if not isinstance(out, np.ndarray):
        raise TypeError(f"Expected out to be a NumPy array, got {type(out).__name__}")
    if out.dtype != np.uint8 or out.shape != shape or not out.flags.writeable:
        raise ValueError(
            f"Expected out to be a writeable array of uint8 {shape}, got {out.dtype} {out.shape}"
            f"{'' if out.flags.writeable else ', read-only'}"
        )


def _bytes_of(data: object) -> bytes:
    if isinstance(data, bytes):
        return data
    try:
        return bytes(memoryview(data))  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"Expected an image as bytes, got {type(data).__name__}") from None


def opencv_version() -> str:
    """Return the version of OpenCV.

    Raises:
        ImportError: OpenCV is not installed, or older than 5.0.
    """
    return str(_opencv().__version__)


@functools.cache
def _opencv() -> Any:
    """Return the module of OpenCV.

    Raises:
        ImportError: OpenCV is not installed, or so old that damaged images may end the process.
    """
    advice = "install it by `pip install opencv-python-headless`"
    try:
        import cv2
    except ModuleNotFoundError as error:
        raise ImportError(f"Expected OpenCV (cv2) to decode images, got none: {advice}") from error
    if int(cv2.__version__.partition(".")[0]) < _LEAST_OPENCV:
        raise ImportError(
            f"Expected OpenCV from {_LEAST_OPENCV}.0 on, got {cv2.__version__}: {advice}"
        )
    return cv2
