"""Batches in memory that torch makes, as pinned memory is; ordinary memory stands in for it."""

import gc
import os
import threading
import weakref

import pytest
import torch
from torch.utils.data import DataLoader

import fastload.dataset.process_engine
from fastload import Batch, FastParquetDataset
from fastload.batch.packing import ordinary_memory
from fastload.batch.pinned_memory import RegisteredMemory, memory_of_batches
from fastload.batch.transfer import begin_transfer
from support.sample_files import ids_of, write_files, write_sample

ROWS = 5000
BATCH = 64


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_sample(tmp_path_factory.mktemp("memory") / "sample.parquet", ROWS, 700)


class Memory:
    """Makes tensors, and knows those that live."""

    def __init__(self):
        self.made = 0
        self.storages = weakref.WeakSet()
        self.elsewhere = 0  # made by a thread of the core

    def __call__(self, size):
        tensor = torch.empty(size, dtype=torch.uint8)
        self.made += 1
        self.elsewhere += threading.current_thread() is not threading.main_thread()
        self.storages.add(tensor.untyped_storage())
        return tensor

    @property
    def starts(self):
        return {storage.data_ptr() for storage in self.storages}


@pytest.fixture
def memory(monkeypatch):
    memory = Memory()
    monkeypatch.setattr(fastload.dataset.process_engine, "memory_of_batches", lambda _: memory)
    return memory


OPTIONS = [{}, {"shuffle": True, "shuffle_window": 900}, {"threads": 0}]


@pytest.mark.parametrize("options", OPTIONS, ids=["in order", "shuffled", "no threads"])
def test_batches_lie_in_that_memory(path, memory, options):
    with FastParquetDataset(path, batch_size=BATCH, **{"threads": 2, **options}) as dataset:
        for _ in range(2):
            ids = []
            for batch in dataset:
                starts = memory.starts
                assert batch["id"].untyped_storage().data_ptr() in starts
                assert batch["name"].values.untyped_storage().data_ptr() in starts
                ids += batch["id"].tolist()
                assert batch["name"].tolist() == [f"row {row}" for row in batch["id"].tolist()]
            assert sorted(ids) == list(range(ROWS))
    del batch, dataset
    gc.collect()
    assert not memory.storages


@pytest.mark.parametrize("threads", [1, 2, 16])
def test_memory_at_the_address_of_a_batch_before(tmp_path, monkeypatch, threads):
    """Allocators reuse addresses at once, while threads may still hold the batch of before."""
    (path,) = write_files(tmp_path, [[500] * 40])
    options = {"batch_size": 96, "shuffle": True, "shuffle_window": 300, "threads": threads}
    with FastParquetDataset(path, pin_memory=False, **options) as dataset:
        expected = ids_of(dataset)
    monkeypatch.setattr(
        fastload.dataset.process_engine, "memory_of_batches", lambda _: ordinary_memory
    )
    with FastParquetDataset(path, **options) as dataset:
        for _ in range(50):
            dataset.set_epoch(0)
            assert ids_of(dataset) == expected


def test_memory_lives_as_long_as_a_column(path, memory):
    dataset = FastParquetDataset(path, batch_size=BATCH, threads=1)
    kept = [batch["id"] for batch in dataset]
    starts = memory.starts
    assert all(column.untyped_storage().data_ptr() in starts for column in kept)
    dataset.close()
    del dataset
    gc.collect()
    assert torch.cat(kept).tolist() == list(range(ROWS))
    kept.clear()
    gc.collect()
    assert not memory.storages


@pytest.mark.parametrize("kept", ["batches", "columns"])
def test_kept_batches_become_copies(path, memory, kept):
    budget = {"memory_budget": "600KB", "threads": 1}
    with FastParquetDataset(path, batch_size=BATCH, **budget) as dataset:
        with pytest.warns(UserWarning, match="memory_budget=600000"):
            batches = [batch if kept == "batches" else {"id": batch["id"]} for batch in dataset]
        assert ids_of(batches) == list(range(ROWS))
        assert dataset.stats().copied_batches > 0
        starts = memory.starts
        assert 0 < sum(b["id"].untyped_storage().data_ptr() in starts for b in batches) < 60


def test_memory_is_put_by_for_threads(path, memory):
    """Later passes find it there: their threads hardly ever wait for the interpreter."""
    with FastParquetDataset(path, batch_size=BATCH, threads=1) as dataset:
        for _ in range(4):
            assert len(ids_of(dataset)) == ROWS
        before = memory.made, memory.elsewhere
        for _ in range(4):
            assert len(ids_of(dataset)) == ROWS
        made, elsewhere = memory.made - before[0], memory.elsewhere - before[1]
        assert made >= 4 * ROWS // BATCH
        assert elsewhere < made / 4


def test_memory_that_is_refused(path, monkeypatch):
    def refuse(size):
        raise MemoryError(size)

    monkeypatch.setattr(fastload.dataset.process_engine, "memory_of_batches", lambda _: refuse)
    with FastParquetDataset(path, batch_size=BATCH) as dataset:  # noqa: SIM117
        with pytest.raises(MemoryError, match="bytes for a batch"):
            next(iter(dataset))


def test_abandoned_passes_and_forks(path, memory):
    dataset = FastParquetDataset(path, batch_size=BATCH, threads=2)
    running = iter(dataset)
    first = next(running)
    child = os.fork()
    if child == 0:
        del running, first, dataset
        gc.collect()
        os._exit(3)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
    assert first["id"].tolist() == list(range(BATCH))
    assert len(ids_of(dataset)) == ROWS
    del running, first, dataset
    gc.collect()
    assert not memory.storages


def test_pinned_memory_without_a_device_is_a_warning(path):
    if torch.cuda.is_available():
        pytest.skip("there is a device to pin for")
    with FastParquetDataset(path, batch_size=BATCH, pin_memory=True) as dataset:
        with pytest.warns(UserWarning, match="pinned memory, got") as told:
            assert ids_of(dataset) == list(range(ROWS))
        assert len(told) == 1


@pytest.mark.parametrize("forked", [False, True])
def test_a_child_that_can_not_use_cuda_pins_nothing(monkeypatch, forked):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "_is_in_bad_fork", lambda: forked)
    assert (memory_of_batches("auto") is None) == forked


def test_pin_memory_takes_a_few_values(path):
    with pytest.raises(ValueError, match="Expected pin_memory to be True, False or 'auto'"):
        FastParquetDataset(path, pin_memory="always")


class Runtime:
    """Has CUDA's two functions, and says what is locked."""

    def __init__(self, error=0):
        self.error = error
        self.locked = {}
        self.calls = 0

    def cudaHostRegister(self, address, size, _flags):  # noqa: N802 - CUDA's name
        self.calls += 1
        if not self.error:
            assert address not in self.locked
            self.locked[address] = size
        return self.error

    def cudaHostUnregister(self, address):  # noqa: N802
        del self.locked[address]


def test_memory_of_workers_is_locked_once(path):
    runtime = Runtime()
    registered = RegisteredMemory(runtime)
    with FastParquetDataset(path, batch_size=BATCH) as dataset:
        loader = DataLoader(dataset, batch_size=None, num_workers=2, timeout=60)
        for batch in loader:
            assert registered(batch._origin)
            start = batch["id"].data_ptr()
            assert any(at <= start < at + size for at, size in runtime.locked.items())
        assert len(runtime.locked) == runtime.calls == 2
        registered.forget_the_dead()
        del batch
    while runtime.locked:  # workers end in their own time
        registered.forget_the_dead()
    registered.close()


def test_refusal_to_lock_is_told_once(path, recwarn):
    registered = RegisteredMemory(Runtime(error=2))
    with FastParquetDataset(path, batch_size=BATCH) as dataset:
        loader = DataLoader(dataset, batch_size=None, num_workers=1, timeout=60)
        assert not any(registered(batch._origin) for batch in loader)
    assert len([w for w in recwarn if "Cannot lock" in str(w.message)]) == 1


@pytest.mark.parametrize("workers", [0, 1])
def test_a_batch_goes_to_a_device_in_one_copy(path, workers):
    asked = []

    def ordinary(size):
        asked.append(size)
        return torch.empty(size, dtype=torch.uint8)

    with FastParquetDataset(path, batch_size=BATCH) as dataset:
        batch = next(iter(DataLoader(dataset, batch_size=None, num_workers=workers)))
        transfer, sources = begin_transfer(batch, torch.device("cpu"), ordinary, lambda _: False)
        assert asked == [len(batch._origin.block)]
        assert transfer.whole
        assert len(sources) == len(transfer.targets) == 1
        there = transfer.batch
        assert isinstance(there, Batch)
        assert list(there) == list(batch)
        assert there["name"] == batch["name"]
        start = transfer.targets[0].data_ptr()
        for name in ("id", "label", "price"):
            assert torch.equal(there[name], batch[name])
            assert there[name].untyped_storage().data_ptr() == start
        # What was put in since goes with the rest, in one block too.
        batch["more"] = torch.full((3,), -7)
        there = begin_transfer(batch, torch.device("cpu"), ordinary)[0].batch
        assert torch.equal(there["more"], batch["more"])
        assert torch.equal(there["id"], batch["id"])
