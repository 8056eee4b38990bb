"""A first image model: Hugging Face's struct of bytes and path, decoded by PIL for each row."""

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

from fastload import FastParquetDataset, per_row

Image = pytest.importorskip("PIL.Image")

SIZE = 16


def decode(data):
    image = Image.open(io.BytesIO(data)).convert("RGB").resize((SIZE, SIZE))
    return np.asarray(image).transpose(2, 0, 1).copy()


def without_bytes(block):
    del block["image.bytes"]
    return block


def images_of(path, **arguments):
    return FastParquetDataset(
        path,
        columns={"image.bytes": "image.bytes", "label": torch.int64},
        preprocess=[per_row(decode, inputs="image.bytes", outputs="image"), without_bytes],
        batch_size=32,
        **arguments,
    )


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """Files as `datasets.Dataset.to_parquet` writes them: dark and bright images."""
    rng = np.random.default_rng(0)
    rows = []
    for number in range(400):
        pixels = rng.integers(0, 128, (24, 24, 3), np.uint8) + 127 * (number % 2)
        data = io.BytesIO()
        Image.fromarray(pixels.astype(np.uint8)).save(data, "png")
        rows.append({"bytes": data.getvalue(), "path": f"{number}.png"})
    labels = pa.array([number % 2 for number in range(400)], pa.int32())
    path = tmp_path_factory.mktemp("images") / "train-00000-of-00001.parquet"
    pq.write_table(pa.table({"image": rows, "label": labels}), path, row_group_size=100)
    return path


def test_an_image_model_learns(images):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 49, 2))
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    losses = []
    for _ in range(3):
        dataset = images_of(images, shuffle=True)
        for batch in DataLoader(dataset, batch_size=None):
            loss = nn.functional.cross_entropy(model(batch["image"] / 255), batch["label"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]


def test_worker_processes_decode_the_same_images(images):
    alone = torch.cat([batch["image"] for batch in images_of(images)])
    loader = DataLoader(
        images_of(images), batch_size=None, num_workers=2, multiprocessing_context="forkserver"
    )
    batches = list(loader)
    assert sorted(batch["image"].sum().item() for batch in batches) == sorted(
        part.sum().item() for part in alone.split(32)
    )


def test_a_struct_is_named_by_its_fields(images):
    batch = FastParquetDataset(images).head()
    with pytest.raises(KeyError, match=r"use 'image\.bytes', 'image\.path'"):
        batch["image"]
    assert batch["image.path"][0] == "0.png"


def test_photographs_are_decoded(data_dir):
    path = data_dir / "real" / "smoosense_images.parquet"
    dataset = FastParquetDataset(
        path,
        columns=["image_bytes", "width"],
        preprocess=per_row(decode, inputs="image_bytes", outputs="image"),
    )
    batch = dataset.head()
    stored = pq.read_table(path)
    for row, data in enumerate(stored["image_bytes"].to_pylist()):
        assert torch.equal(batch["image"][row], torch.from_numpy(decode(data)))
    assert batch["width"].tolist() == stored["width"].to_pylist()
