"""JPEGs decoded by nvJPEG, the decoder of NVIDIA's GPUs, then cropped and resized by the GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.nn.functional import interpolate

from fastload.images.boxes import flips
from fastload.images.header import Header, read_header

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fastload.images.row_decoder import RowDecoder

__all__ = ["decode_on_gpu", "fitted"]

# About 200 MB. A larger image is decoded alone.
_PIXELS_AT_ONCE = 1 << 26
# Of a CMYK image, nvJPEG's result is not specified.
_CMYK_CHANNELS = 4


def decode_on_gpu(
    encoded: Sequence[bytes], decoder: RowDecoder, seeds: Sequence[int], pixels: torch.Tensor
) -> list[int]:
    """Decode the images that nvJPEG accepts.

    Args:
        encoded: the images.
        decoder: the decoder of the images on the CPU, which chooses the boxes.
        seeds: one seed for each image.
        pixels: where the pixels go, uint8 (B, channels, H, W), on the GPU.

    Returns:
        The rows of the images that remain to be decoded, ascending.

    Raises:
        ImportError: torchvision is not installed.
    """
    try:
        from torchvision.io import ImageReadMode, decode_jpeg
    except ModuleNotFoundError as error:
        raise ImportError(
            f"Expected torchvision to decode images on {pixels.device}, got none: install it by "
            "`pip install torchvision`"
        ) from error
    image = decoder.image
    mode = ImageReadMode.RGB if image.mode == "RGB" else ImageReadMode.GRAY
    headers = {row: header for row, data in enumerate(encoded) if (header := _jpeg(data))}
    left = set(range(len(encoded))) - headers.keys()
    for rows in _at_once(headers):
        given = [torch.frombuffer(bytearray(encoded[row]), dtype=torch.uint8) for row in rows]
        if pixels.is_cuda:
            # nvJPEG's stream doesn't wait for kernels that still use the memory it writes to.
            torch.cuda.current_stream(pixels.device).synchronize()
        try:
            with torch.cuda.device(pixels.get_device()):
                decoded = decode_jpeg(given, mode=mode, device=pixels.device)
        except torch.cuda.OutOfMemoryError:
            raise
        except RuntimeError:  # because of one of the images, or because nvJPEG is missing
            left.update(rows)
            continue
        for row, stored in zip(rows, decoded, strict=True):
            header, seed = headers[row], seeds[row]
            if stored.shape[1:] != (header.height, header.width):
                left.add(row)
                continue
            box = decoder.box(seed, *header.upright)
            part = fitted(stored, header.orientation, box, image.sides)
            pixels[row] = part.flip(2) if image.flip and flips(seed) else part
    return sorted(left)


def fitted(
    stored: torch.Tensor, orientation: int, box: tuple[int, int, int, int], size: tuple[int, int]
) -> torch.Tensor:
    """Return a part of the upright image, resized; uint8 (channels, height, width).

    Args:
        stored: the pixels that the file stores, uint8 (channels, height, width).
        orientation: their orientation in EXIF's numbers.
        box: the part as (top, left, height, width) of the upright image.
        size: height and width of the result.
    """
    upright = stored.transpose(1, 2) if orientation > 4 else stored
    mirrored = [2] * (orientation in (2, 3, 6, 7)) + [1] * (orientation in (3, 4, 7, 8))
    if mirrored:
        upright = upright.flip(mirrored)
    top, left, height, width = box
    part = upright[:, top : top + height, left : left + width]
    if (height, width) == size:
        return part
    resized = interpolate(part[None].float(), size, mode="bilinear", antialias=True)[0]
    return resized.round().clamp(0, 255).to(torch.uint8)


def _jpeg(data: bytes) -> Header | None:
    """Return the header of a JPEG; None for another image, and for one in CMYK."""
    try:
        header = read_header(data)
    except ValueError:
        return None
    return header if header.kind == "JPEG" and header.channels < _CMYK_CHANNELS else None


def _at_once(headers: dict[int, Header]) -> Iterator[list[int]]:
    """Yield the rows to decode at once."""
    rows: list[int] = []
    held = 0
    for row, header in headers.items():
        pixels = header.height * header.width
        if rows and held + pixels > _PIXELS_AT_ONCE:
            yield rows
            rows, held = [], 0
        rows.append(row)
        held += pixels
    if rows:
        yield rows
