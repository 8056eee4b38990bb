"""What the loaders for frameworks wrap."""

from itertools import islice

import pytest
from torch.utils.data import DataLoader

from fastload import Batch, FastParquetDataset
from fastload.integrations.resumable import Resumable, place_of
from sample_files import ids_of, write_sample

ROWS = 1000


@pytest.fixture
def dataset(tmp_path):
    path = write_sample(tmp_path / "sample.parquet", ROWS)
    with FastParquetDataset(path, batch_size=100, shuffle=True, threads=1) as dataset:
        yield dataset


def test_other_loaders_are_refused(dataset):
    with pytest.raises(TypeError, match=r"Expected a DataLoader.*got DataLoader around list"):
        Resumable(DataLoader([1, 2, 3]))
    with pytest.raises(TypeError, match="got FastParquetDataset around NoneType"):
        Resumable(dataset)


def test_state_before_the_first_batch(dataset):
    loader = Resumable(DataLoader(dataset, batch_size=None))
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
    place = place_of(batch)
    assert place == Batch()
    assert dataset.state_dict(after=place) == dataset.state_dict(after=batch)
    with pytest.raises(TypeError, match="Expected a Batch, got tuple"):
        place_of((batch["id"], batch["label"]))
