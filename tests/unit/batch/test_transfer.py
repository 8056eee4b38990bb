"""How batches are taken apart and put together on their way to a device."""

import ctypes
import gc
import operator
import weakref
from collections import OrderedDict

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch.utils import _pytree as pytree

from fastload import Batch, FastParquetDataset, Ragged
from fastload.batch.assembler import Assembler, Output
from fastload.batch.packing import ordinary_memory
from fastload.batch.pinned_memory import PinnedMemory
from fastload.batch.transfer import begin_transfer, moved
from fastload.testing import assert_same_batches

CPU = torch.device("cpu")
META = torch.device("meta")
cuda = pytest.mark.skipif(torch.cuda.is_available(), reason="torch pins memory here")


def every_kind():
    words = Ragged(torch.arange(97, 107, dtype=torch.uint8), torch.tensor([0, 3, 3, 10]), "str")
    return Batch(
        {
            "x": torch.arange(3, dtype=torch.float64),
            "flag": torch.tensor([True, False, True]),
            "half": torch.ones(3, 5, dtype=torch.bfloat16)[:, 1::2],
            "wide": torch.arange(3, dtype=torch.int32).to(torch.uint64),
            "empty": torch.empty(3, 0),
            "words": words,
            "lists": Ragged(words, torch.tensor([0, 0, 2, 3])),
            "part": Ragged(torch.arange(100), torch.arange(0, 101, 10))[4:7],
        },
        position="here",
    )


def test_one_block_holds_all_values():
    batch, asked = every_kind(), []

    def allocate(size):
        asked.append(size)
        return ordinary_memory(size)

    transfer, sources = begin_transfer(batch, CPU, allocate)
    assert transfer.whole
    assert type(transfer.batch) is Batch
    assert transfer.batch._position == "here"
    assert_same_batches([transfer.batch], [batch])
    # Only the values themselves were copied, at once: of `part`, three rows of ten.
    assert [source.nbytes for source in sources] == asked
    assert asked[0] < 1024
    # Here the copy is the block itself.
    assert [target.data_ptr() for target in transfer.targets] == [sources[0].data_ptr()]
    x, half = transfer.batch["x"], transfer.batch["half"]
    assert x.untyped_storage().data_ptr() == half.untyped_storage().data_ptr()
    x += 1
    assert (x._version, half._version) == (1, 0)


def test_memory_is_free_once_a_batch_is_dropped():
    """Without a run of the garbage collector, for which GPU memory would have to wait."""
    batch = every_kind()
    gc.disable()
    try:
        transfer, sources = begin_transfer(batch, META, ordinary_memory)
        memory = [weakref.ref(tensor) for tensor in [*transfer.targets, *sources, batch["half"]]]
        del transfer, sources, batch
        assert [tensor() for tensor in memory] == [None] * 3
    finally:
        gc.enable()


def test_a_batch_of_the_core_is_copied_at_once():
    class Memory(ctypes.Array):
        _type_ = ctypes.c_uint8
        _length_ = 128

    outputs = [Output("x", "column", torch.int64), Output("y", "column", torch.int32)]
    for one_storage in (False, True):
        memory = Memory()
        memory.rows, memory.areas = 8, (0, 64, 64, 64)
        batch = Assembler(outputs, one_storage=one_storage)(memory)
        batch["x"].copy_(torch.arange(8))
        batch["y"].copy_(torch.arange(8, 16))
        batch["part"] = batch["x"].view(torch.int32)[8:]
        asked = []

        def allocate(size, asked=asked):
            asked.append(size)
            return ordinary_memory(size)

        transfer, _ = begin_transfer(batch, CPU, allocate)
        assert asked == [128]
        assert_same_batches([transfer.batch], [batch])
        start = transfer.targets[0].data_ptr()
        places = [value.data_ptr() - start for value in transfer.batch.values()]
        assert places == [0, 64, 32]
        # A value outside of the memory is packed with the others.
        batch["z"] = torch.arange(8)
        transfer, _ = begin_transfer(batch, CPU, allocate)
        assert asked[1] > 128
        assert_same_batches([transfer.batch], [batch])


def rename(batch):
    batch["renamed"] = batch.pop("flag")


def swap(batch):
    batch["x"], batch["z"] = batch["z"], batch["x"]


def replace_lists(batch):
    batch["lists"].values = batch["lists"].values + 1


CHANGES = {
    "none": lambda _batch: None,
    "elements": lambda batch: batch["x"].add_(1),
    "shape": lambda batch: batch["pairs"].t_(),
    "narrower": lambda batch: batch["x"].resize_(2),
    "a name": rename,
    "a swap": swap,
    "one less": lambda batch: batch.pop("x"),
    "of other memory": lambda batch: batch.update(x=batch["x"] + 1),
    "a Ragged": lambda batch: batch.update(words=batch["words"][1:3]),
    "lists": replace_lists,
    "a gradient": lambda batch: batch["pairs"].requires_grad_(),
}


# Few columns of one dtype have storages of their own.
FEW = ("none", "elements", "narrower", "a swap", "one less", "of other memory")


@pytest.mark.parametrize(
    ("change", "columns"), [(c, None) for c in CHANGES] + [(c, ["x", "z"]) for c in FEW]
)
def test_batches_that_were_changed(tmp_path, change, columns):
    table = pa.table(
        {
            "x": range(6),
            "z": range(6, 12),
            "flag": [True, False] * 3,
            "pairs": pa.array([[k / 2, k] for k in range(6)], pa.list_(pa.float32(), 2)),
            "words": [f"wörd {k}" * (k % 3) for k in range(6)],
            "lists": [[k] * (k % 3) for k in range(6)],
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    with FastParquetDataset(tmp_path / "a.parquet", columns=columns, pin_memory=False) as dataset:
        for batch in dataset:
            CHANGES[change](batch)
            transfer, _ = begin_transfer(batch, CPU, ordinary_memory)
            got = moved(transfer.batch, CPU)
            assert list(got) == list(batch)
            for name, value in batch.items():
                same = torch.equal if isinstance(value, torch.Tensor) else operator.eq
                assert same(got[name], value)
            there, _ = begin_transfer(batch, META, ordinary_memory)
            tensors = pytree.tree_leaves(moved(there.batch, META))
            assert all(tensor.is_meta for tensor in tensors)
            assert [t.shape for t in tensors] == [t.shape for t in pytree.tree_leaves(batch)]


def test_what_is_more_than_its_values_is_left_to_torch():
    weights = torch.ones(2, requires_grad=True)
    sparse = torch.eye(3).to_sparse()
    there = torch.empty(2, device=META)
    batch = {"a": torch.arange(2), "b": (weights, [sparse, there]), "c": None, "d": "text"}
    transfer, _ = begin_transfer(batch, META, ordinary_memory)
    assert not transfer.whole
    assert transfer.batch["a"].is_meta
    assert transfer.batch["b"][0] is weights
    assert transfer.batch["b"][1][0] is sparse
    batch = moved(transfer.batch, META)
    assert batch["b"][0].is_meta
    assert batch["b"][0].requires_grad
    assert batch["b"][1][0].is_meta
    assert batch["b"][1][1] is there
    assert (batch["c"], batch["d"]) == (None, "text")


def test_other_structures_stay_what_they_are():
    batch = OrderedDict(x=torch.arange(2), rest=[torch.arange(3), (1, 2.5, b"b")])
    transfer, _ = begin_transfer(batch, CPU, ordinary_memory)
    assert transfer.whole
    assert type(transfer.batch) is OrderedDict
    assert transfer.batch["x"].tolist() == [0, 1]
    assert transfer.batch["rest"][0].tolist() == [0, 1, 2]
    assert transfer.batch["rest"][1] == (1, 2.5, b"b")
    assert moved(torch.arange(3), META).shape == (3,)
    assert begin_transfer({}, CPU, ordinary_memory)[0].batch == {}


@pytest.mark.parametrize("move", [moved, lambda *a: begin_transfer(*a, ordinary_memory)])
def test_what_has_no_device_is_refused(move):
    with pytest.raises(
        TypeError, match=r"got ndarray, which cannot lie on a device - at batch\['y'\]"
    ):
        move(Batch({"x": torch.arange(2), "y": np.arange(2)}), CPU)
    with pytest.raises(TypeError, match=r"got object, .* - at batch\[1\]\['a'\]"):
        move([torch.arange(2), {"a": object()}], CPU)


@cuda
def test_memory_that_is_not_pinned_is_told_once():
    pinned = PinnedMemory()
    with pytest.warns(UserWarning, match="Expected 64 bytes of pinned memory, got"):
        assert pinned(64).shape == (64,)
    transfer, _ = begin_transfer(every_kind(), CPU, pinned)
    assert_same_batches([transfer.batch], [every_kind()])
