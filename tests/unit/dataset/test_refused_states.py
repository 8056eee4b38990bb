"""A state that a framework's loader refuses leaves the dataset where it was."""

import json
from types import SimpleNamespace

import pytest
import torch
from torch.utils.data import DataLoader

import fastload
from fastload import FastParquetDataset
from support.sample_files import ids_of, write_sample


def load_by_lightning(loader, state):
    lightning = pytest.importorskip("fastload.integrations.lightning")
    lightning.ResumableLoader(loader).load_state_dict(state)


def load_by_transformers(loader, state):
    transformers = pytest.importorskip("fastload.integrations.transformers")
    args = SimpleNamespace(gradient_accumulation_steps=1, ignore_data_skip=False)
    saved = {"DatasetPlace": {"attributes": {"place": state}}}
    run = SimpleNamespace(stateful_callbacks=saved, global_step=3)
    into = transformers.TrainLoader(loader)
    transformers.DatasetPlace().on_train_begin(args, run, None, train_dataloader=into)


@pytest.mark.parametrize(
    ("load", "message"),
    [(load_by_lightning, "Expected an epoch of"), (load_by_transformers, "Expected to resume")],
)
def test_a_refused_state_is_not_loaded(tmp_path, load, message):
    path = write_sample(tmp_path / "sample.parquet", 100)
    with FastParquetDataset(path, batch_size=5, rank=0, world_size=2) as dataset:
        running = iter(dataset)
        next(running), next(running)
        state = dataset.state_dict()
    with FastParquetDataset(path, batch_size=5, rank=0, world_size=3) as dataset:
        before = dataset.state_dict()
        with pytest.raises(ValueError, match=message):
            load(DataLoader(dataset, batch_size=None), state)
        assert dataset.state_dict() == before
        assert ids_of(dataset) == list(range(34))


def test_what_is_no_state_is_named_in_few_words(tmp_path):
    path = write_sample(tmp_path / "sample.parquet", 100)
    with FastParquetDataset(path) as dataset, FastParquetDataset(path) as source:
        state = dataset.state_dict()
        checkpoint = {"model": {"weight": torch.ones(100, 100)}, "data": state}
        with pytest.raises(ValueError, match=r"keys .'model', 'data'.*under 'data'$") as refused:
            dataset.load_state_dict(checkpoint)
        assert "tensor" not in str(refused.value)
        with fastload.mix({"a": source}) as mixed:
            with pytest.raises(ValueError, match="this state is one of a dataset, and a mix"):
                mixed.load_state_dict(state)
            with pytest.raises(ValueError, match="this state is one of a mix, so load it into"):
                dataset.load_state_dict(mixed.state_dict())


def test_a_state_of_other_slices_says_which_number_to_pass(tmp_path):
    path = write_sample(tmp_path / "sample.parquet", 96)
    with FastParquetDataset(path, global_batch_size=8, rank=0, world_size=4) as dataset:
        next(iter(dataset))
        state = dataset.state_dict()
    on_two = {"global_batch_size": 8, "rank": 0, "world_size": 2}
    refused = pytest.raises(ValueError, match=r"pass canonical_ranks=4: .*number of ranks\)$")
    with FastParquetDataset(path, **on_two) as dataset, refused:
        dataset.load_state_dict(state)
    with FastParquetDataset(path, **on_two, canonical_ranks=4) as dataset:
        dataset.load_state_dict(state)
        assert len(list(dataset)) == 11


def test_slices_that_nobody_named_are_explained(tmp_path):
    path = write_sample(tmp_path / "sample.parquet", 100)
    with pytest.raises(ValueError, match=r"got 8 \(without canonical_ranks=, .* of ranks\)$"):
        FastParquetDataset(path, global_batch_size=8, rank=0, world_size=3)


def test_a_finished_epoch_is_followed_by_the_next_unless_it_is_set(tmp_path):
    path = write_sample(tmp_path / "sample.parquet", 100)
    with FastParquetDataset(path, batch_size=50, shuffle=True) as dataset:
        list(dataset)
        state, after = dataset.state_dict(), ids_of(dataset)
    with FastParquetDataset(path, batch_size=50, shuffle=True) as dataset:
        dataset.load_state_dict(state)
        assert ids_of(dataset) == after
        dataset.load_state_dict(state)
        dataset.set_epoch(0)
        assert ids_of(dataset) == []


def test_a_state_with_many_values_in_its_filters_is_short(tmp_path):
    path = write_sample(tmp_path / "sample.parquet", 100)
    filters = [("id", "in", list(range(1000)))]
    with FastParquetDataset(path, filters=filters, split=("id", 0, 0.5)) as dataset:
        state = dataset.state_dict()
        assert len(json.dumps(state)) < 600
        state["order"]["filters"] = state["order"]["filters"][:-1] + "x"
        with pytest.raises(ValueError, match="Expected filters="):
            dataset.load_state_dict(state)
