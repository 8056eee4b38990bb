"""decode_on equals a loop of `decode`; a GPU's part of the work comes close to the loop."""

import sys
from types import SimpleNamespace

import cv2
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image as PillowImage

from fastload import FastParquetDataset, Image, Ragged
from fastload.images import center_box, crop_box, decode, decode_on, flips, gpu_decoder
from fastload.images.gpu_decoder import decode_on_gpu, fitted
from fastload.images.header import read_header
from fastload.images.row_decoder import RowDecoder
from support.image_files import encoded, kinds, picture, with_orientation

IMAGES = list(kinds().values())
SEEDS = list(range(2**64 - len(IMAGES), 2**64))
CUDA = pytest.param("cuda", marks=pytest.mark.cuda)


def ragged(images):
    """A batch's output of a binary column."""
    values = torch.from_numpy(np.frombuffer(b"".join(images), np.uint8).copy())
    offsets = np.cumsum([0, *map(len, images)])
    return Ragged(values, torch.from_numpy(offsets), "bytes")


def in_a_loop(images, size, seeds, crop, flip, mode="RGB"):
    """The pixels of `decode`, uint8 (B, channels, H, W)."""

    def box(height, width, seed):
        if crop == "center":
            return center_box(height, width, size)
        return crop_box(height, width, seed) if crop else (0, 0, height, width)

    pixels = [
        decode(
            data,
            mode=mode,
            box=lambda h, w, seed=seed: box(h, w, seed),
            size=size,
            flip=flip and flips(seed),
        )
        for data, seed in zip(images, seeds, strict=True)
    ]
    return torch.from_numpy(np.stack(pixels)).permute(0, 3, 1, 2)


def smooth(height, width):
    """A picture without noise, whose details are no smaller than 1/12 of its sides."""
    return cv2.resize(picture(120, 120)[::10, ::10], (width, height), interpolation=cv2.INTER_CUBIC)


PHOTOS = [encoded(smooth(501, 803 - 40 * n), "JPEG", quality=90) for n in range(5)]
PHOTOS += [with_orientation("JPEG", orientation) for orientation in range(1, 9)]
PHOTO_SEEDS = list(range(len(PHOTOS)))


def mean_differences(one, other):
    """The mean difference of each two images, (B,)."""
    assert one.shape == other.shape
    return (one.int() - other).abs().float().mean((1, 2, 3))


@pytest.mark.parametrize("mode", ["RGB", "L"])
@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize("crop", ["center", "random", None])
def test_on_a_cpu_equals_a_loop_of_decode(crop, flip, mode):
    given = {"crop": crop, "flip": flip, "mode": mode}
    pixels = decode_on("cpu", ragged(IMAGES), (40, 50), seeds=SEEDS, **given)
    assert pixels.dtype == torch.uint8
    assert torch.equal(pixels, in_a_loop(IMAGES, (40, 50), SEEDS, **given))


def test_a_slice_of_a_ragged_and_no_images():
    pixels = decode_on("cpu", ragged(IMAGES)[3:9], 32)
    assert torch.equal(pixels, decode_on("cpu", ragged(IMAGES), 32)[3:9])
    assert decode_on("cpu", ragged(IMAGES)[:0], 32).shape == (0, 3, 32, 32)


def test_seeds_of_augment(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"image": IMAGES}), path)
    dataset = FastParquetDataset(
        path, augment=lambda batch, seeds: {"seeds": torch.from_numpy(seeds)}
    )
    batch = dataset.head(len(IMAGES))
    given = {"crop": "random", "flip": True}
    pixels = decode_on("cpu", batch["image"], 32, seeds=batch["seeds"], **given)
    assert torch.equal(pixels, in_a_loop(IMAGES, (32, 32), batch["seeds"].tolist(), **given))
    array = batch["seeds"].numpy()
    assert torch.equal(pixels, decode_on("cpu", batch["image"], 32, seeds=array, **given))


@pytest.mark.parametrize("device", ["cpu", CUDA])
def test_broken_images(device):
    images = [IMAGES[0], b"", IMAGES[0][:50], IMAGES[0]]
    with pytest.raises(ValueError, match=r"got 0 bytes - in row 1 of the batch$"):
        decode_on(device, ragged(images), 32)
    pixels, valid = decode_on(device, ragged(images), 32, broken="mask")
    assert valid.tolist() == [True, False, False, True]
    assert pixels.device == valid.device
    assert not pixels[1:3].any()
    assert torch.equal(pixels[[0, 3]], decode_on(device, ragged([images[0]] * 2), 32))


def test_wrong_arguments():
    with pytest.raises(TypeError, match=r"^Expected images as a Ragged of bytes, got list$"):
        decode_on("cpu", IMAGES, 32)
    numbers = Ragged(torch.zeros(3), torch.tensor([0, 3]))
    with pytest.raises(TypeError, match=r"^Expected images as a Ragged of bytes, got Ragged"):
        decode_on("cpu", numbers, 32)
    with pytest.raises(ValueError, match=r"^Expected seeds for random crops and flips, got None$"):
        decode_on("cpu", ragged(IMAGES), 32, flip=True)
    for seeds in ([1, 2], [1.5] * len(IMAGES)):
        with pytest.raises(ValueError, match=r"^Expected 22 ints as seeds, one for each image"):
            decode_on("cpu", ragged(IMAGES), 32, seeds=seeds)


@pytest.mark.parametrize("shape", [(120, 160), (501, 803), (1500, 2000)])
@pytest.mark.parametrize("seed", range(4))
def test_a_gpu_resizes_as_pillow_does_and_nearly_as_decode_does(shape, seed):
    data = encoded(smooth(*shape), "JPEG", quality=90)
    whole = torch.from_numpy(decode(data)).permute(2, 0, 1)
    for box in (center_box(*shape, (96, 128)), crop_box(*shape, seed), (10, 20, 60, 90)):
        part = fitted(whole, 1, box, (96, 128)).permute(1, 2, 0).numpy().astype(int)
        cut = PillowImage.fromarray(decode(data, box=box))
        assert np.abs(part - cut.resize((128, 96), PillowImage.Resampling.BILINEAR)).max() <= 1
        apart = np.abs(part - decode(data, box=box, size=(96, 128)))
        grows = box[2] <= 96 and box[3] <= 128
        assert apart.max() <= (2 if grows else 24)
        assert apart.mean() <= (0.5 if grows else 3)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_gpu_turns_images_upright(orientation):
    data = with_orientation("JPEG", orientation)
    stored = decode(encoded(picture(), "JPEG")).transpose(2, 0, 1)
    box = (5, 11, 70, 90)
    part = fitted(torch.from_numpy(stored), orientation, box, (70, 90))
    assert np.array_equal(part.permute(1, 2, 0), decode(data, box=box))


def test_cmyk_images_are_known():
    assert read_header(kinds()["jpeg cmyk"]).channels == 4
    assert read_header(kinds()["jpeg gray"]).channels == 1
    assert read_header(kinds()["jpeg progressive"]).channels == 3


@pytest.fixture
def torchvision(monkeypatch):
    """A torchvision whose decoder uses OpenCV; the list of the numbers of images of its calls.

    As torchvision does, it leaves pixels as stored, and refuses a call because of one image.
    """
    calls = []

    def decode_jpeg(images, mode, device):
        calls.append(len(images))
        decoded = [cv2.imdecode(image.numpy(), mode) for image in images]
        if any(pixels is None for pixels in decoded):
            raise RuntimeError("Error while decoding JPEG images")
        return [torch.from_numpy(np.atleast_3d(pixels)).permute(2, 0, 1) for pixels in decoded]

    rgb, gray = (
        flag | cv2.IMREAD_IGNORE_ORIENTATION
        for flag in (cv2.IMREAD_COLOR_RGB, cv2.IMREAD_GRAYSCALE)
    )
    io = SimpleNamespace(ImageReadMode=SimpleNamespace(RGB=rgb, GRAY=gray), decode_jpeg=decode_jpeg)
    monkeypatch.setitem(sys.modules, "torchvision", SimpleNamespace(io=io))
    monkeypatch.setitem(sys.modules, "torchvision.io", io)
    return calls


@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_a_gpu_decodes_jpegs_alone(torchvision, monkeypatch, mode):
    monkeypatch.setattr(gpu_decoder, "_PIXELS_AT_ONCE", 2 * 120 * 160)
    spec = Image("images", (120, 160), crop=None, flip=True, mode=mode)
    pixels = torch.zeros((len(IMAGES), *spec.shape), dtype=torch.uint8)
    left = decode_on_gpu(IMAGES, RowDecoder(spec), SEEDS, pixels)
    names = list(kinds())
    done = [
        row for row, name in enumerate(names) if name.startswith("jpeg") and name != "jpeg cmyk"
    ]
    assert left == [row for row in range(len(IMAGES)) if row not in done]
    assert torchvision == [2, 2, 1]
    looped = in_a_loop(IMAGES, (120, 160), SEEDS, crop=None, flip=True, mode=mode)
    assert torch.equal(pixels[done], looped[done])
    assert not pixels[left].any()


def test_images_of_a_refused_call_remain(torchvision):
    decoder = RowDecoder(Image("images", 32))
    pixels = torch.zeros((2, 3, 32, 32), dtype=torch.uint8)
    header = IMAGES[0].index(b"\xff\xda")
    damaged = IMAGES[0][: header + 2]
    assert decode_on_gpu([IMAGES[0], damaged], decoder, [0, 0], pixels) == [0, 1]


def test_torchvision_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "torchvision.io", None)
    pixels = torch.zeros((1, 3, 32, 32), dtype=torch.uint8)
    with pytest.raises(ImportError, match=r"install it by `pip install torchvision`$"):
        decode_on_gpu(IMAGES[:1], RowDecoder(Image("images", 32)), [0], pixels)


@pytest.mark.parametrize("crop", ["center", "random", None])
@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_boxes_flips_and_order_are_those_of_a_loop(torchvision, crop, mode):
    looped = in_a_loop(PHOTOS, (96, 96), PHOTO_SEEDS, crop=crop, flip=True, mode=mode)
    spec = Image("images", 96, crop=crop, flip=True, mode=mode)
    pixels = torch.zeros((len(PHOTOS), *spec.shape), dtype=torch.uint8)
    assert decode_on_gpu(PHOTOS, RowDecoder(spec), PHOTO_SEEDS, pixels) == []
    assert mean_differences(pixels, looped).max() <= 3


@pytest.mark.cuda
@pytest.mark.parametrize("crop", ["center", "random", None])
@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_on_a_gpu(crop, mode):
    images, seeds = [*PHOTOS, *IMAGES], [*PHOTO_SEEDS, *SEEDS]
    given = {"crop": crop, "flip": True, "mode": mode}
    pixels = decode_on("cuda", ragged(images).to("cuda"), 96, seeds=seeds, **given)
    assert pixels.is_cuda
    assert mean_differences(pixels.cpu(), in_a_loop(images, (96, 96), seeds, **given)).max() <= 5
