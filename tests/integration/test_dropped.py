"""A dataset that is dropped ends at once, without Python's garbage collection."""

import gc
import weakref

import pytest

import fastload
from fastload import FastParquetDataset
from support.sample_files import write_sample

ROWS = 400


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_sample(tmp_path_factory.mktemp("dropped") / "sample.parquet", ROWS)


@pytest.fixture
def collected():
    """Let only references to an object keep the object."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def double(block):
    return {"double": block["id"] * 2}


OPTIONS = {
    "plain": {},
    "in order": {"shuffle": False},
    "steps": {"preprocess": double},
    "inline": {"threads": 0},
    "filters": {"filters": [("label", "==", 1)]},
}


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("passes", [0, 1, 3])
@pytest.mark.parametrize("mixed", [False, True])
def test_after_whole_passes(path, collected, options, passes, mixed):
    def make():
        more = {"shuffle": True, "threads": 1, **OPTIONS[options]}
        return FastParquetDataset(path, batch_size=50, rank=0, world_size=1, **more)

    dataset = fastload.mix({"a": make(), "b": make()}, stop="all") if mixed else make()
    for _ in range(passes):
        assert sum(batch.rows for batch in dataset) > 0
    dropped = weakref.ref(dataset)
    del dataset
    assert dropped() is None
