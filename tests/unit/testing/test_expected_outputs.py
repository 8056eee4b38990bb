"""What a batch should hold of a pyarrow table, against values written by hand."""

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
import torch

from fastload import Codes, Column, Fixed, Hash, Pad, Ragged, Stack
from fastload.runtime import _core
from fastload.testing.expected_numbers import cast
from fastload.testing.expected_outputs import NullRule, outputs_of


def rows_of(array, spec="x", nulls="nan"):
    return outputs_of(pa.table({"x": array}), {"out": spec}, NullRule(nulls))["out"].rows


NAN = float("nan")


def same(got, want):
    """NaN equals itself."""
    return repr(got.tolist()) == repr(want)


@pytest.mark.parametrize(
    ("array", "spec", "want", "dtype"),
    [
        (pa.array([1, 2], pa.int8()), "x", [1, 2], torch.int8),
        (pa.array([1, None]), Column("x", fill=7), [1, 7], torch.int64),
        (pa.array([1, None], pa.uint64()), Column("x", valid=True), [1, 0], torch.uint64),
        (pa.array([1.5, None], pa.float16()), "x", [1.5, NAN], torch.float16),
        (pa.array([True, None]), Column("x", fill=True), [True, True], torch.bool),
        (pa.array([1, None]), Column("x", dtype=torch.float32), [1.0, NAN], torch.float32),
        (pa.nulls(2), "x", [NAN, NAN], torch.float32),
        (pa.array([Decimal("1.50"), None], pa.decimal128(5, 2)), "x", [1.5, NAN], torch.float64),
        (
            pa.array([Decimal("-1.50")], pa.decimal256(50, 2)),
            Column("x", dtype=torch.int32),
            [-150],
            torch.int32,
        ),
        (pa.array([3], pa.date32()), "x", [3], torch.int32),
        (pa.array([3], pa.time32("ms")), "x", [3], torch.int64),
        (pa.array([3], pa.timestamp("us")), "x", [3], torch.int64),
        (pa.array([True]).cast(pa.int8()).cast(pa.bool8()), "x", [True], torch.bool),
        (pa.array([3, 3, 4], pa.int16()).dictionary_encode(), "x", [3, 3, 4], torch.int16),
        (pa.array(["é", ""]).dictionary_encode(), "x", ["é", ""], torch.uint8),
        (pa.array(["a", None], pa.string_view()), Column("x", fill="?"), ["a", "?"], torch.uint8),
        (pa.array([b"ab", None], pa.binary(2)), Column("x", valid=True), [b"ab", b""], torch.uint8),
    ],
)
def test_flat(array, spec, want, dtype):
    rows = rows_of(array, spec)
    assert rows.dtype == dtype
    assert same(rows, want)
    # A part of an array has an offset.
    assert same(rows_of(pa.concat_arrays([array, array])[len(array) :], spec), want)


LISTS = pa.array([[1, 2], None, [], [None]], pa.list_(pa.int32()))
FIXED = pa.array([[1, 2], None, [3, None]], pa.list_(pa.float32(), 2))


@pytest.mark.parametrize(
    ("array", "spec", "want", "dtype"),
    [
        (LISTS, Column("x", fill=9), [[1, 2], [], [], [9]], torch.int32),
        (LISTS, Column("x", valid=True), [[1, 2], [], [], [0]], torch.int32),
        (LISTS, Column("x", dtype=torch.float64), [[1.0, 2.0], [], [], [NAN]], torch.float64),
        (FIXED, Column("x", fill=0), [[1.0, 2.0], [0.0, 0.0], [3.0, 0.0]], torch.float32),
        (FIXED[2:], "x", [[3.0, NAN]], torch.float32),
        (
            pa.array([[[1], None], None, [[2, 3]]], pa.list_(pa.list_(pa.int64()))),
            Column("x", fill=0),
            [[[1], []], [], [[2, 3]]],
            torch.int64,
        ),
        (
            pa.array([["a", None], []], pa.large_list(pa.string())),
            Column("x", fill="-"),
            [["a", "-"], []],
            torch.uint8,
        ),
        (
            pa.array([["a", "b"], None], pa.list_(pa.string(), 2)),
            Column("x", fill="-"),
            [["a", "b"], []],
            torch.uint8,
        ),
        (
            pa.array([[[1, 2]], []], pa.list_(pa.list_(pa.int8(), 2))),
            "x",
            [[[1, 2]], []],
            torch.int8,
        ),
        (
            pa.array([[[1], []]], pa.list_(pa.list_(pa.int8()), 2)),
            "x",
            [[[1], []]],
            torch.int8,
        ),
        (
            LISTS,
            Pad(Column("x", fill=9), 3, value=-1),
            [[1, 2, -1], [-1] * 3, [-1] * 3, [9, -1, -1]],
            torch.int32,
        ),
        (FIXED[:1], Pad("x", 1), [[1.0]], torch.float32),
        (pa.array([["a", "b"], ["c"]]), Codes("x", ["b", "a"]), [[1, 0], [-1]], torch.int64),
        (pa.array(["a", None]), Codes("x", ["a"], unknown=5), [0, 5], torch.int64),
        (pa.array([[7], [-1, 0]]), Codes("x", [-1, 7]), [[1], [0, -1]], torch.int64),
    ],
)
def test_lists(array, spec, want, dtype):
    rows = rows_of(array, spec)
    assert rows.dtype == dtype
    assert same(rows, want)


def test_hash():
    # XXH64 of "abc" and of nothing with seed 0, as xxHash's own tests publish them.
    words = rows_of(pa.array(["abc", None]), Hash("x", 1000, fill=""))
    assert words.tolist() == [0x44BC2CF5AD770999 % 1000, 0xEF46DB3751D8E999 % 1000]
    numbers = rows_of(pa.array([[-1], [2]], pa.list_(pa.int16())), Hash("x", 1000, seed=5))
    assert numbers.tolist() == [
        [_core.xxhash64(b"\xff" * 8, 5) % 1000],
        [_core.xxhash64(b"\x02" + bytes(7), 5) % 1000],
    ]


def test_a_map_of_lists_of_type_null():
    kind = pa.map_(pa.string(), pa.large_list(pa.null()))
    maps = pa.array([[], [("a", [None] * 3)], None, [("b", [None]), ("c", [None] * 2)]], kind)
    table = pa.table({"m": maps[1:]})
    rows = outputs_of(table, {"m.value": Column("m.value", fill=0)})["m.value"].rows
    assert rows.tolist() == [[[0, 0, 0]], [], [[0], [0, 0]]]


def test_structs_and_maps():
    table = pa.table(
        {
            "s": pa.array([{"a": 1, "b": [{"c": "x"}]}, None, {"a": None, "b": None}]),
            "m": pa.array([[("k", [1])], None, []], pa.map_(pa.string(), pa.list_(pa.int64()))),
            "i": pa.array([1, 2, 3]),
        }
    )
    outputs = outputs_of(table, {"s": Column("s", valid=True), "m": Column("m", valid=True)})
    assert {name: output.rows.tolist() for name, output in outputs.items()} == {
        "s.a": [1, 0, 0],
        "s.a__valid": [True, False, False],
        "s.b.c": [["x"], [], []],
        "s.b.c__valid": [True, False, False],
        "m.key": [["k"], [], []],
        "m.key__valid": [True, False, True],
        "m.value": [[[1]], [], []],
        "m.value__valid": [True, False, True],
    }
    assert list(outputs_of(table, {"out": Column("s.a", fill=0)})) == ["out"]
    assert list(outputs_of(table, ["i"])) == ["i"]
    with pytest.raises(KeyError, match="got `j`"):
        outputs_of(table, ["j"])
    with pytest.raises(ValueError, match=r"Expected no nulls, .* column `s\.a`"):
        outputs_of(table)


def test_a_fill_of_another_kind_than_the_values_names_its_column():
    table = pa.table({"m": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64()))})
    for fill, match in ((0, "str or bytes as fill, got 0 - at column `m.key`"),
                        ("a", "a number as fill, got 'a' - at column `m.value`")):  # fmt: skip
        with pytest.raises(TypeError, match=match):
            outputs_of(table, {"out": Column("m", fill=fill)})


@pytest.mark.parametrize("spec", [Pad("x", 2), Fixed("x", 2)])
@pytest.mark.parametrize(
    ("values", "got"),
    [
        ([1], "got int64"),
        (["a"], "got string"),
        ([["a"]], "got list of string"),
        ([[[1]]], "got list of list of int64"),
    ],
)
def test_pad_and_fixed_of_other_columns_than_lists_of_numbers(spec, values, got):
    with pytest.raises(TypeError, match=f"{type(spec).__name__}, {got} - at column `x`"):
        outputs_of(pa.table({"x": values}), [spec])


def test_fixed_of_lists_of_other_lengths():
    table = pa.table({"x": [[1, 2], None, [3]]})
    with pytest.raises(ValueError, match="lists of 2 elements, got one of 1 - at column `x`"):
        outputs_of(table, [Fixed("x", 2)])


def test_pad_and_stack():
    table = pa.table({"l": LISTS, "i": pa.array([1, None, 3, 4]), "f": [0.5, 1.5, 2.5, None]})
    columns = {"p": Pad(Column("l", valid=True), 1), "s": Stack(["i", "f"])}
    outputs = outputs_of(table, columns, NullRule("nan"))
    assert list(outputs) == ["p", "p__length", "p__valid", "s"]
    assert outputs["p__length"].rows.tolist() == [1, 0, 0, 1]
    assert outputs["p__valid"].rows.tolist() == [True, False, True, True]
    assert same(outputs["s"].rows, [[1.0, 0.5], [NAN, 1.5], [3.0, 2.5], [4.0, NAN]])
    outputs = outputs_of(table, columns, NullRule("zero"))
    assert same(outputs["s"].rows, [[1.0, 0.5], [0.0, 1.5], [3.0, 2.5], [4.0, 0.0]])
    with pytest.raises(ValueError, match=r"Expected no nulls, .* column `i`"):
        outputs_of(table, columns)


FLOATS = [
    pa.array([1.5, None], pa.float16()),
    pa.array([1.5, None], pa.float32()),
    pa.array([Decimal("1.50"), None], pa.decimal128(5, 2)),
    pa.array([[1.5, None]]),
    pa.array([[1.5, None]], pa.list_(pa.float64(), 2)),
]


@pytest.mark.parametrize("array", FLOATS, ids=lambda array: str(array.type))
def test_nulls_of_floats(array):
    for nulls, value in (("nan", NAN), ("zero", 0.0), ("mask", 0.0)):
        rows = rows_of(array, nulls=nulls).tolist()
        assert repr(rows) in (repr([1.5, value]), repr([[1.5, value]]))
    with pytest.raises(ValueError, match=r"Expected no nulls, .* column `x`"):
        rows_of(array, nulls="raise")


def test_tensors():
    kind = pa.fixed_shape_tensor(pa.int64(), [2, 3], permutation=[1, 0])
    storage = pa.array([[1, 2, 3, 4, 5, 6]], kind.storage_type)
    array = pa.ExtensionArray.from_storage(kind, storage)
    assert rows_of(array).tolist() == [[[1, 4], [2, 5], [3, 6]]]
    assert (array.to_numpy_ndarray() == rows_of(array).numpy()).all()


def test_tensors_in_structs_of_null_lists():
    kind = pa.fixed_shape_tensor(pa.int64(), [2])
    tensors = pa.ExtensionArray.from_storage(kind, pa.array([[1, 2]], kind.storage_type))
    structs = pa.StructArray.from_arrays([tensors], ["a"])
    for mask, rows in ([True], [[]]), ([False], [[[1, 2]]]):
        lists = pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), structs, mask=pa.array(mask))
        output = outputs_of(pa.table({"l": lists}), {"l": Column("l.a", fill=0)})["l"]
        assert output.rows.tolist() == rows


def test_chunks_and_empty_tables():
    whole = pa.table({"x": LISTS, "y": pa.array(["a"] * 4)})
    parts = pa.concat_tables([whole, whole[:0], whole[2:]])
    rows = outputs_of(parts, {"x": Column("x", fill=0), "y": "y"})
    assert rows["x"].rows.tolist() == [[1, 2], [], [], [0], [], [0]]
    empty = outputs_of(whole.schema.empty_table())
    assert (len(empty["x"].rows), len(empty["y"].rows)) == (0, 0)
    assert isinstance(empty["x"].rows, Ragged)


def test_halves_are_rounded_once():
    # Just above the middle of two neighbours: rounded to float32 first, it would go down.
    for dtype, middle in ((torch.float16, 1 + 2**-11), (torch.bfloat16, 1 + 2**-8)):
        above = np.array([middle + 2**-40])
        assert cast(above, dtype).item() > 1
        assert cast(-above, dtype).item() < -1
        assert cast(np.array([middle]), dtype).item() == 1
    assert cast(np.array([1e30, np.inf]), torch.float16).tolist() == [np.inf, np.inf]
    assert cast(np.array([2**62 + 2**54 + 1]), torch.bfloat16).item() == 2**62 + 2**55
