"""Encoded images: their sizes, the part of an image to use, and its pixels in an array or a tensor.

`decode` and `decode_on` need OpenCV: `pip install opencv-python-headless`. The other functions need
no library.
"""

from fastload.images.boxes import Box, center_box, crop_box, flips
from fastload.images.on_device import decode_on
from fastload.images.pixels import decode, sizes

__all__ = ["Box", "center_box", "crop_box", "decode", "decode_on", "flips", "sizes"]
