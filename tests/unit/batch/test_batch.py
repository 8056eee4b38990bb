import copy
import ctypes
import io
import pickle
import re
import weakref

import numpy as np
import pyarrow as pa
import pytest
import torch
from torch.utils import _pytree as pytree
from torch.utils.data import DataLoader, IterableDataset, default_collate, default_convert
from torch.utils.data._utils.pin_memory import pin_memory

from fastload.batch.assembler import Assembler, Output
from fastload.batch.batch import Batch, arrow_array
from fastload.batch.ragged import Ragged

POSITION = ("epoch", 3, 17)


def make_batch(step=0):
    base = torch.arange(8, dtype=torch.int64) + step
    words = torch.tensor(list(b"abcdef"), dtype=torch.uint8)
    return Batch(
        {
            "label": base[:4],
            "price": base[4:].double(),
            "flag": base[:4] % 2 == 0,
            "word": Ragged(words, torch.tensor([0, 1, 1, 3, 6]), "str"),
            "tags": Ragged(
                Ragged(torch.arange(3), torch.tensor([0, 1, 3])), torch.tensor([0, 2, 2, 2, 2])
            ),
        },
        (*POSITION, step),
    )


def assert_same(left, right):
    assert type(left) is Batch
    assert list(left) == list(right)
    for name, value in right.items():
        same = torch.equal if isinstance(value, torch.Tensor) else Ragged.__eq__
        assert same(left[name], value), name
    assert left._position == right._position


def save_and_load(batch):
    buffer = io.BytesIO()
    torch.save(batch, buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=True)


@pytest.mark.parametrize(
    "duplicate",
    [
        copy.copy,
        copy.deepcopy,
        Batch.clone,
        Batch.copy,
        lambda batch: batch.to("cpu", non_blocking=True),
        lambda batch: pickle.loads(pickle.dumps(batch)),
        save_and_load,
        default_convert,
        lambda batch: pytree.tree_map(torch.clone, batch),
    ],
)
def test_copies_are_equal_and_keep_their_position(duplicate):
    batch = make_batch()
    assert_same(duplicate(batch), batch)
    assert_same(duplicate(Batch({}, POSITION)), Batch({}, POSITION))


def test_clone_and_deepcopy_own_their_memory():
    batch = make_batch()
    for other in (batch.clone(), copy.deepcopy(batch)):
        assert other["label"].untyped_storage().nbytes() == 32
        other["label"].zero_()
    assert batch["label"].tolist() == [0, 1, 2, 3]


class Pinnable:
    def pin_memory(self):
        return "pinned"


def test_pin_memory_reaches_every_value_and_keeps_the_position():
    batch = Batch({"x": Pinnable(), "note": "kept"}, POSITION)
    pinned = pin_memory(batch)
    assert type(pinned) is Batch
    assert pinned == {"x": "pinned", "note": "kept"}
    assert pinned._position == POSITION


def test_a_batch_pickles_its_values_only():
    block = torch.zeros(1 << 20)
    batch = Batch({f"c{i}": block[i : i + 10] for i in range(40)})
    assert len(pickle.dumps(batch)) < 10_000
    loaded = pickle.loads(pickle.dumps(batch))
    assert all(value.data_ptr() % 64 == 0 for value in loaded.values())


def test_what_is_no_plain_tensor_pickles_as_itself():
    weight = torch.ones(3, requires_grad=True)
    batch = Batch({"w": weight, "note": "text", "t": torch.arange(6).reshape(2, 3).t()}, POSITION)
    for other in (pickle.loads(pickle.dumps(batch)), copy.deepcopy(batch)):
        assert other["w"].requires_grad
        assert torch.equal(other["w"], weight)
        assert other["note"] == "text"
        assert torch.equal(other["t"], batch["t"])


def test_sizes_and_repr():
    batch = make_batch()
    assert len(batch) == 5
    assert batch.rows == 4
    assert Batch().rows == 0
    assert batch.nbytes == 32 + 32 + 4 + (6 + 40) + (24 + 24 + 40)
    assert repr(batch).splitlines() == [
        "Batch of 4 rows, 5 outputs, 202 bytes",
        "  label  int64    (4,)       0, 1, 2, 3",
        "  price  float64  (4,)       4, 5, 6, 7",
        "  flag   bool     (4,)       True, False, True, False",
        "  word   str      4 strings  'a', '', 'bc', ...",
        "  tags   int64    4 lists    [[0], [1, 2]], [], [], ...",
    ]
    weakref.ref(batch)


def test_html_shows_rows_beside_entries_without_rows():
    text = torch.tensor([97, 255], dtype=torch.uint8)
    strings = Ragged(text, torch.tensor([0, 2, 2]), "str")
    batch = Batch({"x": torch.arange(2), "text": strings})
    batch["lists"] = Ragged(strings, torch.tensor([0, 1, 1]))
    batch.update(step=3, note="a", scale=torch.tensor(0.5), few=torch.arange(1), nothing=None)
    html = batch._repr_html_()
    assert html.count("<tr>") == 3
    assert html.count("a\ufffd") == 2


def test_rows_are_those_of_the_first_entry_with_rows():
    assert Batch({"step": 3, "loss": torch.tensor(0.5), "x": torch.arange(2)}).rows == 2
    assert Batch({"names": ["a", "b"]}).rows == 2
    assert ">b<" in Batch({"names": ["a", "b"]})._repr_html_()
    sums = pytree.tree_map(lambda tensor: tensor.double().sum(), Batch({"x": torch.arange(3)}))
    assert sums.rows == 0
    assert repr(sums).splitlines() == ["Batch of 0 rows, 1 output, 8 bytes", "  x  float64  ()  3"]


def test_a_slice_keeps_entries_without_rows_as_they_are():
    batch = Batch({"x": torch.arange(4), "loss": torch.tensor(0.5), "step": 3, "note": "text"})
    part = batch.slice(1, 3)
    assert part["x"].tolist() == [1, 2]
    assert part["loss"] is batch["loss"]
    assert (part["step"], part["note"]) == (3, "text")


def test_a_nested_tensor_has_a_text():
    lists = Ragged(torch.arange(3), torch.tensor([0, 1, 3]))
    batch = Batch({"x": torch.arange(2), "nested": lists.to_nested()})
    assert "  nested  int64  (2, j" in repr(batch)
    html = batch._repr_html_()
    assert html.count("<tr>") == 3
    assert "[0]" in html
    assert "[1, 2]" in html


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (torch.tensor(0.5), TypeError, "output `added`, got a tensor without rows"),
        (torch.eye(2).to_sparse(), TypeError, "output `added`, got a tensor of torch.sparse_coo"),
        (
            Ragged(torch.arange(3), torch.tensor([0, 1, 3])).to_nested(),
            TypeError,
            "output `added`, got a tensor of torch.jagged",
        ),
        (torch.zeros(3), ValueError, "rows in output `added` as in `x`, 2, got 3"),
        (
            torch.zeros(2, 3, dtype=torch.complex64),
            TypeError,
            "output `added`, got torch.complex64: replace the value, such as by torch.view_as_real",
        ),
        (
            Ragged(torch.zeros(3, dtype=torch.complex64), torch.tensor([0, 1, 3])),
            TypeError,
            "output `added`, got torch.complex64",
        ),
        (
            torch.zeros(2, dtype=torch.float8_e5m2),
            TypeError,
            "output `added`, got torch.float8_e5m2: replace the value, such as by value.float()",
        ),
    ],
)
def test_arrow_names_the_entry_that_is_no_column(value, error, message):
    with pytest.raises(error, match=re.escape(message)):
        Batch({"x": torch.arange(2), "added": value}).to_arrow()


@pytest.mark.filterwarnings("ignore:Sparse:UserWarning")
@pytest.mark.parametrize(
    ("made", "size"),
    [
        ("to_sparse", 4 * (2 * 8 + 4)),
        ("repeated", 2 * (8 + 4)),
        ("to_sparse_csr", 5 * 8 + 4 * 8 + 4 * 4),
        ("to_sparse_csc", 5 * 8 + 4 * 8 + 4 * 4),
        ("to_sparse_bsr", 3 * 8 + 2 * 8 + 8 * 4),
        ("to_sparse_bsc", 3 * 8 + 2 * 8 + 8 * 4),
    ],
)
def test_a_sparse_tensor_counts_and_prints(made, size):
    if made == "repeated":
        value = torch.sparse_coo_tensor([[0, 0]], [1.0, 2.0], (4,), check_invariants=True)
    else:
        value = getattr(torch.eye(4), made)(*((2, 2),) if "_bs" in made else ())
    batch = Batch({"x": torch.arange(4), "added": value})
    assert batch.nbytes == 4 * 8 + size
    assert f"Batch of 4 rows, 2 outputs, {32 + size} bytes" in repr(batch)
    assert "added" in batch._repr_html_()


def test_collation_of_batches_by_hand_is_told_how_to_join_them():
    batches = [Batch({"x": torch.arange(2)})] * 2
    with pytest.raises(
        TypeError, match=r"rows to collate, got Batches.*torch\.cat\(\[batch\[name\]"
    ):
        default_collate(batches)


def test_default_collate_of_a_finished_batch_is_told_that_none_is_needed():
    batch = Batch({"x": torch.arange(2)})
    with pytest.raises(
        KeyError, match=r"got 0: batch\.slice.*batch_size=None\) needs no collate_fn"
    ):
        default_collate(batch)
    with pytest.raises(KeyError, match=r"some outputs'$"):
        batch[1]


def test_rows_of_a_batch():
    ragged = Ragged(torch.tensor([1, 2, 3]), torch.tensor([0, 2, 2, 3]))
    text = Ragged(torch.tensor([97, 98], dtype=torch.uint8), torch.tensor([0, 1, 1, 2]), "str")
    values = {"x": torch.arange(6).reshape(3, 2), "r": ragged, "s": text, "y": torch.arange(3)}
    batch = Batch({**values, "step": 7, "mean": torch.tensor(0.5)})
    rows = list(batch.iter_rows())
    assert [type(row) for row in rows] == [dict] * 3
    assert [list(row) for row in rows] == [list(values)] * 3  # without entries that have no rows
    assert [row["x"].tolist() for row in rows] == [[0, 1], [2, 3], [4, 5]]
    assert [row["r"].tolist() for row in rows] == [[1, 2], [], [3]]
    assert [row["s"] for row in rows] == ["a", "", "b"]
    assert [(row["y"].item(), row["y"].dim()) for row in rows] == [(0, 0), (1, 0), (2, 0)]
    rows[1]["x"][0] = 9
    assert batch["x"][1, 0] == 9
    assert list(Batch({"step": 7}).iter_rows()) == []


def test_rows_of_a_batch_of_packed_rows():
    document = torch.tensor([[0, 0, -1], [1, 1, 2]])
    batch = Batch({"t": torch.arange(6).reshape(2, 3), "t__document": document})
    batch["t__cu_seqlens"] = torch.tensor([0, 2, 3, 5, 6], dtype=torch.int32)
    assert [list(row) for row in batch.iter_rows()] == [["t", "t__document"]] * 2


def test_lists_without_elements_in_arrow():
    batch = Batch({"x": torch.zeros(3, 0), "y": torch.zeros(3, 2, 0), "z": torch.zeros(0, 2)})
    lists = {name: arrow_array(value).to_pylist() for name, value in batch.items()}
    assert lists == {"x": [[]] * 3, "y": [[[], []]] * 3, "z": []}


def test_pytrees_of_the_same_names_match_whatever_their_positions():
    first, second = make_batch(1), make_batch(2)
    assert pytree.tree_structure(first) == pytree.tree_structure(second)
    both = pytree.tree_map(torch.maximum, first, second)
    assert both._position == first._position
    spec = pytree.tree_structure(first)
    assert pytree.treespec_loads(pytree.treespec_dumps(spec)) == spec
    paths = [pytree.keystr(path) for path, _ in pytree.tree_flatten_with_path(first)[0]]
    assert paths[0] == "['label']"
    assert paths[3] == "['word'].values"


class Batches(IterableDataset):
    def __iter__(self):
        return map(make_batch, range(5))


@pytest.mark.timeout(120)
@pytest.mark.parametrize("batch_size", [1, 2])
def test_dataloader_that_would_batch_batches_is_refused(batch_size):
    with pytest.raises(TypeError, match=r"write DataLoader\(ds, batch_size=None\)"):
        next(iter(DataLoader(Batches(), batch_size=batch_size)))


@pytest.mark.timeout(120)
@pytest.mark.parametrize("context", [None, "fork", "spawn"])
def test_batches_come_through_dataloader(context):
    workers = 0 if context is None else 2
    loader = DataLoader(
        Batches(), batch_size=None, num_workers=workers, multiprocessing_context=context
    )
    got = list(loader)
    expected = [make_batch(step) for step in range(5) for _ in range(max(1, workers))]
    assert len(got) == len(expected)
    for left, right in zip(got, expected, strict=True):
        assert_same(left, right)
        tensors = [leaf for leaf in pytree.tree_leaves(left) if torch.is_tensor(leaf)]
        blocks = {leaf.untyped_storage().data_ptr() for leaf in tensors}
        assert len(blocks) == 1 or not workers


class Block(ctypes.Array):
    """A raw batch as the core lends it: a writable buffer that says where its outputs lie."""

    _type_ = ctypes.c_uint8
    _length_ = 64 * 16


def lend(rows, areas):
    block = Block()
    block.rows = rows
    block.areas = areas
    return block


OUTPUTS = [
    Output("a", "column", torch.int64),
    Output("word", "ragged", torch.uint8, text="str"),
    Output("b", "column", torch.float32),
    Output("dense", "rows", torch.float32, (3,)),
    Output("c", "column", torch.int64),
    Output("tags", "ragged", torch.uint8, depth=1, text="str"),
    Output("c__valid", "column", torch.bool),
    Output("turned", "rows", torch.float32, (3, 2), strides=(1, 3)),
    Output("key", "ragged", torch.uint8, text="bytes"),
    Output("boxes", "ragged", torch.int16, (2,), depth=2),
]
# Of each area: where it begins in bytes, the code of its items, and these.
LAID = [
    (0, "q", [1, 2]),  # a
    (64, "q", [3, 4]),  # c, a pitch of 64 bytes further
    (128, "f", [0.5, 1.5]),  # b
    (192, "B", [1, 0]),  # c__valid
    (256, "f", [0, 1, 2, 3, 4, 5]),  # dense
    (320, "f", range(12)),  # turned
    (384, "q", [0, 1, 3]),  # word
    (448, "B", list(b"xyz")),
    (512, "q", [0, 2, 3]),  # tags: lists, strings, bytes
    (576, "q", [0, 1, 1, 3]),
    (640, "B", list(b"uvw")),
    (704, "q", [0, 2, 2]),  # key
    (768, "B", [0, 255]),
    (832, "q", [0, 1, 1]),  # boxes: lists, lists, pairs
    (896, "q", [0, 2]),
    (960, "h", [1, 2, 3, 4]),
]
AREAS = (
    *(0, 64, 128, 64, 192, 64, 256, 320),
    *(384, 2, 448, 3),
    *(512, 2, 576, 3, 640, 3),
    *(704, 2, 768, 2),
    *(832, 2, 896, 1, 960, 8),
)


def fill():
    block = lend(2, AREAS)
    view = memoryview(block).cast("B")
    for start, code, items in LAID:
        typed = view[start:].cast(code)
        for i, item in enumerate(items):
            typed[i] = item
    return block


def test_assembler_gives_each_output_its_area():
    batch = Assembler(OUTPUTS)(fill(), POSITION)
    assert list(batch) == [output.name for output in OUTPUTS]
    assert {name: value.tolist() for name, value in batch.items()} == {
        "a": [1, 2],
        "word": ["x", "yz"],
        "b": [0.5, 1.5],
        "dense": [[0, 1, 2], [3, 4, 5]],
        "c": [3, 4],
        "tags": [["u", ""], ["vw"]],
        "c__valid": [True, False],
        "turned": [[[0, 3], [1, 4], [2, 5]], [[6, 9], [7, 10], [8, 11]]],
        "key": [b"\x00\xff", b""],
        "boxes": [[[[1, 2], [3, 4]]], []],
    }
    assert batch._position == POSITION
    for output in OUTPUTS:
        value = batch[output.name]
        assert value.dtype == output.dtype
        assert isinstance(value, Ragged) or output.strides or value.is_contiguous()
    first = batch["a"].data_ptr()
    assert [value.data_ptr() - first for value in (batch["b"], batch["dense"])] == [128, 256]


def test_assembled_tensors_keep_the_block_until_the_last_dies():
    block = fill()
    alive = weakref.ref(block)
    batch = Assembler(OUTPUTS)(block)
    del block
    column = batch["c"]
    words = batch["word"][1:]
    del batch
    assert alive() is not None
    del column
    assert words.tolist() == ["yz"]
    del words
    assert alive() is None


FEW = [
    Output("b", "column", torch.float32),
    Output("hidden", "column", torch.int64, hidden=True),
    Output("c", "column", torch.int64),
]


def few_columns():
    block = lend(2, (0, 64, 64, 64))
    view = memoryview(block).cast("B")
    for start, code, items in ((0, "f", [0.5, 1.5]), (64, "q", [1, 2]), (128, "q", [3, 4])):
        for i, item in enumerate(items):
            view[start:].cast(code)[i] = item
    return block


def test_a_few_columns_have_storages_of_their_own():
    block = few_columns()
    alive = weakref.ref(block)
    batch = Assembler(FEW)(block, POSITION)
    first = ctypes.addressof(block)
    assert list(batch) == ["b", "c"]
    assert {name: value.tolist() for name, value in batch.items()} == {"b": [0.5, 1.5], "c": [3, 4]}
    assert batch._position == POSITION
    assert [value.data_ptr() - first for value in batch.values()] == [0, 128]
    assert [value.untyped_storage().nbytes() for value in batch.values()] == [8, 16]
    batch["c"].add_(1)
    assert (batch["b"]._version, batch["c"]._version) == (0, 1)
    assert memoryview(block).cast("B")[128:].cast("q")[0] == 4
    assert batch._origin.block.data_ptr() == first
    del block
    column = batch["c"]
    del batch
    assert alive() is not None
    del column
    assert alive() is None


def test_the_columns_of_one_storage():
    block = few_columns()
    batch = Assembler(FEW, one_storage=True)(block)
    assert {name: value.tolist() for name, value in batch.items()} == {"b": [0.5, 1.5], "c": [3, 4]}
    storages = [value.untyped_storage() for value in batch.values()]
    assert {storage.data_ptr() for storage in storages} == {ctypes.addressof(block)}
    assert {storage.nbytes() for storage in storages} == {len(block)}


def test_a_few_columns_of_a_tensor_are_views_of_the_tensor():
    block = few_columns()
    tensor = torch.frombuffer(block, dtype=torch.uint8).clone()
    batch = Assembler(FEW)(block, POSITION, tensor)
    assert {name: value.tolist() for name, value in batch.items()} == {"b": [0.5, 1.5], "c": [3, 4]}
    assert batch._position == POSITION
    storages = {value.untyped_storage().data_ptr() for value in batch.values()}
    assert storages == {tensor.untyped_storage().data_ptr()}
    assert batch._origin.block is tensor
    batch["c"].add_(1)
    assert (batch["b"]._version, batch["c"]._version) == (0, 1)


def test_a_few_columns_leave_the_inference_mode():
    with torch.inference_mode():
        batch = Assembler(FEW)(few_columns())
        block = batch._origin.block
    assert not any(value.is_inference() for value in [*batch.values(), block])


def test_assembled_tensors_are_of_their_own_to_autograd():
    block = fill()
    batch = Assembler(OUTPUTS)(block)
    assert not any(v._is_view() for v in batch.values() if isinstance(v, torch.Tensor))
    weight = torch.ones(2, requires_grad=True)
    loss = (weight * batch["b"]).sum()
    batch["a"].add_(1)
    loss.backward()
    assert weight.grad.tolist() == [0.5, 1.5]
    batch["b"].mul_(weight)
    assert not batch["dense"].requires_grad
    batch["dense"].requires_grad_()
    assert batch["a"].tolist() == [2, 3]
    assert memoryview(block).cast("B").cast("q")[0] == 2


def test_assembler_takes_empty_batches():
    # Dtypes and rows, then of each Ragged its levels and values: all of it nothing.
    empty = (0,) * len(AREAS)
    batch = Assembler(OUTPUTS)(lend(0, empty))
    assert [len(value) for value in batch.values()] == [0] * len(OUTPUTS)
    assert batch["dense"].shape == (0, 3)
    assert batch["word"].tolist() == []

    class Nothing(ctypes.Array):
        _type_ = ctypes.c_uint8
        _length_ = 0

    nothing = Nothing()
    nothing.rows, nothing.areas = 0, empty
    batch = Assembler(OUTPUTS)(nothing)
    assert batch["key"].tolist() == batch["boxes"].tolist() == []
    assert batch["boxes"].values.values.shape == (0, 2)
    assert Assembler([])(nothing) == {}


def test_assembler_takes_a_block_of_any_length():
    class Odd(ctypes.Array):
        _type_ = ctypes.c_uint8
        _length_ = 9

    odd = Odd()
    odd.rows, odd.areas = 9, (0, 64)
    odd[8] = 7
    assert Assembler([Output("x", "column", torch.uint8)])(odd)["x"][8] == 7


def test_assembler_refuses_a_name_twice():
    with pytest.raises(ValueError, match="is used twice"):
        Assembler([OUTPUTS[0], OUTPUTS[0]])


def test_rows_by_a_mask_are_taken_as_the_message_says():
    batch = make_batch()
    rows = batch["flag"]
    with pytest.raises(KeyError, match=r"got a Tensor \(4,\): .* write Batch\(\{n: v\[rows\]"):
        batch[rows]
    taken = Batch({n: v[rows] for n, v in batch.items()})
    assert taken["label"].tolist() == [0, 2]
    assert taken["word"].tolist() == ["a", "bc"]
    assert taken.to_arrow().to_pylist() == [batch.to_arrow().to_pylist()[k] for k in (0, 2)]


@pytest.mark.parametrize("values", [["a", "b", "c", "d"], np.arange(4), pa.array([1, 2, 3, 4])])
def test_values_of_another_kind_are_appended_to_the_arrow_batch(values):
    batch = make_batch()
    with pytest.raises(TypeError, match=r"to_arrow\(\)\.append_column\('new', pyarrow\.array\("):
        Batch({**batch, "new": values}).to_arrow()
    whole = batch.to_arrow().append_column("new", pa.array(values))
    assert whole["new"].equals(pa.array(values))
    assert whole.drop_columns("new").equals(batch.to_arrow())
