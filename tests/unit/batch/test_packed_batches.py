"""Batches of packed rows: what has an entry for each row, and what describes the whole batch."""

import copy
import pickle

import pyarrow as pa
import pytest
import torch
from torch.utils import _pytree as pytree

from fastload import Batch

DOCUMENTS = torch.tensor([[0, 0, 0, 1], [0, 1, 1, -1], [0, 0, 0, 0]], dtype=torch.int32)


def packed_batch():
    return Batch(
        {
            "t__max_seqlen": torch.tensor(4, dtype=torch.int32),
            "t": torch.arange(12).reshape(3, 4),
            "t__document": DOCUMENTS,
            "t__cu_seqlens": torch.tensor([0, 3, 4, 5, 7, 8, 12], dtype=torch.int32),
            "file": torch.arange(3),
        },
        ("epoch", 1),
    )


def test_rows_are_packed_rows_whatever_comes_first():
    batch = packed_batch()
    assert batch.rows == 3
    assert Batch({name: batch[name] for name in ("t__cu_seqlens", "t", "t__document")}).rows == 3
    # Names alone do not make packed rows.
    assert Batch({"t__cu_seqlens": torch.zeros(7)}).rows == 7


@pytest.mark.parametrize(
    ("bounds", "edges", "longest"),
    [
        ((0, 3), [0, 3, 4, 5, 7, 8, 12], 4),
        ((0, 2), [0, 3, 4, 5, 7, 8], 3),
        ((1, 2), [0, 1, 3, 4], 2),
        ((-1,), [0, 4], 4),
        ((1, None), [0, 1, 3, 4, 8], 4),
        ((2, 1), [0], 0),
        ((3, 9), [0], 0),
    ],
)
def test_a_slice_has_edges_of_its_own(bounds, edges, longest):
    batch = packed_batch()
    part = batch.slice(*bounds)
    assert list(part) == list(batch)
    assert part["t__cu_seqlens"].tolist() == edges
    assert part["t__max_seqlen"].tolist() == longest
    assert part["t__max_seqlen"].shape == ()
    assert {part[name].dtype for name in ("t__cu_seqlens", "t__max_seqlen")} == {torch.int32}
    rows = slice(*bounds) if len(bounds) == 2 else slice(bounds[0], None)
    assert torch.equal(part["t"], batch["t"][rows])
    assert part.rows == len(part["t"])
    assert part._position == batch._position
    again = part.slice(0)
    assert all(torch.equal(again[name], part[name]) for name in part)


def test_a_slice_without_edges_finds_the_longest_document():
    batch = packed_batch()
    del batch["t__cu_seqlens"]
    assert [batch.slice(row, row + 1)["t__max_seqlen"].item() for row in range(3)] == [3, 2, 4]


def test_tables_have_the_outputs_of_rows():
    table = packed_batch().to_arrow()
    assert table.schema.names == ["t", "t__document", "file"]
    assert table.schema.field("t").type == pa.list_(pa.int64(), 4)
    pandas = pytest.importorskip("pandas")
    frame = packed_batch().to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert frame.shape == (3, 3)


def test_text_and_html_show_a_number_without_dimension():
    batch = packed_batch()
    lines = repr(batch).splitlines()
    assert lines[0].startswith("Batch of 3 rows, 5 outputs")
    assert lines[1].split() == ["t__max_seqlen", "int32", "()", "4"]
    assert lines[4].split()[:3] == ["t__cu_seqlens", "int32", "(7,)"]
    assert batch._repr_html_().count("<tr>") == 4
    assert repr(Batch({"x": torch.arange(2), "y": torch.tensor(1.5)})).endswith("()    1.5")


@pytest.mark.parametrize(
    "duplicate",
    [
        copy.deepcopy,
        Batch.clone,
        lambda batch: batch.to("cpu"),
        lambda batch: pickle.loads(pickle.dumps(batch)),
        lambda batch: pytree.tree_map(torch.clone, batch),
    ],
)
def test_copies_have_the_same_shapes(duplicate):
    batch = packed_batch()
    other = duplicate(batch)
    assert list(other) == list(batch)
    for name, value in batch.items():
        assert torch.equal(other[name], value), name
        assert other[name].shape == value.shape
    assert other.slice(1, 2)["t__cu_seqlens"].tolist() == [0, 1, 3, 4]


def test_every_value_moves_to_a_device():
    moved = packed_batch().to("meta")
    assert {value.device.type for value in moved.values()} == {"meta"}
    assert moved["t__max_seqlen"].shape == ()
