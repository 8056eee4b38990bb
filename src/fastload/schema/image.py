"""Image: the column spec of encoded images."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from fastload.runtime.hints import hinted
from fastload.schema.argument_checks import check_choice, check_int, check_name

__all__ = ["Image"]

# OpenCV's resize counts rows and columns in 16 bits.
_MOST_SIDE = 32_767
_SCALE = (0.08, 1.0)
_RATIO = (3 / 4, 4 / 3)


@hinted(
    shape="pass size=(height, width)",
    resize="pass size=",
    resolution="pass size=",
    channels='pass mode="RGB" or "L"',
    nulls='pass broken="mask"',
    valid='pass broken="mask", which adds the output <output>__valid',
    on_error='pass broken="raise" or "mask"',
)
@dataclass(frozen=True, slots=True)
class Image:
    """A column of encoded images as one uint8 tensor of shape (B, 3, H, W), values 0 to 255.

    fastload decodes JPEG, PNG, WebP and GIF images, upright as EXIF data say
    (`fastload.images.decode`), on threads, while you train on earlier batches. The threads are as
    many as the dataset's `threads`. Image needs OpenCV: `pip install opencv-python-headless`.

    Without random crops and flips, the images are decoded before `preprocess`, whose functions get
    the tensor, and `cache=` keeps the tensors. Random crops and flips come before `augment`: the
    functions of `preprocess` get a Ragged of the encoded images under the output's name, and
    `fastload.prepare` writes these. Each row draws from the dataset's seed, the epoch and the row
    alone; `head`, `take` and `by_index` draw as epoch 0 does.

    Example:
        columns = {"image": Image("image", 224, crop="random", flip=True), "label": "label"}
        ds = FastParquetDataset("images", columns=columns)
        next(iter(ds))["image"].shape  # (1024, 3, 224, 224)

    Args:
        name: name of a binary column in the files, or of a struct with a binary field `bytes`, as
            Hugging Face writes images.
        size: height and width of the tensor, as an int for both or as (height, width), each from
            1 to 32,767.
        crop: the part of each image that is resized to `size`. None: the whole image, whatever
            its proportions. "center": the largest part in the center with the proportions of
            `size`. "random": a part drawn by the rule of torchvision's RandomResizedCrop, a new
            one in each epoch.
        flip: mirror half of the images, left to right, a new half in each epoch.
        mode: "RGB" for three channels, "L" for one channel of luma.
        layout: "chw" for a tensor (B, channels, H, W), "hwc" for (B, H, W, channels).
        scale: the least and the largest share of the image's area that a random crop covers.
        ratio: the least and the largest width of a random crop divided by its height.
        broken: what becomes of nulls, whatever the dataset's `nulls` says, and of bytes that are
            no whole image. "raise": an error. "mask": an image of zeros, and the output
            `<output>__valid`, a bool tensor of shape (B,), is False for the row.

    Raises:
        TypeError, ValueError: an argument has the wrong type or an invalid value. While iterating,
            with broken="raise", a NullValueError for a null, and a RuntimeError that names the
            file and row of an image that cannot be decoded.
    """

    name: str
    size: int | tuple[int, int]
    crop: Literal["center", "random"] | None = field(default="center", kw_only=True)
    flip: bool = field(default=False, kw_only=True)
    mode: Literal["RGB", "L"] = field(default="RGB", kw_only=True)
    layout: Literal["chw", "hwc"] = field(default="chw", kw_only=True)
    scale: tuple[float, float] = field(default=_SCALE, kw_only=True)
    ratio: tuple[float, float] = field(default=_RATIO, kw_only=True)
    broken: Literal["raise", "mask"] = field(default="raise", kw_only=True)

    def __post_init__(self) -> None:
        check_name("Image", self.name)
        object.__setattr__(self, "size", _pair_of_sizes(self.size))
        check_choice("crop of Image", self.crop, (None, "center", "random"))
        if type(self.flip) is not bool:
            raise TypeError(f"Expected flip of Image to be a bool, got {self.flip!r}")
        check_choice("mode of Image", self.mode, ("RGB", "L"))
        check_choice("layout of Image", self.layout, ("chw", "hwc"))
        check_choice("broken of Image", self.broken, ("raise", "mask"))
        object.__setattr__(self, "scale", _range("scale", self.scale))
        object.__setattr__(self, "ratio", _range("ratio", self.ratio))
        if self.scale[1] > 1:
            raise ValueError(
                f"Expected scale of Image as shares of an image, up to 1, got {self.scale}"
            )
        if self.crop != "random" and (self.scale, self.ratio) != (_SCALE, _RATIO):
            raise ValueError(
                f'Expected crop="random" of Image beside scale or ratio, got {self.crop!r}'
            )

    @property
    def sides(self) -> tuple[int, int]:
        """Height and width of the tensor."""
        assert isinstance(self.size, tuple), "Image checks its size"
        return self.size

    @property
    def shape(self) -> tuple[int, int, int]:
        """Shape of a row of the tensor."""
        channels = 3 if self.mode == "RGB" else 1
        height, width = self.sides
        return (channels, height, width) if self.layout == "chw" else (height, width, channels)

    @property
    def random(self) -> bool:
        """True if the pixels differ from epoch to epoch."""
        return self.crop == "random" or self.flip


def _pair_of_sizes(size: object) -> tuple[int, int]:
    """Return height and width."""
    pair = (size, size) if type(size) is int else size
    if not isinstance(pair, (tuple, list)) or [*map(type, pair)] != [int, int]:
        raise TypeError(f"Expected size of Image as an int or (height, width), got {size!r}")
    for side in pair:
        check_int("size of Image", side, 1, _MOST_SIDE)
    return (pair[0], pair[1])


def _range(name: str, given: object) -> tuple[float, float]:
    """Return the least and the largest value of `scale` or `ratio`."""
    if not isinstance(given, (tuple, list)) or not {*map(type, given)} <= {int, float}:
        raise TypeError(f"Expected {name} of Image as (least, largest), got {given!r}")
    if len(given) != 2 or not 0 < given[0] <= given[1] < float("inf"):
        raise ValueError(
            f"Expected {name} of Image as (least, largest), above 0, in this order, got {given!r}"
        )
    return (float(given[0]), float(given[1]))
