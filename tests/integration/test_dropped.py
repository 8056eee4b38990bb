"""A dataset that is dropped ends at once, without Python's garbage collection."""

import gc
import os
import time
import weakref
from contextlib import suppress
from itertools import islice, product
from pathlib import Path

import numpy as np
import pytest
from torch.utils.data import DataLoader

import fastload
from fastload import FastParquetDataset, Pack, TokenBudget, per_block, per_row
from support.damage import damage, write_groups

GROUPS = [100] * 4


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_groups(tmp_path_factory.mktemp("dropped") / "sample.parquet", GROUPS)


@pytest.fixture(scope="module")
def damaged(tmp_path_factory):
    path = write_groups(tmp_path_factory.mktemp("dropped") / "damaged.parquet", GROUPS)
    damage(path, 1, "id")
    return path


@pytest.fixture
def collected():
    """Let only references to an object keep the object."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def double(block):
    return {"double": block["id"] * 2}


def shifted(batch, seeds):
    return {"shifted": np.asarray(batch["id"]) + (seeds % 7).astype(np.int64)}


OPTIONS = {
    "shuffled": {},
    "in order": {"shuffle": False},
    "many windows": {"shuffle_window": 60},
    "inline": {"threads": 0},
    "steps": {"preprocess": double, "augment": shifted},
    "filters": {"filters": [("id", ">", 90)]},
    "cache": {"cache": True},
    "cache and steps": {"cache": True, "preprocess": double, "augment": shifted},
    "weights": {"weights": "id"},
    "pack": {"pack": Pack("items", 16), "columns": ["items"], "batch_size": 4},
    "tokens": {"batch_size": TokenBudget("items", 100)},
    "ranks": {"global_batch_size": 40, "canonical_ranks": 2},
    "skip": {"on_error": "skip"},
}


@pytest.fixture
def make(path, damaged, tmp_path):
    """Makes a dataset with options of OPTIONS."""

    def made(options):
        more = {"batch_size": 50, "shuffle": True, "threads": 1, **OPTIONS[options]}
        if "global_batch_size" in more:
            del more["batch_size"]
        if "cache" in more:
            more["cache"] = tmp_path / "cache"
        source = damaged if options == "skip" else path
        return FastParquetDataset(source, rank=0, world_size=1, **more)

    return made


@pytest.mark.parametrize("options", ["shuffled", "in order", "steps", "inline", "filters"])
@pytest.mark.parametrize("passes", [0, 1, 3])
@pytest.mark.parametrize("mixed", [False, True])
def test_after_whole_passes(make, collected, options, passes, mixed):
    dataset = fastload.mix({k: make(options) for k in "ab"}, stop="all") if mixed else make(options)
    for _ in range(passes):
        assert sum(batch.rows for batch in dataset) > 0
    dropped = weakref.ref(dataset)
    del dataset
    assert dropped() is None


def held():
    """Return the names of the core's threads, and the targets of this process's descriptors."""
    threads = []
    for task in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # a thread that ends meanwhile
            threads.append((task / "comm").read_text().strip())
    descriptors = [os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")]
    return sorted(name for name in threads if name.startswith("fastload")), sorted(descriptors)


READERS = {
    "dataset": lambda dataset, _: dataset,
    "mix": lambda dataset, other: fastload.mix({"a": dataset, "b": other}, stop="repeat"),
    "loader": lambda dataset, _: DataLoader(dataset, batch_size=None),
    "by number": lambda dataset, _: DataLoader(dataset.by_index(), batch_size=10),
}


@pytest.mark.filterwarnings("ignore:Row group")
@pytest.mark.parametrize(
    ("reader", "options"),
    [
        *product(["dataset"], OPTIONS),
        *product(["mix"], [name for name in OPTIONS if name != "rows"]),
        *product(["loader", "by number"], ["shuffled", "steps"]),
    ],
)
def test_in_mid_pass(make, collected, reader, options):
    before = held()
    dataset = make(options)
    read = READERS[reader](dataset, make(options) if reader == "mix" else None)
    ended = list(islice(read, 3))
    running = iter(read)
    ended += [next(running), next(running)]
    dropped = [weakref.ref(dataset), weakref.ref(read)]
    del ended, running, read, dataset
    assert [kept() for kept in dropped] == [None, None]
    deadline = time.monotonic() + 20
    while held() != before and time.monotonic() < deadline:  # a thread may end a little later
        time.sleep(0.01)
    assert held() == before


def refusing(value, *_):
    raise ValueError("refused")


STEPS = {
    "plain": {"preprocess": refusing},
    "blocks": {"preprocess": per_block(refusing)},
    "rows": {"preprocess": per_row(refusing, inputs="id", outputs="more")},
    "rows inline": {"preprocess": per_row(refusing, inputs="id", outputs="more", threads=0)},
    "augment": {"augment": lambda batch, seeds: refusing(batch)},
}


@pytest.mark.parametrize("step", STEPS)
def test_after_an_error_of_a_step(path, collected, step):
    before = held()
    dataset = FastParquetDataset(path, batch_size=50, shuffle=True, threads=1, **STEPS[step])
    running = iter(dataset)
    with pytest.raises((ValueError, RuntimeError), match="refused"):
        next(running)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="Error ended this pass: call iter"):
            next(running)
    dropped = weakref.ref(dataset)
    del dataset, running
    assert dropped() is None
    deadline = time.monotonic() + 20
    while held() != before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert held() == before


@pytest.mark.parametrize("reads", [lambda ds: next(iter(ds)), lambda ds: ds.warm_cache(False)])
@pytest.mark.parametrize("step", [step for step in STEPS if step != "augment"])
def test_after_an_error_of_a_step_with_a_cache(path, tmp_path, collected, step, reads):
    cache = fastload.Cache(tmp_path, key="1")
    dataset = FastParquetDataset(path, batch_size=50, threads=1, cache=cache, **STEPS[step])
    for _ in range(2):
        with pytest.raises((ValueError, RuntimeError), match="refused"):
            reads(dataset)
    dropped = weakref.ref(dataset)
    del dataset
    assert dropped() is None


def test_the_iterator_outlives_the_dataset(make, collected):
    rows = [batch["id"].tolist() for batch in make("many windows")]
    assert [batch["id"].tolist() for batch in iter(make("many windows"))] == rows
