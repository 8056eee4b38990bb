"""The steps that decode the images of `Image` columns, row by row, on threads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from typing_extensions import override

from fastload.schema.columns import column_name
from fastload.schema.fields import Field
from fastload.schema.image import Image
from fastload.steps.per_row import PerRow

if TYPE_CHECKING:
    from fastload.schema.packs import Pack

__all__ = ["ImageStep", "image_steps"]

# The functions of `augment` have the numbers from 0 on.
_FIRST_NUMBER = 1 << 32


@dataclass(frozen=True, slots=True)
class ImageStep(PerRow):
    """A step that replaces the encoded images of an output by their pixels.

    Attributes:
        image: the column spec.
        number: the number that takes the place of an index in `augment` in the seeds of rows.
    """

    image: Image
    number: int

    @property
    @override
    def label(self) -> str:
        return f"Image `{self.inputs[0]}`"

    @property
    def field(self) -> Field:
        """Field of the output with the pixels."""
        return Field(torch.uint8, self.image.shape)

    def targets(self, rows: int) -> dict[str, torch.Tensor]:
        """Return a new tensor for the pixels of some rows, by output.

        The step's function takes the row's part of the tensor after the input, and fills the part.
        """
        shape = (rows, *self.image.shape)
        return {self.inputs[0]: torch.empty(shape, dtype=torch.uint8, device="cpu")}


def image_steps(columns: object, threads: int | None, pack: Pack | None) -> list[ImageStep]:
    """Return the steps that decode the images of a dataset.

    Args:
        columns: as for the dataset.
        threads: as for the dataset.
        pack: as for the dataset.

    Raises:
        ValueError: images stand beside `pack`.
        ImportError: OpenCV is not installed, or older than 5.0.
    """
    named: Sequence[tuple[str, object]] = ()
    if isinstance(columns, Mapping):
        named = list(columns.items())
    elif isinstance(columns, (list, tuple)):
        named = [(column_name(each), each) for each in columns if isinstance(each, Image)]
    images = [(output, spec) for output, spec in named if isinstance(spec, Image)]
    if images and pack is not None:
        raise ValueError(
            f"Expected no Image beside pack, got one for `{images[0][0]}`: a packed row has no "
            "place for images. Read them by another dataset"
        )
    return [
        _step(output, spec, _FIRST_NUMBER + index, threads)
        for index, (output, spec) in enumerate(images)
    ]


def _step(output: str, spec: Image, number: int, threads: int | None) -> ImageStep:
    # Not at the top, because most datasets decode no images.
    from fastload.images.pixels import opencv_version
    from fastload.images.row_decoder import RowDecoder

    opencv_version()  # raises if OpenCV is missing
    masks = (f"{output}__valid",) if spec.broken == "mask" else ()
    return ImageStep(
        RowDecoder(spec), (output,), masks, (None,) * len(masks), threads, spec.random, spec, number
    )
