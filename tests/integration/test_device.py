"""Batches handed out on a device: in order, and with the state of what was handed out.

The device "meta" has tensors without values; batches are read ahead for it as for any other.
"""

import gc
import itertools
import json
import weakref

import pytest
import torch
from torch.utils import _pytree as pytree
from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader

import fastload
from fastload import Batch, DevicePrefetcher, FastParquetDataset
from fastload.testing import assert_same_batches
from support.sample_files import ids_of, write_sample

ROWS = 777
BATCHES = 16


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_sample(tmp_path_factory.mktemp("device") / "sample.parquet", ROWS)


@pytest.fixture
def dataset(path):
    with dataset_of(path) as dataset:
        yield dataset


def dataset_of(path, **options):
    return FastParquetDataset(
        path, batch_size=50, shuffle=True, threads=1, memory_budget="64MB", **options
    )


def loader_of(dataset, workers):
    return DataLoader(dataset, batch_size=None, num_workers=workers)


def stateful_loader_of(dataset, workers):
    return StatefulDataLoader(dataset, batch_size=None, num_workers=workers)


def the_dataset(dataset, workers):
    return dataset


LOADERS = [
    (the_dataset, 0),
    (loader_of, 0),
    (loader_of, 2),
    (stateful_loader_of, 0),
    (stateful_loader_of, 2),
]


class Source:
    """A loader of numbered batches that counts them, and knows what became of them."""

    def __init__(self, batches, error=None):
        self.batches = batches
        self.error = error
        self.read = 0
        self.closed = 0
        self.living = weakref.WeakSet()

    def __iter__(self):
        try:
            for number in range(self.batches):
                self.read += 1
                yield self._batch(number)
            if self.error is not None:
                raise self.error
        finally:
            self.closed += 1

    def _batch(self, number):
        tensor = torch.full((number + 1,), number)
        self.living.add(tensor)
        return {"x": tensor}


@pytest.mark.parametrize(("wrap", "workers"), LOADERS)
def test_batches_and_states_are_those_of_the_loader(path, wrap, workers):
    with dataset_of(path) as dataset:
        batches = [batch.clone() for batch in loader_of(dataset, workers)]
        states = [dataset.state_dict(after=batch) for batch in batches]
        following = ids_of(loader_of(dataset, workers))
    assert len(batches) == BATCHES
    with dataset_of(path) as dataset:
        on_cpu = DevicePrefetcher(wrap(dataset, workers), "cpu")
        got = []
        for batch, state in zip(on_cpu, states, strict=True):
            got.append(batch.clone())
            assert on_cpu.state_dict() == state
        assert_same_batches(got, batches)
        assert ids_of(on_cpu) == following
    with dataset_of(path) as dataset:
        ahead = DevicePrefetcher(wrap(dataset, workers), "meta", depth=3)
        assert len(ahead) == BATCHES
        for number, batch in enumerate(ahead):
            assert ahead.state_dict() == dataset.state_dict(after=batch) == states[number]
            assert all(tensor.is_meta for tensor in pytree.tree_leaves(batch))
            assert batch["name"].device.type == "meta"
            assert len(ahead) == BATCHES
        assert number == BATCHES - 1
    for stop in (1, 7, BATCHES - 1, BATCHES):
        with dataset_of(path) as dataset:
            resumed = DevicePrefetcher(wrap(dataset, workers), "cpu")
            resumed.load_state_dict(json.loads(json.dumps(states[stop - 1])))
            if stop < BATCHES:
                assert_same_batches(resumed, batches[stop:])
            assert ids_of(resumed) == following


def test_a_state_is_taken_behind_what_was_read_ahead(path, dataset):
    ahead = DevicePrefetcher(dataset, "meta", depth=4)
    ahead.set_epoch(3)
    assert ahead.state_dict()["epoch"] == 3
    list(itertools.islice(ahead, 5))
    state = ahead.state_dict()
    assert state["progress"] == [[1, 1, 5]]
    assert dataset.state_dict()["progress"] == [[1, 1, 9]]
    ahead.load_state_dict(state)
    assert ahead.state_dict() == state
    assert sum(1 for _ in ahead) == BATCHES - 5
    # In the dataset itself, and on another number of ranks.
    with dataset_of(path, rank=0, world_size=2) as first:
        first.load_state_dict(state)
        assert sum(batch.rows for batch in DevicePrefetcher(first, "cpu")) == (ROWS - 250 + 1) // 2


def test_a_prefetcher_for_each_epoch(dataset):
    epochs = []
    for _ in range(3):
        prefetcher = DevicePrefetcher(loader_of(dataset, 1), "meta")
        assert sum(1 for _ in prefetcher) == BATCHES
        epochs.append(prefetcher.state_dict()["epoch"])
    assert epochs == [0, 1, 2]


def test_sources_of_a_mix(tmp_path):
    paths = {name: write_sample(tmp_path / f"{name}.parquet", 300) for name in "ab"}
    datasets = {name: dataset_of(path) for name, path in paths.items()}
    with fastload.mix(datasets, stop="all") as mixed:
        sources = [batch.source for batch in mixed]
        assert set(sources) == {"a", "b"}
        mixed.set_epoch(0)
        ahead = DevicePrefetcher(loader_of(mixed, 0), "meta")
        got = []
        for batch in itertools.islice(ahead, 4):
            got.append(batch.source)
            assert ahead.state_dict() == mixed.state_dict(after=batch)
        assert got == sources[:4]
        ahead.load_state_dict(ahead.state_dict())
        assert [batch.source for batch in ahead] == sources[4:]


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_no_more_than_depth_batches_are_ahead(depth):
    source = Source(12)
    taken = 0
    for taken, batch in enumerate(DevicePrefetcher(source, "meta", depth), 1):
        assert batch["x"].shape == (taken,)
        assert source.read == min(taken + depth, 12)
        assert not source.living  # the host's memory is free as soon as it is copied
    assert taken == 12
    short = Source(2)
    assert len(list(DevicePrefetcher(short, "meta", depth))) == 2
    on_cpu = Source(12)
    for taken, _ in enumerate(DevicePrefetcher(on_cpu, "cpu", depth), 1):
        assert on_cpu.read == taken


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("batches", [0, 1, 4])
def test_errors_come_after_the_batches_before_them(device, batches):
    prefetcher = DevicePrefetcher(Source(batches, ArithmeticError("of the loader")), device)
    for _ in range(2):
        running = iter(prefetcher)
        got = [batch["x"].shape for batch in itertools.islice(running, batches)]
        assert got == [(number + 1,) for number in range(batches)]
        with pytest.raises(ArithmeticError, match="of the loader"):
            next(running)
        over = f"^ArithmeticError ended this pass after {batches} "
        with pytest.raises(RuntimeError, match=over):
            next(running)


def test_a_batch_that_cannot_be_moved_comes_after_those_before_it():
    running = iter(DevicePrefetcher([torch.ones(1), torch.ones(2), object()], "meta"))
    assert [next(running).shape, next(running).shape] == [(1,), (2,)]
    with pytest.raises(TypeError, match="got object, which cannot lie on a device - at batch"):
        next(running)


def test_an_interrupt_comes_at_once():
    running = iter(DevicePrefetcher(Source(3, KeyboardInterrupt()), "meta", depth=5))
    with pytest.raises(KeyboardInterrupt):
        next(running)


@pytest.mark.parametrize("end", ["close", "leave", "drop", "next pass"])
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_an_abandoned_pass_leaves_nothing(end, device):
    source = Source(9)
    prefetcher = DevicePrefetcher(source, device)
    gc.disable()  # no cycle holds memory
    try:
        if end == "leave":
            for _batch in prefetcher:
                break
            del _batch
        else:
            running = iter(prefetcher)
            kept = weakref.ref(next(running)["x"])
            if end == "close":
                prefetcher.close()
                prefetcher.close()
                with pytest.raises(RuntimeError, match=r"close\(\) of the DevicePrefetcher ended"):
                    next(running)
            elif end == "drop":
                del running
            else:
                again = iter(prefetcher)
                with pytest.raises(RuntimeError, match=r"A second iter\(\) of the DevicePref"):
                    next(running)
                assert next(again)["x"].shape == (1,)
                again.close()
            assert kept() is None
        assert source.closed == 1 + (end == "next pass")
        assert not source.living
    finally:
        gc.enable()
    assert len(list(prefetcher)) == 9


def test_an_abandoned_pass_of_a_dataset(dataset):
    ahead = DevicePrefetcher(dataset, "meta")
    first = iter(ahead)
    next(first)
    assert ahead.state_dict()["progress"] == [[1, 1, 1]]
    second = iter(ahead)
    next(second)
    with pytest.raises(RuntimeError, match="ended this pass after 1 batches"):
        next(first)
    assert ahead.state_dict()["epoch"] == 1
    state = ahead.state_dict()
    with pytest.raises(ValueError, match=r"Expected a state made by state_dict\(\)"):
        ahead.load_state_dict({})
    next(second)
    ahead.load_state_dict(state)
    with pytest.raises(RuntimeError, match=r"load_state_dict\(\) ended this pass after 2 batches"):
        next(second)
    assert sum(1 for _ in ahead) == BATCHES - 1
    ahead.close()
    assert dataset.state_dict()["epoch"] == 1


def test_batches_of_a_collate_fn(dataset):
    loader = DataLoader(dataset, batch_size=None, collate_fn=dict)
    prefetcher = DevicePrefetcher(loader, "meta")
    batch = next(iter(prefetcher))
    assert type(batch) is dict
    assert batch["id"].is_meta
    with pytest.raises(ValueError, match="got Batch without a position"):
        prefetcher.state_dict()


def test_a_loader_without_a_dataset():
    batches = [Batch({"x": torch.arange(number)}) for number in range(4)]
    prefetcher = DevicePrefetcher(batches, torch.device("cpu"))
    assert len(prefetcher) == 4
    assert_same_batches(prefetcher, batches)
    for call in (
        prefetcher.state_dict,
        lambda: prefetcher.load_state_dict({}),
        lambda: prefetcher.set_epoch(1),
    ):
        with pytest.raises(TypeError, match=r"Expected a DataLoader.*got list around NoneType"):
            call()
    # A generator is its owner's to close.
    numbers = (torch.full((1,), number) for number in range(5))
    for batch in DevicePrefetcher(numbers, "cpu"):
        assert batch.tolist() == [0]
        break
    assert next(numbers).tolist() == [1]


def test_a_dataloader_around_a_prefetcher_is_told_the_order(dataset):
    loader = DataLoader(DevicePrefetcher(dataset, "cpu"), batch_size=None)
    with pytest.raises(TypeError, match=r"no item \[0\]: .* DevicePrefetcher\(DataLoader\(ds"):
        next(iter(loader))


def test_wrong_arguments():
    for depth in (0, -1):
        with pytest.raises(ValueError, match=f"Expected depth to be at least 1, got {depth}"):
            DevicePrefetcher([], "cpu", depth)
    for depth in (True, 1.0, "2", None):
        with pytest.raises(TypeError, match="Expected depth as an int, got"):
            DevicePrefetcher([], "cpu", depth)
    with pytest.raises(ValueError, match="Expected a device that torch has, got 'nonsense'"):
        DevicePrefetcher([], "nonsense")
    count = torch.cuda.device_count()
    for device in (f"cuda:{count}", count, torch.device("cuda", count)):
        with pytest.raises(ValueError, match=r"Expected (a|one of).* device.*, got"):
            DevicePrefetcher([], device)
    with pytest.raises(TypeError, match="Expected loader to be iterable, got int"):
        DevicePrefetcher(3, "cpu")
    with pytest.raises(TypeError):
        DevicePrefetcher([], None)
