"""The part of an image to use: in its center, or drawn from a seed.

Boxes are drawn as torchvision's RandomResizedCrop draws them, from the stream of SplitMix64 that
the seed names (`fastload.plan.permutation`). Number 0 of the stream says whether to flip. Attempt
k of a box takes the four numbers from 1 + 4 * k on: area, ratio, top and left.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from fastload.plan.permutation import stream_value

__all__ = ["Box", "center_box", "crop_box", "flips"]

_ATTEMPTS = 10


class Box(NamedTuple):
    """A part of an image, in pixels of the upright image.

    Attributes:
        top: number of rows above the box.
        left: number of columns to the left of the box.
        height: number of rows of the box.
        width: number of columns of the box.
    """

    top: int
    left: int
    height: int
    width: int


def crop_box(
    height: int,
    width: int,
    seed: int,
    *,
    scale: tuple[float, float] = (0.08, 1.0),
    ratio: tuple[float, float] = (3 / 4, 4 / 3),
) -> Box:
    """Return the box that a seed draws, by the rule of torchvision's RandomResizedCrop.

    The box covers a share of the image's area drawn from `scale`, and its width divided by its
    height is drawn from `ratio`, uniform on a logarithmic scale. If ten such boxes don't fit the
    image, the result is the largest box in the center whose ratio lies in `ratio`.

    Args:
        height: height of the upright image.
        width: width of the upright image.
        seed: seed of the row, an int modulo 2**64. The same seed gives the same box.
        scale: the least and the largest share of the area.
        ratio: the least and the largest ratio.
    """
    for attempt in range(_ATTEMPTS):
        number = 1 + 4 * attempt
        area = height * width * _between(_uniform(seed, number), *scale)
        aspect = math.exp(_between(_uniform(seed, number + 1), *map(math.log, ratio)))
        columns = round(math.sqrt(area * aspect))
        rows = round(math.sqrt(area / aspect))
        if 0 < columns <= width and 0 < rows <= height:
            top = _below(seed, number + 2, height - rows + 1)
            left = _below(seed, number + 3, width - columns + 1)
            return Box(top, left, rows, columns)
    columns, rows = width, height
    if width / height < min(ratio):
        rows = round(width / min(ratio))
    elif width / height > max(ratio):
        columns = round(height * max(ratio))
    # A strip one pixel wide may round to nothing, and a ratio of almost 1 to more than all.
    rows, columns = min(max(rows, 1), height), min(max(columns, 1), width)
    return Box((height - rows) // 2, (width - columns) // 2, rows, columns)


def center_box(height: int, width: int, size: tuple[int, int]) -> Box:
    """Return the largest box in the center of an image that has the proportions of `size`.

    Resized to `size`, the box holds what is left by torchvision's Resize, which makes the shorter
    side fit, and CenterCrop.

    Args:
        height: height of the upright image.
        width: width of the upright image.
        size: height and width of the result.
    """
    rows, columns = height, width
    if height * size[1] < width * size[0]:
        columns = max(1, round(height * size[1] / size[0]))
    else:
        rows = max(1, round(width * size[0] / size[1]))
    return Box(round((height - rows) / 2), round((width - columns) / 2), rows, columns)


def flips(seed: int) -> bool:
    """Return whether a seed says to flip the image; half of all seeds do.

    The answer is independent of the box that `crop_box` draws from the same seed.
    """
    return bool(stream_value(seed, 0) >> 63)


def _uniform(seed: int, number: int) -> float:
    """Return number `number` of the stream as a float in [0, 1)."""
    return (stream_value(seed, number) >> 11) * 2.0**-53


def _between(share: float, low: float, high: float) -> float:
    return low + (high - low) * share


def _below(seed: int, number: int, bound: int) -> int:
    return stream_value(seed, number) * bound >> 64
