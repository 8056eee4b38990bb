"""Copies to a CUDA device: the right values, in whatever order its streams get on."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch.utils import _pytree as pytree
from torch.utils.data import DataLoader

from fastload import DevicePrefetcher, FastParquetDataset, Pack, TokenBudget, mix
from fastload.testing import assert_same_batches
from support.token_files import write_documents

ROWS = 2000
TABLE = pa.table(
    {
        "id": range(ROWS),
        "x": pa.array(range(ROWS), pa.float32()),
        "pair": pa.array([[k, k + 1] for k in range(ROWS)], pa.list_(pa.int16(), 2)),
        "word": [f"wörd {k}" * (k % 3) for k in range(ROWS)],
        "lists": [[[k] * i for i in range(k % 3)] for k in range(ROWS)],
    }
)
MIB = 1 << 20
pytestmark = pytest.mark.cuda


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("cuda") / "a.parquet"
    pq.write_table(TABLE, path, row_group_size=300)
    return path


class Numbered:
    """A loader of batches of so many bytes, each filled with its number, in memory of its own."""

    def __init__(self, batches, size=8 * MIB):
        self.batches = batches
        self.size = size

    def __iter__(self):
        for number in range(self.batches):
            yield {"x": torch.full((self.size // 8,), number)}


def keep_busy(seconds, stream=None):
    """Has a stream do nothing else for about so long."""
    with torch.cuda.stream(stream):
        torch.cuda._sleep(int(seconds * 1.5e9))  # cycles


def all_are(batch, number):
    """Whether all values are that number, as a tensor on the device."""
    return (batch["x"] == number).all()


@pytest.mark.parametrize("workers", [None, 0, 2])
@pytest.mark.parametrize("pinned", [False, True])
@pytest.mark.parametrize("depth", [1, 3])
def test_values_and_states(path, workers, pinned, depth):
    with FastParquetDataset(path, batch_size=70, threads=1, memory_budget="64MB") as dataset:
        loader = dataset
        if workers is not None:
            loader = DataLoader(dataset, batch_size=None, num_workers=workers, pin_memory=pinned)
        batches = [batch.clone() for batch in loader]
        states = [dataset.state_dict(after=batch) for batch in batches]
        dataset.set_epoch(0)
        prefetcher = DevicePrefetcher(loader, "cuda", depth)
        got = []
        for batch, state in zip(prefetcher, states, strict=True):
            got.append(batch)
            assert prefetcher.state_dict() == dataset.state_dict(after=batch) == state
        here = torch.device("cuda", torch.cuda.current_device())
        assert {tensor.device for tensor in pytree.tree_leaves(got)} == {here}
        assert_same_batches([batch.to("cpu") for batch in got], batches)
        # What is kept is on the device alone.
        assert dataset.stats().copied_batches == 0
        prefetcher.load_state_dict(states[9])
        assert_same_batches([batch.to("cpu") for batch in prefetcher], batches[10:])


@pytest.fixture(scope="module")
def documents(tmp_path_factory):
    directory = tmp_path_factory.mktemp("documents")
    for name, start in (("a", 0), ("b", 100_000)):
        lengths = [number * 7 % 23 for number in range(400)]
        write_documents(directory / f"{name}.parquet", lengths, group_rows=90, start=start)
    return directory


def packed(directory, **options):
    options = {"columns": {"t": "t", "l": "l"}, "shuffle": True, "threads": 1, **options}
    pack = Pack("t", 32, along=["l"], pad={"l": -100})
    return FastParquetDataset(directory / "a.parquet", pack=pack, batch_size=8, **options)


def in_slices(directory):
    return FastParquetDataset(
        directory / "a.parquet",
        pack=Pack("t", 32),
        global_batch_size=8,
        canonical_ranks=4,
        shuffle=True,
        threads=1,
    )


def by_tokens(directory):
    return FastParquetDataset(
        directory / "a.parquet",
        columns=["t", "id"],
        batch_size=TokenBudget("t", 300),
        shuffle=True,
        threads=1,
    )


def mixed(directory):
    sources = {
        name: FastParquetDataset(
            directory / f"{name}.parquet", batch_size=32, shuffle=True, threads=1
        )
        for name in "ab"
    }
    return mix(sources, weights={"a": 0.7, "b": 0.3}, stop="all")


@pytest.mark.parametrize("made", [packed, in_slices, by_tokens, mixed])
@pytest.mark.parametrize("workers", [0, 2])
def test_every_kind_of_batch(documents, made, workers):
    with made(documents) as dataset:
        loader = DataLoader(dataset, batch_size=None, num_workers=workers)
        batches = [batch.clone() for batch in loader]
        assert len(batches) > 5
        dataset.set_epoch(0)
        prefetcher = DevicePrefetcher(loader, "cuda")
        got = []
        for batch in prefetcher:
            assert all(tensor.is_cuda for tensor in pytree.tree_leaves(batch))
            got.append(batch)
            if len(got) == 4:
                state = prefetcher.state_dict()
        assert_same_batches([batch.to("cpu") for batch in got], batches)
        prefetcher.load_state_dict(state)
        assert_same_batches([batch.to("cpu") for batch in prefetcher], batches[4:])


@pytest.mark.parametrize("own_stream", [False, True])
def test_the_stream_that_gets_a_batch_waits_for_its_copy(own_stream):
    stream = torch.cuda.Stream() if own_stream else torch.cuda.current_stream()
    with torch.cuda.stream(stream):
        prefetcher = DevicePrefetcher(Numbered(9), "cuda", depth=2)
        # After a whole pass there is memory to reuse: to get some may wait for the device.
        right = [all_are(batch, number) for number, batch in enumerate(prefetcher)]
        stream.synchronize()
        running = iter(prefetcher)
        right.append(all_are(next(running), 0))
        keep_busy(0.5, prefetcher._way._stream)
        # The copy of batch 3 comes after that, and is begun by now.
        right += [all_are(next(running), number) for number in (1, 2, 3)]
        assert not stream.query()
        right += [all_are(batch, number) for number, batch in enumerate(running, 4)]
        assert torch.stack(right).tolist() == [True] * 18


def test_copies_overlap_with_the_work_of_the_consumer():
    running = iter(prefetcher := DevicePrefetcher(Numbered(20), "cuda", depth=2))
    for _ in range(10):  # by now memory is reused
        next(running)
    torch.cuda.synchronize()
    keep_busy(1)
    batch = next(running)
    prefetcher._way._stream.synchronize()
    assert not torch.cuda.current_stream().query()
    assert all_are(batch, 10)


def test_memory_is_not_reused_before_the_consumer_is_done_with_it():
    right = []
    for number, batch in enumerate(DevicePrefetcher(Numbered(60), "cuda", depth=3)):
        keep_busy(0.01)
        right.append(all_are(batch, number))
        del batch
    assert torch.stack(right).tolist() == [True] * 60


def test_batches_that_are_kept_keep_their_values():
    kept = list(DevicePrefetcher(Numbered(60, MIB), "cuda"))
    assert all(all_are(batch, number) for number, batch in enumerate(kept))


@pytest.mark.parametrize("depth", [1, 4])
def test_memory_that_is_reused(depth):
    source, before = Numbered(40), torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    for _ in DevicePrefetcher(source, "cuda", depth):
        torch.cuda.synchronize()
    # Those ahead and one more that is begun, the consumer's, and one just given back.
    assert torch.cuda.max_memory_allocated() - before <= (depth + 3) * source.size


@pytest.mark.parametrize("end", ["close", "drop"])
def test_an_abandoned_pass_gives_back_its_memory(end):
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    prefetcher = DevicePrefetcher(Numbered(9), "cuda")
    running = iter(prefetcher)
    next(running)
    assert torch.cuda.memory_allocated() > before
    keep_busy(0.2, prefetcher._way._stream)
    next(running)
    if end == "close":
        prefetcher.close()
    del running
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_allocated() == before
    batches = enumerate(prefetcher)
    assert torch.stack([all_are(batch, number) for number, batch in batches]).all()


def test_values_of_every_place():
    last = torch.device("cuda", torch.cuda.device_count() - 1)
    batch = {
        "host": torch.arange(5),
        "pinned": torch.arange(5).pin_memory(),
        "there": torch.arange(5, device=last),
        "first": torch.arange(5, device="cuda:0"),
        "sparse": torch.eye(5).to_sparse(),
        "weights": torch.ones(5, requires_grad=True),
        "name": "a",
    }
    for got in DevicePrefetcher([batch] * 4, last):
        assert {value.device for name, value in got.items() if name != "name"} == {last}
        for name in ("host", "pinned", "there", "first"):
            assert got[name].tolist() == list(range(5))
        assert torch.equal(got["sparse"].to_dense().cpu(), torch.eye(5))
        assert got["weights"].requires_grad
        assert got["there"] is batch["there"]
        assert got["name"] == "a"


@pytest.mark.parametrize("shuffle", [False, True])
def test_batches_of_this_process_are_pinned(path, shuffle):
    with FastParquetDataset(path, batch_size=70, shuffle=shuffle, threads=2) as dataset:
        for _ in range(2):
            for batch in dataset:
                assert all(tensor.is_pinned() for tensor in pytree.tree_leaves(batch))
    with FastParquetDataset(path, batch_size=70, pin_memory=False) as dataset:
        assert not next(iter(dataset))["x"].is_pinned()


def test_batches_of_workers_are_not_pinned(path):
    with FastParquetDataset(path, batch_size=70) as dataset:
        loader = DataLoader(dataset, batch_size=None, num_workers=1)
        assert not any(batch["x"].is_pinned() for batch in loader)


@pytest.fixture(scope="module")
def long_path(tmp_path_factory):
    path = tmp_path_factory.mktemp("cuda") / "long.parquet"
    pq.write_table(pa.table({"id": range(2_000_000)}), path, row_group_size=500_000)
    return path


@pytest.mark.parametrize("own_stream", [False, True])
def test_pinned_memory_is_not_reused_before_it_is_copied(long_path, own_stream):
    """Batches die at once, while the stream that copies them is kept busy."""
    stream = torch.cuda.Stream() if own_stream else torch.cuda.current_stream()
    rows, right, first = 50_000, [], 0
    with FastParquetDataset(long_path, batch_size=rows, threads=2) as dataset:
        for _ in range(3):
            first = 0
            for batch in dataset:
                keep_busy(0.02, stream)
                with torch.cuda.stream(stream):
                    there = batch["id"].to("cuda", non_blocking=True)
                    del batch
                    expected = torch.arange(first, first + rows, device="cuda")
                    right.append((there == expected).all())
                first += rows
        torch.cuda.synchronize()
    assert torch.stack(right).all()


def test_kept_columns_of_pinned_batches(long_path):
    budget = {"batch_size": 10_000, "memory_budget": "8MB", "threads": 2}
    with FastParquetDataset(long_path, **budget) as dataset:
        with pytest.warns(UserWarning, match=r"batch\.clone"):
            kept = [batch["id"] for batch in dataset]
        assert dataset.stats().copied_batches > 0
    assert torch.cat(kept).tolist() == list(range(2_000_000))


@pytest.mark.parametrize("persistent", [False, True])
def test_memory_of_workers_is_locked_and_let_go(path, persistent):
    with FastParquetDataset(path, batch_size=70, threads=1) as dataset:
        loader = DataLoader(dataset, batch_size=None, num_workers=2, persistent_workers=persistent)
        prefetcher = DevicePrefetcher(loader, "cuda")
        for _ in range(3):
            ids = torch.cat([batch["id"].cpu() for batch in prefetcher])
            assert sorted(ids.tolist()) == list(range(ROWS))
            locked = prefetcher._way._registered
            assert not locked._refused
            assert len(locked._segments) <= 4
        locked.close()
        assert not locked._segments


def test_memory_of_workers_is_not_reused_before_it_is_copied(long_path):
    with FastParquetDataset(long_path, batch_size=50_000, threads=1) as dataset:
        loader = DataLoader(dataset, batch_size=None, num_workers=1, persistent_workers=True)
        prefetcher = DevicePrefetcher(loader, "cuda", depth=3)
        for _ in range(3):
            right = []
            for number, batch in enumerate(prefetcher):
                keep_busy(0.01, prefetcher._way._stream)
                start = number * 50_000
                expected = torch.arange(start, start + 50_000, device="cuda")
                right.append((batch["id"] == expected).all())
            assert torch.stack(right).all()
