"""Train a small convolutional network on JPEGs in a Parquet column.

    python examples/train_images.py images/*.parquet --workers 8
    torchrun --nproc-per-node=8 examples/train_images.py images/*.parquet --compile

The files need columns `jpeg` (binary) and `label` (integers). OpenCV decodes random crops of the
images (`pip install opencv-python-headless`): on threads of this process, or in worker processes.
"""

from __future__ import annotations

import argparse
import time

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader
from training import Precision, joined_group, left_group, multiple_of_8, wrapped

from fastload import DataWait, DevicePrefetcher, FastParquetDataset, Image


def network(classes: int) -> nn.Sequential:
    """Return a network of four convolutions and a linear layer."""
    layers: list[nn.Module] = []
    for inward, outward in ((3, 32), (32, 64), (64, 128), (128, 256)):
        layers += [
            nn.Conv2d(inward, outward, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(outward),
            nn.ReLU(),
        ]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, classes))


def arguments() -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", nargs="+", help="files, directories, globs or URLs")
    parser.add_argument("--size", type=multiple_of_8, default=224, help="pixels of a side")
    parser.add_argument("--classes", type=multiple_of_8, default=1000)
    parser.add_argument("--batch-size", type=multiple_of_8, default=256, help="of each process")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=0, help="processes that decode")
    parser.add_argument("--compile", action="store_true", help="torch.compile the model")
    return parser.parse_args()


def main() -> None:
    """Train the network."""
    options = arguments()
    device, rank = joined_group()
    dataset = FastParquetDataset(
        options.source,
        columns={
            "image": Image("jpeg", options.size, crop="random", flip=True),
            "label": torch.int64,
        },
        batch_size=options.batch_size,
        shuffle=True,
        drop_last=True,
    )
    if not len(dataset):
        raise SystemExit(f"Expected a batch of {options.batch_size} rows, got fewer in all")
    batches = DataLoader(
        dataset,
        batch_size=None,
        num_workers=options.workers,
        persistent_workers=options.workers > 0,
    )
    loader = DataWait(DevicePrefetcher(batches, device))
    model = network(options.classes).to(device, memory_format=torch.channels_last)
    forward = wrapped(model, compiled=options.compile)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, fused=True)
    precision = Precision(device)

    began, step, loss = time.perf_counter(), 0, None
    while step < options.steps:
        for batch in loader:
            # uint8 images are copied to the device: a quarter of the bytes of floats.
            images = batch["image"].to(memory_format=torch.channels_last).float() / 255
            with precision.autocast:
                logits = forward(images)
            loss = cross_entropy(logits.float(), batch["label"])
            precision.scaler.scale(loss).backward()
            precision.step(optimizer)
            step += 1
            if step == options.steps:
                break
    if not rank:
        print(f"step {step}: loss {loss.item():.4f}")  # waits for the device
        print(f"{step / (time.perf_counter() - began):.2f} steps/s")
        print(loader.report())


if __name__ == "__main__":
    main()
    left_group()
