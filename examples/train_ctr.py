"""Train a click model on a table of numbers and ids.

    python examples/train_ctr.py train/*.parquet
    torchrun --nproc-per-node=8 examples/train_ctr.py gs://bucket/train --checkpoint ctr.pt

The files need columns `label`, `numeric_01`, ... and `category_01`, ..., as the file has
that `fastload-bench --sample clicks.parquet` writes.
Run again with the same checkpoint, the program continues at the next row, on any number of
processes.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import time

import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader
from training import Precision, joined_group, left_group, multiple_of_8, wrapped

from fastload import Batch, DataWait, DevicePrefetcher, FastParquetDataset, Stack

NUMBERS = [f"numeric_{number:02}" for number in range(1, 14)]
CATEGORIES = [f"category_{number:02}" for number in range(1, 27)]
COLUMNS = {
    "label": torch.float32,  # the column `label`, cast
    "numbers": Stack(NUMBERS, "float32"),  # (B, 13)
    # These ids are hashes already; Hash(name, buckets) makes buckets of other ids and strings.
    "categories": Stack(CATEGORIES, "int64"),  # (B, 26)
}


class ClickModel(nn.Module):
    """A model of embeddings and numbers, followed by three layers."""

    def __init__(self, buckets: int = 100_000, width: int = 16) -> None:
        super().__init__()
        self.buckets = buckets
        self.embedding = nn.Embedding(buckets, width)
        self.layers = nn.Sequential(
            nn.Linear(len(NUMBERS) + len(CATEGORIES) * width, 256),
            nn.ReLU(),
            nn.Linear(256, 128),
            nn.ReLU(),
            nn.Linear(128, 1),
        )

    def forward(self, numbers: torch.Tensor, categories: torch.Tensor) -> torch.Tensor:
        """Return logits (B,) of numbers (B, 13) and categories (B, 26)."""
        embedded = self.embedding(categories.remainder(self.buckets)).flatten(1)
        return self.layers(torch.cat([numbers.log1p(), embedded], dim=1)).squeeze(1)


def arguments() -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", nargs="+", help="files, directories, globs or URLs")
    parser.add_argument("--batch-size", type=multiple_of_8, default=8192, help="of each process")
    parser.add_argument("--accumulate", type=int, default=1, help="batches to one step")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--steps", type=int, help="to end after; default: all of the epochs")
    parser.add_argument("--buckets", type=multiple_of_8, default=100_000)
    parser.add_argument("--checkpoint", help="file to continue from, if it exists, and to write")
    parser.add_argument("--save-every", type=int, default=1000, help="steps")
    parser.add_argument("--compile", action="store_true", help="torch.compile the model")
    return parser.parse_args()


class Run:
    """The state of training that a checkpoint holds.

    Attributes:
        model: the model, as saved; `forward` is the model or its distributed wrapper.
    """

    def __init__(
        self, options: argparse.Namespace, device: torch.device, batches: DevicePrefetcher[Batch]
    ) -> None:
        self.device, self.batches, self.accumulate = device, batches, options.accumulate
        self.model = ClickModel(options.buckets).to(device)
        self.forward = wrapped(self.model, compiled=options.compile)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3, fused=True)
        self.precision = Precision(device)
        self.step = self.epoch = 0

    def load(self, path: str) -> None:
        """Continue from a checkpoint."""
        saved = torch.load(path, map_location=self.device)
        self.model.load_state_dict(saved["model"])
        self.optimizer.load_state_dict(saved["optimizer"])
        self.precision.scaler.load_state_dict(saved["scaler"])
        self.batches.load_state_dict(saved["data"])  # any rank's state serves every rank
        self.step, self.epoch = saved["step"], saved["epoch"]

    def save(self, path: str) -> None:
        """Write a checkpoint, which appears complete or not at all."""
        state = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.precision.scaler.state_dict(),
            "data": self.batches.state_dict(),  # after the batch that was handed out last
            "step": self.step,
            "epoch": self.epoch,
        }
        torch.save(state, f"{path}.part")
        os.replace(f"{path}.part", path)

    def train_on(self, batch: Batch, *, due: bool) -> torch.Tensor:
        """Add the gradients of a batch; step the optimizer if due; return the loss."""
        # Ranks exchange gradients once per step.
        alone = isinstance(self.forward, DistributedDataParallel) and not due
        with self.forward.no_sync() if alone else contextlib.nullcontext():
            with self.precision.autocast:
                logits = self.forward(batch["numbers"], batch["categories"])
            loss = binary_cross_entropy_with_logits(logits.float(), batch["label"])
            self.precision.scaler.scale(loss / self.accumulate).backward()
        if due:
            self.precision.step(self.optimizer)
            self.step += 1
        return loss.detach()  # read later: it would wait for the device


def main() -> None:
    """Train the model."""
    options = arguments()
    device, rank = joined_group()
    dataset = FastParquetDataset(
        options.source, columns=COLUMNS, batch_size=options.batch_size, shuffle=True, drop_last=True
    )
    # Each batch goes to the device in one asynchronous copy from pinned memory.
    batches = DevicePrefetcher(DataLoader(dataset, batch_size=None), device)
    loader = DataWait(batches)
    run = Run(options, device, batches)
    if options.checkpoint and os.path.exists(options.checkpoint):
        run.load(options.checkpoint)
    first, began = run.step, time.perf_counter()
    last = None if options.steps is None else first + options.steps
    while run.epoch < options.epochs and run.step != last:
        losses = train_epoch(
            run, loader, options, last, saves=bool(options.checkpoint) and not rank
        )
        if not rank and losses:
            print(f"step {run.step}: mean loss {torch.stack(losses).mean().item():.4f}")
    if options.checkpoint and not rank:
        run.save(options.checkpoint)
    if device.type == "cuda":
        torch.cuda.synchronize()
    seconds = time.perf_counter() - began
    if not rank:
        print(f"{(run.step - first) / seconds:.2f} steps/s")
        print(loader.report())


def train_epoch(
    run: Run, loader: DataWait[Batch], options: argparse.Namespace, last: int | None, *, saves: bool
) -> list[torch.Tensor]:
    """Train to the end of the epoch, or to the last step; return the losses."""
    losses = []
    loader.set_epoch(run.epoch)  # an epoch that continues keeps its place
    for index, batch in enumerate(loader, 1):
        due = index % options.accumulate == 0
        losses.append(run.train_on(batch, due=due))
        if due and saves and run.step % options.save_every == 0:
            run.save(options.checkpoint)
        if run.step == last:
            return losses
    run.optimizer.zero_grad(set_to_none=True)  # of a step that the epoch's end cut short
    run.epoch += 1
    return losses


if __name__ == "__main__":
    main()
    left_group()
