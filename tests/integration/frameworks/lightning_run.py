"""Two ranks under Lightning's Trainer: `lightning_run.py FILE DIRECTORY DOCUMENTS`."""

import json
import sys
import warnings
from functools import partial
from pathlib import Path

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch.utils.data import DataLoader

from fastload import DataWait, FastParquetDataset, Ragged
from fastload.integrations.lightning import ResumableLoader, WaitLogger
from forking import run_ranks
from packed_model import PackedModel, packed_dataset

EPOCHS = 3


class Model(lightning.LightningModule):
    """Remembers the rows that it was trained and validated on."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(1, 1)
        torch.nn.init.zeros_(self.linear.weight)
        torch.nn.init.zeros_(self.linear.bias)
        self.seen = []
        self.validated = []

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)

    def training_step(self, batch, _):
        assert isinstance(batch["name"], Ragged)
        assert batch["name"][0] == f"row {batch['id'][0]}"
        self.seen.append(batch["id"].tolist())
        price = batch["price"][:, None]
        return (self.linear(price) - price).square().mean()

    def validation_step(self, batch, _):
        self.validated.append(batch["id"].tolist())


class Packed(lightning.LightningModule):
    """Trains a PackedModel."""

    def __init__(self):
        super().__init__()
        self.model = PackedModel()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)

    def training_step(self, batch, _):
        return self.model(**batch)["loss"]


def dataset_of(path, **options):
    options = {"batch_size": 100, "shuffle": True, "shuffle_window": 200, **options}
    return FastParquetDataset(path, threads=1, **options)


def trainer_of(directory, callbacks, **options):
    options = {
        "max_epochs": EPOCHS,
        "devices": 2,
        "strategy": "ddp",
        "accumulate_grad_batches": 2,
        **options,
    }
    return lightning.Trainer(
        accelerator="cpu",
        callbacks=callbacks,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=directory,
        **options,
    )


def fitted(path, directory, checkpoint=None, callbacks=(), workers=0, **options):
    model = Model()
    loader = ResumableLoader(DataLoader(dataset_of(path), batch_size=None, num_workers=workers))
    trainer = trainer_of(directory, [loader, *callbacks], **options)
    trainer.fit(model, loader, ckpt_path=checkpoint)
    weights = [weight.item() for weight in model.parameters()]
    return {"rows": model.seen, "weights": weights, "epoch": trainer.current_epoch}


def not_told(path, directory):
    """What is said to a loader that is no callback."""
    loader = ResumableLoader(DataLoader(dataset_of(path), batch_size=None))
    try:
        trainer_of(directory, []).fit(Model(), loader)
    except RuntimeError as error:
        return str(error)
    return None


def on_other_ranks(path):
    """What is said to a state of two ranks on three, after one of two batches was trained."""
    loader = ResumableLoader(DataLoader(dataset_of(path), batch_size=None, num_workers=1))
    loader.setup(None, None, "fit")
    taken = iter(loader)
    next(taken), next(taken)
    assert loader.state_dict()["progress"] == []
    loader.on_train_batch_end()
    state = loader.state_dict()
    assert state["progress"] == [[2, 1, 1]]
    dataset = dataset_of(path, batch_size=20, rank=0, world_size=3)
    two = dataset_of(path, batch_size=20)
    state = two.state_dict(after=list(two)[3])
    try:
        ResumableLoader(DataLoader(dataset, batch_size=None)).load_state_dict(state)
    except ValueError as error:
        return str(error)
    return None


def validated(path, directory):
    """Rows of two training epochs and of a validation, of plain loaders."""
    model = Model()
    loader = DataLoader(dataset_of(path), batch_size=None)
    validation = DataLoader(dataset_of(path, uneven="keep", shuffle=False), batch_size=None)
    trainer = trainer_of(
        directory, [], max_epochs=2, enable_checkpointing=False, num_sanity_val_steps=0
    )
    trainer.fit(model, loader, validation)
    return {"rows": model.seen, "validated": model.validated[: len(model.validated) // 2]}


def waited(path, directory):
    """What a WaitLogger logs of one epoch."""
    wait = DataWait(DataLoader(dataset_of(path), batch_size=None))
    logger = WaitLogger(wait, every=2)
    trainer = trainer_of(directory, [logger], max_epochs=1, enable_checkpointing=False)
    trainer.fit(Model(), wait)
    logged = {name: float(value) for name, value in trainer.callback_metrics.items()}
    report = wait.report()
    return {"steps": report.steps, "waiting_s": report.waiting_s, "logged": logged}


def packed(directory, checkpoint=None, **options):
    """The tokens of each step of two epochs of packed rows, and a sum of the weights."""
    model, dataset = Packed(), packed_dataset(sys.argv[3])
    loader = ResumableLoader(DataLoader(dataset, batch_size=None))
    callbacks = [loader]
    if checkpoint is None:
        every = {"save_top_k": -1, "every_n_train_steps": 4}
        callbacks.append(ModelCheckpoint(directory / "packed", "{step}", **every))
    else:
        options["enable_checkpointing"] = False
        checkpoint = directory / "packed" / f"step={checkpoint}.ckpt"
    options = {"max_epochs": 2, "accumulate_grad_batches": 1, **options}
    trainer_of(directory, callbacks, **options).fit(model, loader, ckpt_path=checkpoint)
    return {"steps": len(dataset), "tokens": model.model.seen, "weights": model.model.sum()}


def main(rank, directory):
    path = sys.argv[1]
    fit = partial(fitted, path, directory)
    every = ModelCheckpoint(directory / "every", "{step}", save_top_k=-1, every_n_train_steps=1)
    last = ModelCheckpoint(directory / "last", "{epoch}", save_top_k=-1, every_n_epochs=1)
    report = {"whole": fit(callbacks=[every, last])}
    report["stopped"] = fit(
        callbacks=[ModelCheckpoint(directory / "stopped", save_last=True, every_n_train_steps=1)],
        max_steps=4,
        workers=1,
    )
    report["goes on"] = fit(directory / "stopped" / "last.ckpt", workers=1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        report["steps"] = [fit(directory / "every" / f"step={step}.ckpt") for step in range(1, 9)]
    report["not resumable"] = sum("not resumable" in str(one.message) for one in caught)
    report["ends"] = [fit(directory / "last" / f"epoch={epoch}.ckpt") for epoch in range(2)]
    report["not told"] = not_told(path, directory)
    report["other ranks"] = on_other_ranks(path)
    report["plain"] = validated(path, directory)
    report["waited"] = waited(path, directory)
    report["packed"] = packed(directory)
    report["packed, in mid-epoch"] = packed(directory, 4)
    return report


if __name__ == "__main__":
    run_ranks(main, 2, sys.argv[2])
    alone = packed(Path(sys.argv[2]), 4, devices=1, strategy="auto")
    Path(sys.argv[2], "alone.json").write_text(json.dumps(alone))
