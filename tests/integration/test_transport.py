"""From a worker process to the one that trains: through shared memory, and without a copy."""

import gc
import inspect
import multiprocessing
import os
import pickle
import re
import resource
import time
from functools import partial
from multiprocessing import connection
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch.utils.data import DataLoader, get_worker_info

from fastload import Batch, Column, FastParquetDataset, Pad, Ragged, Stack
from fastload.batch import transport
from fastload.runtime.cores import available_cores
from support.sample_files import ids_of, write_sample
from support.shared_memory import own_files, semaphore_prefix

ROWS = 1000
BATCH = 64
TIMEOUT_S = 60


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_sample(tmp_path_factory.mktemp("transport") / "sample.parquet", ROWS)


@pytest.fixture(scope="module")
def wide_path(tmp_path_factory):
    """Forty columns of numbers, and text, lists and nulls of some."""
    rng = np.random.default_rng(3)
    lists = [list(range(k % 5)) for k in range(ROWS)]
    table = pa.table(
        {
            **{f"f{k}": rng.random(ROWS, np.float32) for k in range(14)},
            **{f"i{k}": rng.integers(0, 99, ROWS) for k in range(26)},
            "text": [None if k % 7 == 0 else "x" * (k % 11) for k in range(ROWS)],
            "lists": pa.array(lists, pa.list_(pa.int16())),
            "nested": pa.array([[row, row[:1]] for row in lists], pa.list_(pa.list_(pa.int64()))),
        }
    )
    path = tmp_path_factory.mktemp("transport") / "wide.parquet"
    pq.write_table(table, path, row_group_size=200)
    return str(path)


def wide_dataset(path, **options):
    columns = {
        **{name: name for k in range(14) for name in (f"f{k}", f"i{k}")},
        "stack": Stack([f"i{k}" for k in range(14, 26)], dtype=torch.float32),
        "text": Column("text", fill="?", valid=True),
        "lists": "lists",
        "padded": Pad("lists", 3),
        "nested": "nested",
    }
    return FastParquetDataset(path, columns=columns, batch_size=BATCH, threads=1, **options)


def loader_of(dataset, **options):
    options = {"num_workers": 2, "timeout": TIMEOUT_S, **options}
    return DataLoader(dataset, batch_size=None, **options)


def same(one, other):
    """Whether two batches hold the same values under the same names, in the same order."""
    if list(one) != list(other):
        return False
    pairs = zip(one.values(), other.values(), strict=True)
    return all(
        a == b if isinstance(a, Ragged) else a.dtype == b.dtype and torch.equal(a, b)
        for a, b in pairs
    )


@pytest.mark.parametrize("context", ["fork", "spawn", "forkserver"])
def test_values_are_those_of_this_process(wide_path, context):
    with wide_dataset(wide_path, provenance=True) as dataset:
        expected = {int(b["__row__"][0]): b for b in map(Batch.clone, dataset)}
        loader = loader_of(dataset, multiprocessing_context=context)
        batches = list(loader)
        assert len(batches) == len(expected)
        for batch in batches:
            assert same(batch, expected.pop(int(batch["__row__"][0])))


@pytest.mark.parametrize(
    "options",
    [
        {"prefetch_factor": 8, "persistent_workers": True},
        pytest.param(
            {"in_order": False},
            marks=pytest.mark.skipif(
                "in_order" not in inspect.signature(DataLoader).parameters,
                reason="older torch has no such option",
            ),
        ),
        {"num_workers": 3, "worker_init_fn": lambda _: torch.manual_seed(1)},
    ],
    ids=["far ahead", "any order", "init function"],
)
def test_options_of_the_loader(path, options):
    with FastParquetDataset(path, batch_size=BATCH, shuffle=True) as dataset:
        loader = loader_of(dataset, **options)
        for _ in range(2):
            assert sorted(ids_of(loader)) == list(range(ROWS))


class Messages:
    """The largest message that a worker has sent, and how many."""

    def __init__(self):
        context = multiprocessing.get_context("fork")
        self.largest = context.Value("q", 0)
        self.count = context.Value("q", 0)

    def __call__(self, _):
        send = connection.Connection._send_bytes

        def counted(sender, data):
            with self.largest:
                self.largest.value = max(self.largest.value, len(data))
                self.count.value += 1
            send(sender, data)

        connection.Connection._send_bytes = counted


def test_less_than_a_kibibyte_crosses(wide_path):
    messages = Messages()
    with wide_dataset(wide_path) as dataset:
        loader = loader_of(
            dataset, num_workers=1, worker_init_fn=messages, multiprocessing_context="fork"
        )
        batches = list(loader)
    assert messages.count.value >= len(batches)
    assert 0 < messages.largest.value < 1024


def threads_of_worker(expected, _batch):
    """Threads of torch and of the core; those of the core take a moment to have their name."""
    until = time.monotonic() + 10
    while True:
        tasks = Path("/proc/self/task").glob("*/comm")
        found = [task.read_text() for task in tasks].count("fastload-cpu\n")
        if found >= expected or time.monotonic() > until:
            return torch.get_num_threads(), found
        time.sleep(0.01)


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("workers", [1, 2])
def test_cores_are_divided_among_ranks_and_workers(path, workers, ranks, monkeypatch):
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(ranks))
    expected = max(1, available_cores() // ranks // workers)
    with FastParquetDataset(path, batch_size=BATCH) as dataset:
        collate = partial(threads_of_worker, expected)
        loader = loader_of(dataset, num_workers=workers, collate_fn=collate)
        assert set(loader) == {(1, expected)}


def test_memory_of_the_dead_is_forgotten_where_no_end_is_told(path, monkeypatch):
    monkeypatch.setattr(transport, "call_at_end_of", lambda *_: None)
    assert gone(0)
    dataset = FastParquetDataset(path, batch_size=BATCH)
    for _ in range(4):
        assert sorted(ids_of(loader_of(dataset))) == list(range(ROWS))
    assert mappings() == 2  # of the workers of the last pass
    transport._forget_ended_processes()
    assert gone(0)


def test_nothing_goes_through_dev_shm(path, monkeypatch):
    config = multiprocessing.process.current_process()._config
    monkeypatch.setitem(config, "semprefix", semaphore_prefix())
    shm = Path("/dev/shm")
    before = set(shm.iterdir())
    with FastParquetDataset(path, batch_size=BATCH) as dataset:
        for batch in loader_of(dataset, collate_fn=with_a_new_column):
            processes = [os.getpid(), *(child.pid for child in psutil.Process().children())]
            assert own_files(set(shm.iterdir()) - before, os.getpid(), processes) == set()
            assert torch.equal(batch["twice"], batch["id"] * 2)


def with_a_new_column(batch):
    batch["twice"] = batch["id"] * 2
    return batch


def replaced(batch):
    batch["price"] = batch["price"].double()
    return batch


def removed(batch):
    del batch["label"]
    return batch


def reordered(batch):
    return Batch({name: batch[name] for name in reversed(batch)}, batch._position)


def all_new(batch):
    return Batch({"id": batch["id"].clone(), "none": torch.zeros(0)}, batch._position)


def changed_in_place(batch):
    batch["id"] += 1
    return batch


def changed_shape(batch):
    batch["id"].unsqueeze_(1)
    return batch


def changed_dtype(batch):
    batch["id"] = batch["id"].view(torch.float64)
    return batch


def sliced(batch):
    batch["id"] = batch["id"][::2]
    batch["name"] = batch["name"][:3]
    return batch


def with_gradient(batch):
    batch["price"].requires_grad_()
    return batch


def with_gradient_in_rows(batch):
    values = torch.arange(2.0 * batch.rows, requires_grad=True)
    batch["lists"] = Ragged(values, torch.arange(batch.rows + 1) * 2)
    return batch


def changed_kind(batch):
    batch["name"].kind = "bytes"
    return batch


def conjugate(batch):
    batch["waves"] = torch.complex(batch["price"], batch["price"] + 1).conj()
    return batch


def imaginary(batch):
    batch["waves"] = conjugate(batch)["waves"].imag
    return batch


def with_other_things(batch):
    batch["note"] = {"any": ("thing", 1)}
    return batch


CALLABLES = [
    with_a_new_column,
    replaced,
    removed,
    reordered,
    all_new,
    changed_in_place,
    changed_shape,
    changed_dtype,
    sliced,
    with_gradient,
    with_gradient_in_rows,
    changed_kind,
    conjugate,
    imaginary,
]


@pytest.mark.parametrize("function", CALLABLES, ids=lambda function: function.__name__)
def test_what_a_callable_made_of_a_batch(path, function):
    with FastParquetDataset(path, batch_size=BATCH) as dataset:
        expected = [function(batch.clone()) for batch in dataset]
        loader = loader_of(dataset, num_workers=1, collate_fn=function)
        batches = list(loader)
        assert len(batches) == len(expected)
        assert all(map(same, batches, expected))
        assert all(
            a.requires_grad == b.requires_grad
            for a, b in zip(batches[0].values(), expected[0].values(), strict=True)
            if isinstance(a, torch.Tensor)
        )
        assert dataset.state_dict(after=batches[3])["progress"] == [[1, 1, 4]]


def test_things_that_are_no_tensors_go_along(path):
    with FastParquetDataset(path, batch_size=BATCH) as dataset:
        batches = list(loader_of(dataset, collate_fn=with_other_things))
    assert all(batch["note"] == {"any": ("thing", 1)} for batch in batches)
    assert sorted(ids_of(batches)) == list(range(ROWS))


def test_what_cannot_be_pickled_is_an_error(path):
    def with_a_lambda(batch):
        batch["function"] = lambda: None
        return batch

    with FastParquetDataset(path, batch_size=BATCH) as dataset:
        loader = loader_of(dataset, collate_fn=with_a_lambda, multiprocessing_context="fork")
        with pytest.raises(TypeError, match="Expected a batch that can be sent"):
            next(iter(loader))


def of_a_graph(batch):
    batch["price"] = batch["price"] * torch.ones(1, requires_grad=True)
    return batch


def rows_of_a_graph(batch):
    values = torch.arange(2.0 * batch.rows, requires_grad=True) * 2
    batch["lists"] = Ragged(values, torch.arange(batch.rows + 1) * 2)
    return batch


@pytest.mark.parametrize("function", [of_a_graph, rows_of_a_graph], ids=lambda f: f.__name__)
def test_tensors_of_a_graph_are_an_error(path, function):
    with FastParquetDataset(path, batch_size=BATCH) as dataset:
        loader = loader_of(dataset, collate_fn=function)
        with pytest.raises(TypeError, match=r"Expected a batch that can be sent.*non-leaf"):
            next(iter(loader))


def test_other_shapes_of_batches_go_torchs_way(path):
    with FastParquetDataset(path, batch_size=BATCH) as dataset:
        pairs = list(loader_of(dataset, collate_fn=lambda b: (b["id"], b["name"].tolist())))
    assert sorted(row for ids, _ in pairs for row in ids.tolist()) == list(range(ROWS))


def test_pickles_of_received_batches_hold_values(path):
    with FastParquetDataset(path, batch_size=BATCH) as dataset:
        batch = next(iter(loader_of(dataset)))
    copy = pickle.loads(pickle.dumps(batch))
    assert same(copy, batch)
    assert same(batch.copy(), batch)


def storages_of(batch):
    return len({value.untyped_storage().data_ptr() for value in batch.values()})


def test_columns_that_torch_sends_share_a_file_descriptor(path):
    """A worker's columns are views of one storage, which torch sends once."""
    with FastParquetDataset(path, batch_size=BATCH, columns=["id", "price"]) as dataset:
        assert set(loader_of(dataset, collate_fn=storages_of)) == {1}
        assert set(map(storages_of, dataset)) == {2}


def test_kept_batches_become_copies(path, recwarn):
    with FastParquetDataset(
        path, batch_size=8, memory_budget="300KB", threads=1, columns=["id", "price"]
    ) as dataset:
        batches = list(loader_of(dataset, num_workers=1))
    assert sorted(ids_of(batches)) == list(range(ROWS))
    (warning,) = [w for w in recwarn if "memory_budget" in str(w.message)]
    assert "batch.clone()" in str(warning.message)
    own = [batch for batch in batches if batch._origin is None]
    assert 0 < len(own) < len(batches)
    # One allocation for each column: keeping one does not keep the others.
    assert own[0]["id"].untyped_storage().nbytes() == own[0]["id"].nbytes


def test_a_fork_gives_back_nothing_of_what_it_inherits(path):
    with FastParquetDataset(path, batch_size=BATCH) as dataset:
        running = iter(loader_of(dataset, num_workers=1))
        first = next(running)
        ids = first["id"].tolist()
        child = os.fork()
        if child == 0:
            readable = first["id"].tolist() == ids
            del first
            gc.collect()
            os._exit(0 if readable else 1)
        assert os.waitpid(child, 0)[1] == 0
        rest = ids_of(running)
        assert first["id"].tolist() == ids
        assert ids + rest == list(range(ROWS))


def descriptors():
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


# As the system lists anonymous files that are mapped: of memfd, and of shm_open.
BATCHES = re.compile("memfd:fastload-batches|/dev/shm/fastload-")


def mappings():
    return len(BATCHES.findall(Path("/proc/self/maps").read_text()))


def gone(count, seconds=5.0):
    """Whether no more than so many mappings of batches are left, within that time."""
    deadline = time.monotonic() + seconds
    while mappings() > count and time.monotonic() < deadline:
        gc.collect()
        time.sleep(0.02)
    return mappings() <= count


def test_nothing_is_left_of_workers_that_have_ended(path):
    assert gone(0)
    before = descriptors()
    dataset = FastParquetDataset(path, batch_size=BATCH)
    for _ in range(3):
        assert sorted(ids_of(loader_of(dataset))) == list(range(ROWS))
    del dataset
    assert gone(0)
    assert descriptors() <= before


def kill_worker(batch):
    if get_worker_info().id == 0 and int(batch["id"][0]) >= 3 * BATCH:
        os.kill(os.getpid(), 9)
    return batch


def test_nothing_is_left_of_a_killed_worker(path):
    assert gone(0)
    before = descriptors()
    loader = loader_of(FastParquetDataset(path, batch_size=BATCH), collate_fn=kill_worker)
    kept = []
    with pytest.raises(RuntimeError, match="exited unexpectedly"):
        kept.extend(loader)
    # What had come is still readable.
    assert kept
    assert all(len(batch["name"].tolist()) == len(batch["id"]) for batch in kept)
    del loader
    kept.clear()
    assert gone(0)
    assert descriptors() <= before


def test_memory_of_workers_is_bounded_and_counted_once(tmp_path):
    path = write_sample(tmp_path / "long.parquet", 100_000, 20_000)
    budget = 6 << 20
    with FastParquetDataset(
        [path] * 10, batch_size=500, threads=1, memory_budget=budget
    ) as dataset:
        loader = loader_of(dataset, persistent_workers=True)
        most = shared = rows = 0
        for number, batch in enumerate(loader):
            rows += batch.rows
            if number % 50 == 0:
                memory = dataset.stats().memory
                assert memory.batches > 0
                assert memory.read > 0
                # Spare memory is that of datasets of other tests.
                most = max(most, memory.total - memory.spare)
                shared = max(shared, shared_bytes())
        assert rows == 1_000_000
        assert dataset.stats().copied_batches == 0
    # A worker holds what its share of the budget says, and batches that are on their way.
    assert most < 1.25 * budget
    assert 0 < shared < 1.25 * budget
    del batch, loader
    assert gone(0)
    memory = dataset.stats().memory
    assert memory.total - memory.spare < budget


def shared_bytes():
    """Resident bytes of the memory that batches arrive in."""
    total, inside = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if "-" in line.split(" ")[0]:
            inside = BATCHES.search(line) is not None
        elif inside and line.startswith("Rss:"):
            total += int(line.split()[1]) << 10
    return total


def test_what_steps_leave_alone_is_not_copied(path):
    messages = Messages()

    def double(block):
        block["twice"] = block["id"] * 2
        return block

    with FastParquetDataset(path, batch_size=BATCH, preprocess=double) as dataset:
        loader = loader_of(
            dataset, num_workers=1, worker_init_fn=messages, multiprocessing_context="fork"
        )
        batches = list(loader)
        assert ids_of(batches) == list(range(ROWS))
        assert all(torch.equal(batch["twice"], batch["id"] * 2) for batch in batches)
        assert dataset.state_dict(after=batches[2])["progress"] == [[1, 1, 3]]
    starts = {batch["id"].untyped_storage().data_ptr() for batch in batches}
    assert not starts & {batch["twice"].untyped_storage().data_ptr() for batch in batches}
    assert messages.largest.value < 1024


def without_descriptors(batch):
    """Let the process open no more files."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    return batch


def test_a_worker_that_the_system_refuses_a_descriptor_is_no_wrong_type(path):
    with FastParquetDataset(path, batch_size=100) as dataset:
        loader = DataLoader(
            dataset, batch_size=None, num_workers=1, collate_fn=without_descriptors, timeout=60
        )
        with pytest.raises(RuntimeError, match=r"could not send a batch: OSError"):
            list(loader)
