"""Decodes the images of an `Image` column, each into its part of a batch."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from functools import partial
from typing import TYPE_CHECKING

from fastload.images.boxes import center_box, crop_box, flips
from fastload.images.pixels import decode, opencv_version
from fastload.runtime.digest import digest

if TYPE_CHECKING:
    import torch

    from fastload.schema.image import Image

__all__ = ["RowDecoder"]


@dataclass(frozen=True, slots=True)
class RowDecoder:
    """The function of an `ImageStep`.

    Args:
        image: the column spec.
    """

    image: Image

    def __call__(self, data: bytes, target: torch.Tensor, seed: int = 0) -> bool | tuple[()]:
        """Decode an image.

        Args:
            data: the encoded image.
            target: the row's part of the batch, which gets the pixels, uint8 with the spec's shape.
            seed: the row's seed.

        Returns:
            Whether the image was decoded; () if the spec has no mask.

        Raises:
            ValueError: the image cannot be decoded, and the spec has no mask.
        """
        image = self.image
        pixels = target.numpy()
        if image.layout == "chw":
            pixels = pixels.transpose(1, 2, 0)
        flip = image.flip and flips(seed)
        box = partial(self.box, seed)
        try:
            decode(data, mode=image.mode, box=box, size=image.sides, flip=flip, out=pixels)
        except ValueError:
            if image.broken == "raise":
                raise
            target.zero_()
            return False
        return True if image.broken == "mask" else ()

    def code_digest(self) -> str:
        """Return a digest of all that decides the pixels but the encoded image."""
        return digest(repr(astuple(self.image)), opencv_version())

    def box(self, seed: int, height: int, width: int) -> tuple[int, int, int, int]:
        """Return the part to use of an upright image, as (top, left, height, width)."""
        image = self.image
        if image.crop == "random":
            return crop_box(height, width, seed, scale=image.scale, ratio=image.ratio)
        if image.crop == "center":
            return center_box(height, width, image.sides)
        return (0, 0, height, width)
