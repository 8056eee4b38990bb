"""Accelerate with two processes: own batches, accumulated gradients, checkpoints in mid-epoch."""

import pytest
import torch

from fastload import FastParquetDataset
from launching import reports_of, require, rows_of, run_script
from support.sample_files import ids_of, write_sample

require("accelerate")

ROWS = 1000
BATCHES = 10


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_sample(tmp_path_factory.mktemp("accelerate") / "sample.parquet", ROWS)


@pytest.fixture(scope="module")
def directory(path, tmp_path_factory):
    directory = tmp_path_factory.mktemp("ranks")
    run_script("accelerate_run.py", path, directory)
    return directory


@pytest.fixture(scope="module")
def ranks(directory):
    return reports_of(directory, 2)


def test_a_second_split_is_refused_in_every_process(ranks):
    for report in ranks:
        for how, words in (("dispatched", "dispatches from the main process"), ("sharded", "once")):
            assert words in report[how]
            assert "write fastload.integrations.accelerate.prepare" in report[how]


def test_the_split_may_be_left_to_accelerate(ranks):
    assert rows_of(ranks, "split") == list(range(ROWS))


def test_every_row_once_an_epoch(ranks):
    for epoch in ("epoch 0", "epoch 1", "epoch 2"):
        assert [len(report[epoch]) for report in ranks] == [BATCHES, BATCHES]
        assert rows_of(ranks, epoch) == list(range(ROWS))
    assert ranks[0]["epoch 0"] != ranks[0]["epoch 1"] != ranks[0]["epoch 2"]
    assert ranks[0]["lengths"] == [BATCHES, BATCHES - 4]


def test_gradients_are_accumulated_to_the_last_batch(ranks):
    assert all(report["synced"] == [3, 7, 9] for report in ranks)


def test_goes_on_in_mid_epoch(ranks):
    for report in ranks:
        assert report["resumed"] == report["epoch 1"][6:]
        assert report["resumed, epoch 2"] == report["epoch 2"]


def test_skip_first_batches(ranks):
    for report in ranks:
        assert report["loaded and skipped"] == report["epoch 1"][6:]
        assert report["skipped"] == report["epoch 1"][6:8]
        assert report["skipped and resumed"] == report["epoch 1"][8:]


def test_checkpoint_serves_a_process_that_is_alone(ranks, directory, path):
    file = directory / "second" / "custom_checkpoint_0.pkl"
    state = torch.load(file)
    with FastParquetDataset(path, batch_size=50, shuffle=True, shuffle_window=200) as dataset:
        dataset.load_state_dict(state)
        rest = ids_of(dataset)
    delivered = [row for report in ranks for batch in report["epoch 1"][:8] for row in batch]
    assert sorted(rest + delivered) == list(range(ROWS))
