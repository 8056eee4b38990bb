"""A batch of encoded images, decoded to a tensor on a device."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, overload

import numpy as np
import torch

from fastload.batch.ragged import Ragged
from fastload.images.gpu_decoder import decode_on_gpu
from fastload.images.row_decoder import RowDecoder
from fastload.runtime.cores import available_cores
from fastload.runtime.fork_gate import gate
from fastload.schema.image import Image

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Seeds = torch.Tensor | NDArray[np.integer] | Sequence[int]

__all__ = ["decode_on"]


@overload
def decode_on(
    device: torch.device | str,
    images: Ragged,
    size: int | tuple[int, int],
    *,
    seeds: Seeds | None = ...,
    crop: Literal["center", "random"] | None = ...,
    flip: bool = ...,
    mode: Literal["RGB", "L"] = ...,
    scale: tuple[float, float] = ...,
    ratio: tuple[float, float] = ...,
    broken: Literal["raise"] = ...,
) -> torch.Tensor: ...
@overload
def decode_on(
    device: torch.device | str,
    images: Ragged,
    size: int | tuple[int, int],
    *,
    seeds: Seeds | None = ...,
    crop: Literal["center", "random"] | None = ...,
    flip: bool = ...,
    mode: Literal["RGB", "L"] = ...,
    scale: tuple[float, float] = ...,
    ratio: tuple[float, float] = ...,
    broken: Literal["mask"],
) -> tuple[torch.Tensor, torch.Tensor]: ...
def decode_on(
    device: torch.device | str,
    images: Ragged,
    size: int | tuple[int, int],
    *,
    seeds: Seeds | None = None,
    crop: Literal["center", "random"] | None = "center",
    flip: bool = False,
    mode: Literal["RGB", "L"] = "RGB",
    scale: tuple[float, float] = (0.08, 1.0),
    ratio: tuple[float, float] = (3 / 4, 4 / 3),
    broken: Literal["raise", "mask"] = "raise",
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """Decode a batch of images to a tensor on a device, uint8 (B, channels, H, W).

    Example:
        for batch in FastParquetDataset("images", columns={"image": "image.bytes"}):
            pixels = fastload.images.decode_on("cuda", batch["image"], 224)

    A CUDA device decodes JPEGs by nvJPEG, then crops and resizes them by antialiased bilinear
    interpolation. This needs torchvision: `pip install torchvision`. `decode` decodes all other
    images, and those of other devices and of a torchvision without nvJPEG, on the CPU, on as many
    threads as there are cores.

    Both ways use the same boxes and flips. Where an image shrinks, their filters differ: pixels of
    photos by up to 5 of 255 on average, and more at sharp edges. nvJPEG may accept a damaged image.

    Args:
        device: the device of the result.
        images: the encoded images: the batch's output of a binary column.
        size: height and width of the result, or one number for both.
        seeds: one seed for each image, as for `crop_box` and `flips`: a tensor or array (B,) of
            integers, or ints. A function of `augment` gets such seeds, and can return them as an
            output: `{"seeds": torch.from_numpy(seeds)}`. Only random crops and flips need seeds.
        crop: as in `Image`.
        flip: as in `Image`.
        mode: as in `Image`.
        scale: as in `Image`.
        ratio: as in `Image`.
        broken: what becomes of bytes that are no whole image. "raise": an error. "mask": an image
            of zeros, and the result is a pair: the tensor, and a bool tensor (B,) on the device,
            False for such images.

    Raises:
        TypeError, ValueError: an argument has the wrong type or an invalid value; or an image can't
            be decoded, whose row in the batch the error names.
        ImportError: OpenCV is missing, or torchvision for a CUDA device.
    """
    spec = Image(
        "images", size, crop=crop, flip=flip, mode=mode, scale=scale, ratio=ratio, broken=broken
    )
    encoded, drawn = _encoded(images), _drawn(seeds, spec, len(images))
    decoder, target = RowDecoder(spec), torch.device(device)
    pixels = torch.zeros((len(encoded), *spec.shape), dtype=torch.uint8, device=target)
    rows, on_cpu = list(range(len(encoded))), pixels
    if target.type == "cuda":
        rows = decode_on_gpu(encoded, decoder, drawn, pixels)
    if target.type != "cpu":
        on_cpu = torch.zeros((len(rows), *spec.shape), dtype=torch.uint8)

    def is_decoded(row: int, part: torch.Tensor) -> bool:
        try:
            with gate:
                return decoder(encoded[row], part, drawn[row]) is not False
        except ValueError as error:
            raise ValueError(f"{error} - in row {row} of the batch") from error

    with ThreadPoolExecutor(available_cores()) as pool:
        valid = torch.ones(len(encoded), dtype=torch.bool)
        valid[rows] = torch.tensor([*pool.map(is_decoded, rows, on_cpu)], dtype=torch.bool)
    if on_cpu is not pixels:
        pixels[rows] = on_cpu.to(target)
    return pixels if broken == "raise" else (pixels, valid.to(target))


def _encoded(images: object) -> list[bytes]:
    """Return the images of a batch."""
    if not isinstance(images, Ragged):
        raise TypeError(f"Expected images as a Ragged of bytes, got {type(images).__name__}")
    values = images.values
    if not isinstance(values, torch.Tensor) or values.dtype != torch.uint8 or values.ndim != 1:
        raise TypeError(f"Expected images as a Ragged of bytes, got {images!r}")
    data = values.cpu().numpy()
    return [data[start:end].tobytes() for start, end in pairwise(images.offsets.tolist())]


def _drawn(seeds: Seeds | None, spec: Image, rows: int) -> Sequence[int]:
    """Return one seed for each image."""
    if seeds is None:
        if spec.random:
            raise ValueError("Expected seeds for random crops and flips, got None")
        return [0] * rows
    drawn: list[int] = (
        seeds.tolist() if isinstance(seeds, (torch.Tensor, np.ndarray)) else list(seeds)
    )
    if len(drawn) != rows or not all(isinstance(seed, int) for seed in drawn):
        raise ValueError(f"Expected {rows} ints as seeds, one for each image, got {seeds!r}")
    return drawn
