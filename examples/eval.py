"""Evaluate the model that train_ctr.py trained: every row once, on any number of processes.

torchrun --nproc-per-node=8 examples/eval.py valid/*.parquet --checkpoint ctr.pt
"""

from __future__ import annotations

import argparse
import time

import torch
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.utils.data import DataLoader
from train_ctr import COLUMNS, ClickModel, joined_group, multiple_of_8

from fastload import DataWait, DevicePrefetcher, FastParquetDataset


def arguments() -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", nargs="+", help="files, directories, globs or URLs")
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--batch-size", type=multiple_of_8, default=16384)
    return parser.parse_args()


@torch.inference_mode()
def main() -> None:
    """Print the loss and the accuracy over all rows."""
    options = arguments()
    device, rank = joined_group()
    saved = torch.load(options.checkpoint, map_location=device)["model"]
    model = ClickModel(saved["embedding.weight"].shape[0]).to(device).eval()
    model.load_state_dict(saved)
    # Every rank has as many batches, so that no rank waits forever. `__valid__` marks the rows
    # that count; each row counts on one rank.
    dataset = FastParquetDataset(
        options.source, columns=COLUMNS, batch_size=options.batch_size, uneven="pad"
    )
    loader = DataWait(DevicePrefetcher(DataLoader(dataset, batch_size=None), device))
    sums = torch.zeros(3, dtype=torch.float64, device=device)  # loss, hits, rows
    began, steps = time.perf_counter(), 0
    for batch in loader:
        valid = batch["__valid__"]
        with torch.autocast(device.type, dtype=torch.bfloat16):
            logits = model(batch["numbers"], batch["categories"]).float()
        losses = binary_cross_entropy_with_logits(logits, batch["label"], reduction="none")
        hits = (logits > 0) == (batch["label"] > 0.5)
        sums += torch.stack([(losses * valid).sum(), (hits & valid).sum(), valid.sum()])
        steps += 1
    if torch.distributed.is_initialized():
        torch.distributed.all_reduce(sums)
    loss, hits, rows = sums.tolist()
    seconds = time.perf_counter() - began
    if not rank:
        print(f"{int(rows)} rows: loss {loss / rows:.4f}, accuracy {hits / rows:.4f}")
        print(f"{steps / seconds:.2f} steps/s")
        print(loader.report())
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
