"""Two ranks under Accelerate: `accelerate_run.py FILE DIRECTORY`."""

import sys
from itertools import islice

import torch
from accelerate import Accelerator, DataLoaderConfiguration
from torch.utils.data import DataLoader

from fastload import FastParquetDataset, Ragged
from fastload.integrations.accelerate import prepare
from forking import run_ranks

STOPPED_AFTER = 6


class Run:
    """A training script: its accelerator, model and loader."""

    def __init__(self, path, **options):
        self.accelerator = Accelerator(cpu=True, gradient_accumulation_steps=4)
        self.dataset = dataset_of(path)
        model = torch.nn.Linear(1, 1)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        self.model, self.optimizer = self.accelerator.prepare(model, optimizer)
        loader = DataLoader(self.dataset, batch_size=None, **options)
        self.loader = prepare(self.accelerator, loader)
        assert self.accelerator.prepare(self.loader) is self.loader

    def trained(self, batches, after=None):
        """The ids of each batch, and after which of them gradients were summed up."""
        ids, synced = [], []
        for number, batch in enumerate(batches):
            assert isinstance(batch["name"], Ragged)
            assert batch["name"][0] == f"row {batch['id'][0]}"
            with self.accelerator.accumulate(self.model):
                self.accelerator.backward(self.model(batch["price"][:, None]).mean())
                self.optimizer.step()
                self.optimizer.zero_grad()
            ids.append(batch["id"].tolist())
            if self.accelerator.sync_gradients:
                synced.append(number)
            if after is not None and number + 1 == STOPPED_AFTER:
                after()
        return ids, synced

    def saved(self, directory):
        self.accelerator.save_state(directory)
        self.accelerator.wait_for_everyone()


def dataset_of(path, **options):
    options = {"batch_size": 50, "shuffle": True, "shuffle_window": 200, **options}
    return FastParquetDataset(path, threads=1, **options)


def refused(accelerator, dataset):
    """What is said to a loader that is prepared as others are."""
    try:
        next(iter(accelerator.prepare(DataLoader(dataset, batch_size=None))))
    except RuntimeError as error:
        return str(error)
    return None


def split_by_accelerate(path):
    """The ids that this rank gets of a dataset that every process reads as a whole."""
    dataset = dataset_of(path, columns=["id"], rank=0, world_size=1)
    loader = Accelerator(cpu=True).prepare(DataLoader(dataset, batch_size=None))
    return [batch["id"].tolist() for batch in loader]


def main(rank, directory):
    path = sys.argv[1]
    sharding = Accelerator(
        cpu=True, dataloader_config=DataLoaderConfiguration(dispatch_batches=False)
    )
    assert sharding.num_processes == 2
    report = {
        "dispatched": refused(Accelerator(cpu=True), dataset_of(path)),
        "sharded": refused(sharding, dataset_of(path)),
        "split": split_by_accelerate(path),
    }
    run = Run(path)
    report["lengths"] = [len(run.loader), len(run.accelerator.skip_first_batches(run.loader, 4))]
    report["epoch 0"], report["synced"] = run.trained(run.loader)
    checkpoint = directory / "checkpoint"
    report["epoch 1"], _ = run.trained(run.loader, after=lambda: run.saved(checkpoint))
    report["epoch 2"], _ = run.trained(run.loader)

    run = Run(path, num_workers=1)
    run.accelerator.load_state(checkpoint)
    report["resumed"], _ = run.trained(run.loader)
    report["resumed, epoch 2"], _ = run.trained(run.loader)

    # As Accelerate's own examples resume.
    run = Run(path)
    run.accelerator.load_state(checkpoint)
    run.loader.set_epoch(1)
    skipped = run.accelerator.skip_first_batches(run.loader, STOPPED_AFTER)
    report["loaded and skipped"], _ = run.trained(skipped)

    run = Run(path)
    run.loader.set_epoch(1)
    skipped = run.accelerator.skip_first_batches(run.loader, STOPPED_AFTER)
    report["skipped"], _ = run.trained(islice(skipped, 2))
    run.saved(directory / "second")
    run = Run(path)
    run.accelerator.load_state(directory / "second")
    report["skipped and resumed"], _ = run.trained(run.loader)
    return report


if __name__ == "__main__":
    run_ranks(main, 2, sys.argv[2])
