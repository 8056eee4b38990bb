"""Lightning's Trainer with two processes, stopped after every step and resumed."""

import json

import pytest
from torch.utils.data import DataLoader

from fastload import FastParquetDataset
from launching import expect_packed_runs, reports_of, require, run_script, steps_of_ranks
from support.sample_files import write_sample
from support.token_files import write_documents

require("lightning")

ROWS = 1000
BATCHES = 5  # of a rank's epoch; updates of 2, 2 and 1 of them
LENGTHS = [number * 7 % 23 for number in range(150)]


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    directory = tmp_path_factory.mktemp("lightning")
    path = write_sample(directory / "sample.parquet", ROWS)
    documents = directory / "documents.parquet"
    write_documents(documents, LENGTHS, group_rows=37, start=1000)
    run_script("lightning_run.py", path, directory, documents)
    return directory


@pytest.fixture(scope="module")
def ranks(directory):
    return reports_of(directory, 2)


def rows_of(batches):
    return sorted(row for batch in batches for row in batch)


def test_every_row_once_an_epoch(ranks):
    runs = [report["whole"]["rows"] for report in ranks]
    assert [len(run) for run in runs] == [3 * BATCHES] * 2
    epochs = [[run[start : start + BATCHES] for run in runs] for start in (0, 5, 10)]
    for epoch in epochs:
        assert rows_of(epoch[0] + epoch[1]) == list(range(ROWS))
    assert epochs[0] != epochs[1] != epochs[2]


def test_resumed_after_every_step(ranks):
    for report in ranks:
        whole = report["whole"]
        # Three updates an epoch.
        delivered = [2, 4, 5, 7, 9, 10, 12, 14]
        for batches, resumed in zip(delivered, report["steps"], strict=True):
            assert resumed["rows"] == whole["rows"][batches:]
            assert resumed["weights"] == whole["weights"]
            assert resumed["epoch"] == whole["epoch"]
        assert report["not resumable"] == 0


def test_resumed_after_an_epoch(ranks):
    for report in ranks:
        for epochs, resumed in enumerate(report["ends"], 1):
            assert resumed["rows"] == report["whole"]["rows"][epochs * BATCHES :]
            assert resumed["weights"] == report["whole"]["weights"]


def test_stopped_and_resumed_with_worker_processes(ranks):
    for report in ranks:
        assert report["stopped"]["rows"] == report["whole"]["rows"][:7]
        assert report["goes on"]["rows"] == report["whole"]["rows"][7:]


def test_loader_that_is_no_callback_is_refused(ranks):
    assert all("write Trainer(callbacks=[loader])" in report["not told"] for report in ranks)


def test_mid_epoch_state_of_other_ranks_is_refused(ranks):
    # Two ranks had 25 batches each, three have 17; after 4 there are 14 more for each of three.
    words = "Expected an epoch of 17 batches, got one of 18 from the state"
    assert all(words in report["other ranks"] for report in ranks)


def test_plain_loaders_without_checkpoints(ranks):
    for start in (0, BATCHES):
        seen = [report["plain"]["rows"][start : start + BATCHES] for report in ranks]
        assert rows_of(seen[0] + seen[1]) == list(range(ROWS))
    validated = [report["plain"]["validated"] for report in ranks]
    assert rows_of(validated[0] + validated[1]) == list(range(ROWS))


def test_waits_are_logged(ranks):
    for report in ranks:
        waited = report["waited"]
        assert waited["steps"] == BATCHES
        assert set(waited["logged"]) == {"data_wait/share", "data_wait/waiting_s"}
        assert 0 < waited["logged"]["data_wait/share"] < 1
        assert 0 < waited["logged"]["data_wait/waiting_s"] <= waited["waiting_s"]


def test_packed_rows_come_in_equal_steps_and_every_token_once(ranks):
    expect_packed_runs(ranks, LENGTHS)


def test_one_process_goes_on_with_the_same_steps_of_packed_rows(ranks, directory):
    alone = json.loads((directory / "alone.json").read_text())
    steps = steps_of_ranks([report["packed"] for report in ranks])
    assert [sorted(tokens) for tokens in alone["tokens"]] == steps[4:]


@pytest.fixture
def modules():
    """Return a model that keeps its batches, and a module whose loader the Trainer gets."""
    import lightning
    import torch

    from fastload.integrations.lightning import ResumableLoader

    class Model(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(1, 1)
            self.rows = []

        def training_step(self, batch, _):
            self.rows.append(batch["id"].tolist())
            return self.linear(batch["price"][:, None]).mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.0)

    class Module(lightning.LightningDataModule):
        def __init__(self, path, *, append=False):
            super().__init__()
            columns = {"id": "id", "price": torch.float32}
            dataset = FastParquetDataset(
                path, columns=columns, batch_size=100, shuffle=True, threads=1, nulls="zero"
            )
            self.loader = ResumableLoader(DataLoader(dataset, batch_size=None))
            self.append = append

        def setup(self, stage):
            if self.append:
                self.trainer.callbacks.append(self.loader)

        def train_dataloader(self):
            return self.loader

    return Model, Module


def trainer_of(directory, *callbacks):
    import lightning

    saver = lightning.pytorch.callbacks.ModelCheckpoint(
        directory, every_n_train_steps=3, save_top_k=-1, filename="{step}"
    )
    return lightning.Trainer(
        max_epochs=2,
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[saver, *callbacks],
    )


@pytest.mark.filterwarnings("ignore")  # of Lightning, on few cores
def test_a_data_module_resumes(modules, tmp_path):
    model_of, module_of = modules
    path = write_sample(tmp_path / "sample.parquet", 1000)
    whole, resumed = model_of(), model_of()
    for model, checkpoint in ((whole, None), (resumed, tmp_path / "step=3.ckpt")):
        module = module_of(path)
        trainer_of(tmp_path, module.loader).fit(model, datamodule=module, ckpt_path=checkpoint)
    assert len(whole.rows) == 20
    assert resumed.rows == whole.rows[3:]


@pytest.mark.filterwarnings("ignore")
def test_a_loader_behind_the_callback_that_saves_is_refused(modules, tmp_path):
    model_of, module_of = modules
    path = write_sample(tmp_path / "sample.parquet", 1000)
    with pytest.raises(RuntimeError, match=r"before callbacks that save .* after ModelCheckpoint"):
        trainer_of(tmp_path).fit(model_of(), datamodule=module_of(path, append=True))
