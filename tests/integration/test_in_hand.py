"""Batches of a dataset in the hands of torch: whatever takes a dict of tensors takes them too."""

import contextlib
import copy
import io
import operator
import pickle

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch.utils import _pytree as pytree
from torch.utils.data import DataLoader, default_convert
from torch.utils.data._utils.pin_memory import pin_memory

from fastload import Batch, Column, FastParquetDataset, Ragged
from fastload.testing import assert_same_batches
from support.same_rows import assert_same_rows

ROWS = 20
# Every kind of output: tensors, and a Ragged of each depth, of numbers, of str and of bytes.
TABLE = pa.table(
    {
        "x": pa.array(range(ROWS), pa.float32()),
        "e": pa.array([[k, k + 1] for k in range(ROWS)], pa.list_(pa.int16(), 2)),
        "word": [f"wörd {k}" * (k % 3) for k in range(ROWS)],
        "key": pa.array([bytes([k]) * k for k in range(ROWS)], pa.binary()),
        "l": [[1.5] * (k % 4) for k in range(ROWS)],
        "ll": [[[k] * i for i in range(k % 3)] for k in range(ROWS)],
        "words": [["a" * i for i in range(k % 4)] for k in range(ROWS)],
        "deep": [[[["b"] * i] for i in range(k % 3)] for k in range(ROWS)],
    }
)
RAGGED = ("word", "key", "l", "ll", "words", "deep")


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("hand") / "a.parquet"
    pq.write_table(TABLE, path, row_group_size=6)
    return path


@pytest.fixture
def batches(path):
    """Batches whose memory is still the core's."""
    with FastParquetDataset(path, batch_size=7) as dataset:
        yield list(dataset)


def saved(value, **options):
    buffer = io.BytesIO()
    torch.save(value, buffer)
    buffer.seek(0)
    return torch.load(buffer, **options)


@pytest.mark.parametrize(
    "duplicate",
    [
        copy.copy,
        copy.deepcopy,
        default_convert,
        lambda value: pickle.loads(pickle.dumps(value)),
        lambda value: saved(value, weights_only=True),
        lambda value: saved(value, weights_only=False),
        lambda value: pytree.tree_map(torch.clone, value),
        lambda value: pytree.tree_map_only(torch.Tensor, lambda t: t + 0, value),
        lambda value: pytree.tree_unflatten(*reversed(pytree.tree_flatten(value))),
        lambda value: value.to("cpu"),
        lambda value: value.clone(),
    ],
    ids=[
        *("copy", "deepcopy", "default_convert", "pickle", "torch.save, weights only"),
        *("torch.save", "tree_map", "tree_map_only", "tree_unflatten", "to", "clone"),
    ],
)
def test_duplicates_are_the_same(batches, duplicate):
    again = [duplicate(batch) for batch in batches]
    assert {type(batch) for batch in again} == {Batch}
    assert_same_batches(again, batches)
    assert_same_rows(again, TABLE)
    for batch in batches:
        for name in RAGGED:
            other = duplicate(batch[name])
            assert type(other) is Ragged
            assert other == batch[name]
            assert other.tolist() == batch[name].tolist()


def test_equality_is_that_of_a_dict(batches, path):
    batch = batches[0]
    assert batch == dict(batch)
    assert dict(batch) == batch
    assert batch == copy.copy(batch)
    assert batch != {**batch, "more": 1}
    assert batch != {name: batch[name] for name in RAGGED}
    with FastParquetDataset(path, columns=list(RAGGED), batch_size=7) as dataset:
        others = list(dataset)
    # Of two other tensors, as in any dict, Python asks for one truth value.
    with pytest.raises(RuntimeError, match="Boolean value of Tensor"):
        operator.eq(batch, batches[0].clone())
    first = {name: batch[name] for name in RAGGED}
    assert others[0] == first
    assert others[1] != first


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_takes_no_ragged_apart(path, batches, workers):
    with FastParquetDataset(path, batch_size=7, threads=1, memory_budget="64MB") as dataset:
        loader = DataLoader(dataset, batch_size=None, num_workers=workers)
        got = list(loader)
    assert {type(batch) for batch in got} == {Batch}
    for batch in got:
        assert {type(batch[name]) for name in RAGGED} == {Ragged}
        assert [batch[name].depth for name in RAGGED] == [0, 0, 1, 2, 1, 3]
    assert_same_rows(got, TABLE, ordered=not workers)


@pytest.mark.parametrize("workers", [0, 1])
def test_pin_memory_of_a_loader(path, batches, workers):
    cuda = torch.cuda.is_available()
    with (
        contextlib.nullcontext() if cuda else pytest.warns(UserWarning, match="pin_memory"),
        FastParquetDataset(path, batch_size=7, threads=1, memory_budget="64MB") as dataset,
    ):
        loader = DataLoader(dataset, batch_size=None, num_workers=workers, pin_memory=True)
        got = list(loader)
    assert {type(batch) for batch in got} == {Batch}
    assert_same_batches(got, batches)
    tensors = [t for t in pytree.tree_leaves(got) if t.numel()]
    assert all(tensor.is_pinned() == cuda for tensor in tensors)


@pytest.mark.cuda
def test_pinned_and_moved(batches):
    for batch in batches:
        pinned = pin_memory(batch)
        tensors = [t for t in pytree.tree_leaves(pinned) if t.numel()]
        assert all(tensor.is_pinned() for tensor in tensors)
        moved = pinned.to("cuda", non_blocking=True)
        assert all(t.is_cuda for t in pytree.tree_leaves(moved))
        assert_same_batches([moved.to("cpu")], [batch])


def test_the_schema_says_what_torch_lacks(tmp_path):
    kinds = {"a": pa.uint16(), "b": pa.uint32(), "c": pa.uint64(), "d": pa.uint8()}
    table = pa.table({name: pa.array([0, 1, 2], kind) for name, kind in kinds.items()})
    pq.write_table(table, tmp_path / "a.parquet")
    with FastParquetDataset(tmp_path / "a.parquet") as dataset:
        schema = dataset.schema
        (batch,) = dataset
    lines = repr(schema).splitlines()[1:]
    assert ["Column(dtype=torch.int64)" in line for line in lines] == [True, True, True, False]
    for name in "abc":
        tensor = batch[name]
        assert "add" in schema[name].note
        # What the note, the docstring of Field and the README say.
        assert torch.equal(tensor.to(torch.int64), torch.arange(3))
        assert torch.cat([tensor, tensor.clone()]).sum() == 6
        for lacking in (
            lambda t: t + t,
            lambda t: t < t,
            lambda t: -t,
            lambda t: t << 1,
            lambda t: t.min(),
            lambda t: t.gather(0, torch.tensor([0])),
            lambda t: torch.arange(3)[t],
            lambda t: torch.nn.functional.embedding(t, torch.ones(3, 2)),
        ):
            with pytest.raises((RuntimeError, IndexError, NotImplementedError)):
                lacking(tensor)
    assert schema["d"].note == ""
    asked = {name: Column(name, dtype=torch.int64) for name in kinds}
    with FastParquetDataset(tmp_path / "a.parquet", columns=asked) as dataset:
        assert [field.note for field in dataset.schema.values()] == [""] * 4
