"""Ways to decode the images of `bench_images.py`, and the files with the images."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch.utils.data import DataLoader

from fastload import FastParquetDataset, Fixed, Image, per_row
from fastload.images import center_box, crop_box, decode, flips
from fastload.plan.permutation import stream_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

CROPPED = {"image": Image("image", 224, crop="random", flip=True)}
_SIDE = 224
_BATCH_ROWS = 64
_WORKERS = 2


def photo(rng: np.random.Generator, height: int, width: int) -> bytes:
    """Make a JPEG of smooth shapes and some noise."""
    coarse = rng.integers(0, 256, (height // 40 + 2, width // 40 + 2, 3), np.uint8)
    pixels = cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC)
    noise = rng.integers(0, 24, pixels.shape, np.uint8)
    return bytes(cv2.imencode(".jpg", cv2.add(pixels, noise), [cv2.IMWRITE_JPEG_QUALITY, 90])[1])


def write_files(home: Path, count: int) -> None:
    """Write the images, the large ones alone, and the pixels of the large ones."""
    rng = np.random.default_rng(1)
    small = [photo(rng, *rng.integers(300, 501, 2).tolist()) for _ in range(count - count // 4)]
    large = [photo(rng, 1500, 2000) for _ in range(count // 4)]
    mixed = [(*small, *large)[k] for k in rng.permutation(count)]
    pixels = np.stack(
        [decode(data, box=large_box, size=_SIDE).transpose(2, 0, 1) for data in large]
    )
    lists = pa.FixedSizeListArray.from_arrays(pa.array(pixels.reshape(-1)), pixels[0].size)
    for name, images in (("mixed", mixed), ("large", large)):
        pq.write_table(pa.table({"image": images}), home / f"{name}.parquet", row_group_size=256)
    pq.write_table(pa.table({"image": lists}), home / "pixels.parquet", row_group_size=64)


def large_box(height: int, width: int) -> tuple[int, int, int, int]:
    """Return the box of a center crop."""
    return center_box(height, width, (_SIDE, _SIDE))


def cropped(data: bytes, seed: int) -> np.ndarray[Any, Any]:
    """Decode an image as `Image` does, by the row's seed."""
    box = lambda height, width: crop_box(height, width, seed)  # noqa: E731
    return decode(data, box=box, size=_SIDE, flip=flips(seed))


def at_full_size(data: bytes) -> torch.Tensor:
    """Decode a whole image by OpenCV, then crop and resize it."""
    whole: Any = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR_RGB)
    top, left, height, width = large_box(whole.shape[0], whole.shape[1])
    part = whole[top : top + height, left : left + width]
    resized = cv2.resize(part, (_SIDE, _SIDE), interpolation=cv2.INTER_AREA)
    return torch.from_numpy(resized).permute(2, 0, 1)


def stored(home: Path, name: str = "mixed") -> list[bytes]:
    """Return the images of a file."""
    column: list[bytes] = pq.read_table(home / f"{name}.parquet")["image"].to_pylist()
    return column


def seed_of(row: int) -> int:
    """Return the seed that fastload gives a row of the first file in the first epoch."""
    return stream_key(0, 0, 3, 1 << 32, 0, row)


class PlainDataset(torch.utils.data.Dataset[torch.Tensor]):
    """Images in memory, decoded by OpenCV."""

    def __init__(self, images: list[bytes]) -> None:
        self._images = images

    def __len__(self) -> int:
        return len(self._images)

    def __getitem__(self, row: int) -> torch.Tensor:
        seed = int(torch.randint(1 << 62, ()))
        encoded = np.frombuffer(self._images[row], np.uint8)
        whole: Any = cv2.imdecode(encoded, cv2.IMREAD_COLOR_RGB)
        top, left, height, width = crop_box(whole.shape[0], whole.shape[1], seed)
        part = whole[top : top + height, left : left + width]
        resized = cv2.resize(part, (_SIDE, _SIDE), interpolation=cv2.INTER_AREA)
        flipped = cv2.flip(resized, 1) if flips(seed) else resized
        return torch.from_numpy(flipped.transpose(2, 0, 1).copy())


def by_workers(dataset: Any) -> Callable[[], Iterable[object]]:
    """Return what begins a pass of a DataLoader with workers."""
    loader = DataLoader(
        dataset, _BATCH_ROWS, num_workers=_WORKERS, persistent_workers=True, shuffle=True
    )
    return lambda: loader


def by_fastload(home: Path, name: str, columns: Any, **options: Any) -> Callable[[], Any]:
    """Return what begins a pass of fastload."""
    path = home / f"{name}.parquet"
    dataset = FastParquetDataset(path, columns=columns, batch_size=_BATCH_ROWS, **options)
    return lambda: dataset


def by_roof(home: Path, threads: int) -> Callable[[], Iterable[object]]:
    """Return what begins a pass of the decoder alone."""
    images, pool = stored(home), ThreadPoolExecutor(threads)
    seeds = [seed_of(row) for row in range(len(images))]

    def decode_some(first: int) -> None:
        for data, seed in zip(images[first::threads], seeds[first::threads], strict=True):
            cropped(data, seed)

    return lambda: pool.map(decode_some, range(threads))


def by_hugging_face(home: Path) -> Callable[[], Iterable[object]]:
    """Return what begins a pass of Hugging Face's dataset in a DataLoader."""
    import datasets
    from torchvision import transforms

    datasets.disable_progress_bars()
    steps = transforms.Compose(
        [
            transforms.RandomResizedCrop(_SIDE),
            transforms.RandomHorizontalFlip(),
            transforms.PILToTensor(),
        ]
    )
    rows: Any = datasets.Dataset.from_parquet(str(home / "mixed.parquet"), cache_dir=str(home))
    rows = rows.cast_column("image", datasets.Image())
    rows.set_transform(lambda batch: {"image": [steps(i.convert("RGB")) for i in batch["image"]]})
    return by_workers(rows)


def ways(home: Path, threads: int) -> dict[str, Callable[[], Any]]:
    """Return what makes each way, by "kind: name"."""
    center = {"image": Image("image", _SIDE)}
    whole = per_row(at_full_size, inputs="image", outputs="image")
    plain = {"image": Fixed("image", 3 * _SIDE * _SIDE)}
    given: dict[str, Any] = {"threads": threads}
    return {
        "crops: roof": lambda: by_roof(home, threads),
        "crops: fastload": lambda: by_fastload(home, "mixed", CROPPED, **given),
        "crops: DataLoader, OpenCV": lambda: by_workers(PlainDataset(stored(home))),
        "crops: Hugging Face": lambda: by_hugging_face(home),
        "large: full size": lambda: by_fastload(home, "large", None, preprocess=whole, **given),
        "large: fastload": lambda: by_fastload(home, "large", center, **given),
        "kept: uint8 lists": lambda: by_fastload(home, "pixels", plain, **given),
        "kept: fastload": lambda: by_fastload(home, "large", center, cache=home / "kept", **given),
    }


def check(home: Path, threads: int) -> None:
    """Raise AssertionError unless fastload's pixels are those of a loop."""
    looped = np.stack([cropped(data, seed_of(row)) for row, data in enumerate(stored(home))])
    batches = by_fastload(home, "mixed", CROPPED, threads=threads)()
    pixels = np.concatenate([batch["image"] for batch in batches])
    assert np.array_equal(pixels, looped.transpose(0, 3, 1, 2)), "the pixels differ"
