"""Evaluate the model that train_ctr.py trained: every row once, on any number of processes.

    torchrun --nproc-per-node=8 examples/eval.py valid/*.parquet --checkpoint ctr.pt --output scores

With --output, each process writes the score of each of its rows to a Parquet file of its own,
beside `__file__` and `__row__`, the number of the file and of the row in that file.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import pyarrow.parquet as pq
import torch
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.utils.data import DataLoader
from train_ctr import COLUMNS, ClickModel
from training import Precision, joined_group, left_group, multiple_of_8

from fastload import Batch, DataWait, DevicePrefetcher, FastParquetDataset


def arguments() -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", nargs="+", help="files, directories, globs or URLs")
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--batch-size", type=multiple_of_8, default=16384)
    parser.add_argument("--output", type=Path, help="directory to write scores to")
    parser.add_argument("--compile", action="store_true", help="torch.compile the model")
    return parser.parse_args()


class Scores:
    """Writer of the scores of one process, which keeps no more than a batch in memory."""

    def __init__(self, directory: Path, rank: int) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._path = directory / f"part-{rank:05}.parquet"
        self._file: pq.ParquetWriter | None = None

    def write(self, batch: Batch, scores: torch.Tensor) -> None:
        """Write the scores of the rows of a batch that count."""
        rows = Batch({"__file__": batch["__file__"], "__row__": batch["__row__"], "score": scores})
        valid = batch["__valid__"]
        part = Batch({name: value[valid] for name, value in rows.items()}).to("cpu").to_arrow()
        self._file = self._file or pq.ParquetWriter(self._path, part.schema)
        self._file.write_batch(part)

    def close(self) -> None:
        """Complete the file."""
        if self._file is not None:
            self._file.close()


@torch.inference_mode()
def main() -> None:
    """Print the loss and the accuracy over all rows."""
    options = arguments()
    device, rank = joined_group()
    saved = torch.load(options.checkpoint, map_location=device)["model"]
    model = ClickModel(saved["embedding.weight"].shape[0]).to(device).eval()
    model.load_state_dict(saved)
    forward = torch.compile(model) if options.compile else model
    precision = Precision(device)
    # Every rank has as many batches, so that no rank waits forever. `__valid__` marks the rows
    # that count; each row counts on one rank.
    dataset = FastParquetDataset(
        options.source,
        columns=COLUMNS,
        batch_size=options.batch_size,
        uneven="pad",
        provenance=options.output is not None,
    )
    output = Scores(options.output, rank) if options.output else None
    loader = DataWait(DevicePrefetcher(DataLoader(dataset, batch_size=None), device))
    sums = torch.zeros(3, dtype=torch.float64, device=device)  # loss, hits, rows
    began, steps = time.perf_counter(), 0
    for batch in loader:
        valid = batch["__valid__"]
        with precision.autocast:
            logits = forward(batch["numbers"], batch["categories"]).float()
        losses = binary_cross_entropy_with_logits(logits, batch["label"], reduction="none")
        hits = (logits > 0) == (batch["label"] > 0.5)
        sums += torch.stack([(losses * valid).sum(), (hits & valid).sum(), valid.sum()])
        steps += 1
        if output is not None:
            output.write(batch, logits.sigmoid())
    if output is not None:
        output.close()
    if torch.distributed.is_initialized():
        torch.distributed.all_reduce(sums)
    loss, hits, rows = sums.tolist()
    seconds = time.perf_counter() - began
    if not rank:
        print(f"{int(rows)} rows: loss {loss / rows:.4f}, accuracy {hits / rows:.4f}")
        print(f"{steps / seconds:.2f} steps/s")
        print(loader.report())


if __name__ == "__main__":
    main()
    left_group()
