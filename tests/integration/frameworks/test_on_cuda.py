"""Trainers on a CUDA device: packed rows and rows with lists get there, each row once an epoch."""

import pytest
import torch
from torch.utils.data import DataLoader

from fastload import FastParquetDataset, Ragged
from launching import require
from packed_model import PackedModel, packed_dataset
from support.token_files import write_documents

for package in ("accelerate", "lightning", "transformers"):
    require(package)

EPOCHS = 2
LENGTHS = [number * 7 % 23 for number in range(150)]
START = 1000

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.filterwarnings("ignore"),  # of trainers and of torch
]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("documents") / "documents.parquet"
    write_documents(path, LENGTHS, group_rows=37, start=START)
    return path


class ListModel(torch.nn.Module):
    """Notes the tokens of lists, and expects all values on the device."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.seen = []

    def forward(self, rows, labels):
        assert isinstance(rows, Ragged)
        assert {rows.values.device, rows.offsets.device, labels.device} == {self.weight.device}
        assert self.weight.is_cuda
        self.seen.append([token for row in range(len(rows)) for token in rows[row].tolist()])
        return {"loss": (self.weight - labels).square().mean()}


def list_dataset(path):
    return FastParquetDataset(
        path, columns={"rows": "t", "labels": "id"}, batch_size=16, shuffle=True, threads=1
    )


CASES = pytest.mark.parametrize(
    ("model", "dataset"), [(PackedModel, packed_dataset), (ListModel, list_dataset)]
)


def expect_each_token_once_an_epoch(model):
    steps, rest = divmod(len(model.seen), EPOCHS)
    assert rest == 0
    epochs = []
    for epoch in range(EPOCHS):
        batches = model.seen[epoch * steps :][:steps]
        epochs.append([token for batch in batches for token in batch])
        assert sorted(epochs[-1]) == list(range(START, START + sum(LENGTHS)))
    assert epochs[0] != epochs[1]


@CASES
@pytest.mark.parametrize("workers", [0, 2])
def test_transformers(path, tmp_path, model, dataset, workers):
    import transformers

    from fastload.integrations.transformers import Trainer

    settings = transformers.TrainingArguments(
        str(tmp_path),
        num_train_epochs=EPOCHS,
        save_strategy="no",
        logging_strategy="no",
        report_to=[],
        disable_tqdm=True,
        dataloader_num_workers=workers,
    )
    trainer = Trainer(model(), settings, train_dataset=dataset(path))
    trainer.train()
    assert next(trainer.model.parameters()).is_cuda
    expect_each_token_once_an_epoch(trainer.model)


@CASES
@pytest.mark.parametrize("workers", [0, 2])
def test_lightning(path, tmp_path, model, dataset, workers):
    import lightning

    from fastload.integrations.lightning import ResumableLoader

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = model()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.1)

        def training_step(self, batch, _):
            return self.model(**batch)["loss"]

    loader = ResumableLoader(DataLoader(dataset(path), batch_size=None, num_workers=workers))
    trainer = lightning.Trainer(
        accelerator="cuda",
        devices=1,
        max_epochs=EPOCHS,
        callbacks=[loader],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=tmp_path,
    )
    module = Module()
    trainer.fit(module, loader)
    expect_each_token_once_an_epoch(module.model)


@CASES
def test_accelerate(path, model, dataset):
    from accelerate import Accelerator

    from fastload.integrations.accelerate import prepare

    accelerator = Accelerator()
    loader = prepare(accelerator, DataLoader(dataset(path), batch_size=None))
    net = model().to(accelerator.device)
    for epoch in range(EPOCHS):
        loader.set_epoch(epoch)
        for batch in loader:
            accelerator.backward(net(**batch)["loss"])
    expect_each_token_once_an_epoch(net)
