"""Encoded images of every kind that Pillow and OpenCV write."""

import functools
import io

import cv2
import numpy as np
from PIL import Image

ORIENTATION = 0x0112


@functools.cache
def picture(height=120, width=160):
    """Smooth colours with some noise, uint8 (height, width, 3)."""
    random = np.random.default_rng(height * 10_000 + width)
    coarse = random.integers(0, 256, (height // 10 + 2, width // 10 + 2, 3), dtype=np.uint8)
    smooth = cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC)
    noisy = smooth.astype(int) + random.integers(-9, 10, smooth.shape)
    return np.clip(noisy, 0, 255).astype(np.uint8)


def encoded(image, kind, **options):
    """The bytes of an image of Pillow, or of an array, in a format of Pillow."""
    stream = io.BytesIO()
    image = image if isinstance(image, Image.Image) else Image.fromarray(image)
    image.save(stream, kind, **options)
    return stream.getvalue()


def with_orientation(kind, orientation, **options):
    """The picture in a format, with EXIF data that say an orientation."""
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    return encoded(picture(), kind, exif=exif, **options)


def by_pillow(data, mode="RGB"):
    """The pixels that Pillow decodes, (height, width, channels)."""
    pixels = np.asarray(Image.open(io.BytesIO(data)).convert(mode))
    return pixels if pixels.ndim == 3 else pixels[..., None]


@functools.cache
def kinds():
    """Name of the kind -> bytes."""
    pixels = picture()
    rgb = Image.fromarray(pixels)
    alpha = np.dstack([pixels, np.full(pixels.shape[:2], 255, np.uint8)])
    alpha[:40, :, 3], alpha[40:80, :, 3] = 0, 128
    rgba, palette, turned = Image.fromarray(alpha), rgb.quantize(32), rgb.rotate(180)
    deep = pixels.astype(np.uint16) * 257 // 2
    return {
        "jpeg": encoded(rgb, "JPEG"),
        "jpeg progressive": encoded(rgb, "JPEG", progressive=True),
        "jpeg 4:4:4": encoded(rgb, "JPEG", subsampling=0),
        "jpeg gray": encoded(rgb.convert("L"), "JPEG"),
        "jpeg cmyk": encoded(rgb.convert("CMYK"), "JPEG"),
        "jpeg of opencv": cv2.imencode(".jpg", pixels)[1].tobytes(),
        "png": encoded(rgb, "PNG"),
        "png gray": encoded(rgb.convert("L"), "PNG"),
        "png alpha": encoded(rgba, "PNG"),
        "png gray alpha": encoded(rgba.convert("LA"), "PNG"),
        "png palette": encoded(palette, "PNG"),
        "png palette transparent": encoded(palette, "PNG", transparency=3),
        "png 1 bit": encoded(rgb.convert("1"), "PNG"),
        "png 16 bit": cv2.imencode(".png", deep)[1].tobytes(),
        "png 16 bit gray": cv2.imencode(".png", deep[..., 0])[1].tobytes(),
        "png animated": encoded(rgb, "PNG", save_all=True, append_images=[turned]),
        "webp": encoded(rgb, "WEBP"),
        "webp lossless": encoded(rgb, "WEBP", lossless=True),
        "webp alpha": encoded(rgba, "WEBP", lossless=True, exact=True),
        "webp animated": encoded(rgb, "WEBP", save_all=True, append_images=[turned], lossless=True),
        "gif": encoded(palette, "GIF"),
        "gif animated": encoded(palette, "GIF", save_all=True, append_images=[turned.quantize(32)]),
    }
