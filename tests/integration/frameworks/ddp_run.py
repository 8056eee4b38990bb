"""Three ranks of torchrun train, then two of them go on: `ddp_run.py FILE DIRECTORY`."""

import json
import sys
from datetime import timedelta
from itertools import islice
from pathlib import Path

import torch
from torch.distributed import all_reduce, destroy_process_group, get_rank, init_process_group
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

from fastload import FastParquetDataset

TIMEOUT = timedelta(seconds=90)


def dataset_of(path, uneven="wrap"):
    return FastParquetDataset(
        path, batch_size=37, shuffle=True, shuffle_window=300, uneven=uneven, threads=1
    )


def trained(model, batches):
    """The ids of the rows of each batch, but for those that "pad" repeats."""
    ids = []
    for batch in batches:
        model(batch["price"][:, None]).mean().backward()
        real = batch.get("__valid__", torch.ones(batch.rows, dtype=torch.bool))
        ids.append(batch["id"][real].tolist())
    return ids


def train(path):
    model = DistributedDataParallel(torch.nn.Linear(1, 1))
    report = {
        uneven: trained(model, dataset_of(path, uneven)) for uneven in ("wrap", "drop", "pad")
    }
    with model.join():
        report["keep"] = trained(model, dataset_of(path, "keep"))
    total = torch.tensor(sum(map(sum, report["keep"])))
    all_reduce(total)
    report["sum"] = total.item()
    dataset = dataset_of(path)
    taken = list(islice(DataLoader(dataset, batch_size=None, num_workers=1), 4))
    report["stopped"] = trained(model, taken)
    report["state"] = dataset.state_dict(after=taken[-1])
    return report


def resume(path, state):
    model = DistributedDataParallel(torch.nn.Linear(1, 1))
    dataset = dataset_of(path)
    dataset.load_state_dict(state)
    loader = DataLoader(dataset, batch_size=None)
    return {"resumed": trained(model, loader), "following": trained(model, loader)}


def main(path, directory):
    # Nobody pays for frameworks that are not used.
    assert not sys.modules.keys() & {"accelerate", "lightning", "transformers"}
    init_process_group("gloo", timeout=TIMEOUT)
    rank = get_rank()
    report = train(path)
    destroy_process_group()
    if rank < 2:
        store = f"file://{directory}/store"
        init_process_group("gloo", init_method=store, rank=rank, world_size=2, timeout=TIMEOUT)
        report |= resume(path, report["state"])
        destroy_process_group()
    (directory / f"rank-{rank}.json").write_text(json.dumps(report))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
