"""Hugging Face's Trainer with two processes: own batches, checkpoints, evaluation."""

import json
import warnings

import pyarrow.parquet as pq
import pytest
import torch

from fastload import FastParquetDataset
from launching import expect_packed_runs, reports_of, require, run_script, steps_of_ranks
from support.sample_files import write_sample
from support.token_files import write_documents

require("transformers")

ROWS = 1000
BATCHES = 10  # of a rank's epoch; updates of 4, 4 and 2 of them
EVALUATED = 901
LENGTHS = [number * 7 % 23 for number in range(150)]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_sample(tmp_path_factory.mktemp("trainer") / "sample.parquet", ROWS)


@pytest.fixture(scope="module")
def directory(path, tmp_path_factory):
    directory = tmp_path_factory.mktemp("ranks")
    documents = directory / "documents.parquet"
    write_documents(documents, LENGTHS, group_rows=37, start=1000)
    run_script("transformers_run.py", path, directory, documents)
    return directory


@pytest.fixture(scope="module")
def ranks(directory):
    return reports_of(directory, 2)


def test_the_plain_trainer_is_refused(ranks):
    for report in ranks:
        assert "use fastload.integrations.transformers.Trainer" in report["plain"]


def test_the_plain_trainer_of_one_process_is_refused(ranks, directory):
    plain = json.loads((directory / "alone.json").read_text())["plain"]
    assert "got one that stacks 8 batches: use fastload.integrations.transformers.Trainer" in plain


def test_a_mix_comes_once_and_resumes(ranks):
    rows = [row for report in ranks for batch in report["mixed"]["rows"] for row in batch]
    assert sorted(rows) == list(range(ROWS))
    for report in ranks:
        assert {len(batch) for batch in report["mixed"]["rows"]} <= {40, 30, 10}
        assert report["mixed, in mid-epoch"]["rows"] == report["mixed"]["rows"][8:]
        assert report["mixed"]["counted"] == ROWS
        assert sorted(report["mixed"]["predicted"]) == list(range(ROWS))


def test_every_row_once_an_epoch(ranks):
    assert [len(report["whole"]["rows"]) for report in ranks] == [3 * BATCHES] * 2
    epochs = [
        [
            row
            for report in ranks
            for batch in report["whole"]["rows"][epoch * BATCHES : (epoch + 1) * BATCHES]
            for row in batch
        ]
        for epoch in range(3)
    ]
    assert all(sorted(epoch) == list(range(ROWS)) for epoch in epochs)
    assert epochs[0] != epochs[1] != epochs[2]


@pytest.mark.parametrize(
    ("how", "delivered"), [("in mid-epoch", 14), ("with a worker", 14), ("at its end", 20)]
)
def test_resumed_run_is_the_run_that_never_stopped(ranks, how, delivered):
    for report in ranks:
        whole, resumed = report["whole"], report[how]
        assert resumed["rows"] == whole["rows"][delivered:]
        assert resumed["weights"] == whole["weights"]
        assert resumed["epoch"] == whole["epoch"] == 3


def test_batches_that_the_trainer_miscounts(ranks):
    for report in ranks:
        assert "Expected to resume after 4 batches of the epoch" in report["miscounted"]
        rest = report["not counted"]["rows"]
        assert rest[:6] == report["whole"]["rows"][14:20]


def test_one_process_goes_on_with_the_rows_that_are_left(ranks, directory):
    alone = json.loads((directory / "alone.json").read_text())
    assert "set ignore_data_skip=True" in alone["counted"]
    delivered = [batch for report in ranks for batch in report["whole"]["rows"][10:14]]
    rows = [row for batch in delivered + alone["rows"][:12] for row in batch]
    assert sorted(rows) == list(range(ROWS))


@pytest.mark.parametrize("uneven", ["keep", "pad"])
def test_every_row_is_evaluated_once(ranks, path, uneven):
    table = pq.read_table(path).slice(0, EVALUATED)
    prices = dict(zip(table["id"].to_pylist(), table["price"].to_pylist(), strict=True))
    for report in ranks:
        rows, labels, loss = report["evaluated"][uneven]
        assert sorted(rows) == list(range(EVALUATED))
        assert [prices[row] for row in rows] == labels
        squares = [price * price for price in prices.values()]
        assert loss == pytest.approx(sum(squares) / EVALUATED, rel=1e-5)


def test_packed_rows_come_in_equal_steps_and_every_token_once(ranks):
    expect_packed_runs(ranks, LENGTHS)


def test_one_process_goes_on_with_the_same_steps_of_packed_rows(ranks, directory):
    alone = json.loads((directory / "alone.json").read_text())["packed"]
    steps = steps_of_ranks([report["packed"] for report in ranks])
    assert [sorted(tokens) for tokens in alone["tokens"]] == steps[4:]


def test_every_token_of_packed_rows_is_evaluated_once(ranks):
    for report in ranks:
        labels = report["packed"]["labels"]
        assert sorted(labels) == [-token for token in range(999 + sum(LENGTHS), 999, -1)]


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(()))

    def forward(self, price, label):
        return {"loss": (self.weight * price - label).square().mean()}


def trainer_of(path, directory, *, rows=100, **arguments):
    import transformers

    from fastload.integrations.transformers import Trainer

    settings = transformers.TrainingArguments(
        str(directory), use_cpu=True, max_steps=2, save_strategy="no", report_to=[]
    )
    columns = {"price": torch.float32, "label": torch.float32}
    dataset = FastParquetDataset(path, columns=columns, batch_size=rows, threads=1)
    return Trainer(Model(), settings, train_dataset=dataset, **arguments)


def masked(rows):
    raise AssertionError(rows)


@pytest.mark.filterwarnings("ignore")  # of torch, on a machine without a GPU
def test_a_data_collator_that_is_not_called_is_warned_about(path, tmp_path):
    from transformers import default_data_collator

    trainer = trainer_of(path, tmp_path, data_collator=masked)
    with pytest.warns(
        UserWarning, match="data_collator has no effect on the batches of a FastParq"
    ):
        trainer.get_train_dataloader()
    for arguments in ({}, {"data_collator": default_data_collator}):
        trainer = trainer_of(path, tmp_path, **arguments)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            trainer.get_train_dataloader()
