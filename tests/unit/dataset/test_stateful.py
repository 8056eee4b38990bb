"""What the loaders for frameworks wrap."""

from itertools import islice

import pytest
from torch.utils.data import DataLoader

import fastload
from fastload import Batch, FastParquetDataset
from fastload.dataset.loaders.stateful import StatefulLoader, position_only, read_dataset
from support.sample_files import ids_of, write_sample

ROWS = 1000


@pytest.fixture
def dataset(tmp_path):
    path = write_sample(tmp_path / "sample.parquet", ROWS)
    with FastParquetDataset(path, batch_size=100, shuffle=True, threads=1) as dataset:
        yield dataset


def test_a_state_needs_a_dataset(dataset):
    with pytest.raises(TypeError, match=r"Expected a DataLoader.*got DataLoader around list"):
        read_dataset(DataLoader([1, 2, 3]))
    with pytest.raises(TypeError, match="got list around NoneType"):
        StatefulLoader([1, 2, 3]).state_dict()
    assert read_dataset(DataLoader(dataset, batch_size=None)) is read_dataset(dataset) is dataset


def test_state_before_the_first_batch(dataset):
    loader = StatefulLoader(DataLoader(dataset, batch_size=None))
    assert len(loader) == 10
    loader.set_epoch(5)
    assert loader.state_dict()["epoch"] == 5
    state = dataset.state_dict(after=list(islice(dataset, 4))[-1])
    loader.load_state_dict(state)
    assert loader.state_dict() == state
    assert loader._delivered_before == 4
    assert len(ids_of(dataset)) == ROWS - 400
    assert loader._delivered_before == 0


def test_place_holds_no_memory(dataset):
    batch = next(iter(dataset))
    place = position_only(batch)
    assert place == Batch()
    assert dataset.state_dict(after=place) == dataset.state_dict(after=batch)
    with pytest.raises(TypeError, match="Expected a Batch, got tuple"):
        position_only((batch["id"], batch["label"]))


def test_mixes_have_a_place_too(tmp_path):
    paths = {name: write_sample(tmp_path / f"{name}.parquet", ROWS) for name in "ab"}
    with fastload.mix(
        {name: FastParquetDataset(path, batch_size=100, threads=1) for name, path in paths.items()},
        stop="all",
    ) as mixed:
        loader = StatefulLoader(DataLoader(mixed, batch_size=None))
        whole = [batch["id"].tolist() for batch in mixed]
        mixed.set_epoch(0)
        state = mixed.state_dict(after=list(islice(mixed, 7))[-1])
        loader.load_state_dict(state)
        assert [batch["id"].tolist() for batch in mixed] == whole[7:]
