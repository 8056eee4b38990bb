"""assert_same_rows says yes to the same rows alone, and where others differ."""

import pyarrow as pa
import pytest
import torch

from fastload import Batch, Column, Pad, Ragged
from fastload.testing import assert_same_batches
from support.expected_outputs import outputs_of
from support.same_rows import assert_same_rows

TABLE = pa.table(
    {
        "i": [1, 2, 3, 4],
        "f": [0.0, float("nan"), 1.5, 2.5],
        "s": ["a", "", "bc", "d"],
        "l": [[1, 2], [], [3], [4]],
        "ll": [[["x"], []], [], [["y", "z"]], [[]]],
        "e": pa.array([[1.0, 2.0]] * 4, pa.list_(pa.float32(), 2)),
    }
)


def batches_of(table=TABLE, columns=None, size=3):
    outputs = outputs_of(table, columns)
    for start in range(0, table.num_rows, size):
        yield Batch({name: o.rows[start : start + size] for name, o in outputs.items()})


def changed(name, change, at=1):
    """The batches with one output of one of them changed."""
    batches = [Batch(batch.clone()) for batch in batches_of()]
    batches[at][name] = change(batches[at][name])
    return batches


def test_the_same_rows():
    assert_same_rows(batches_of(), TABLE)
    assert_same_rows(batches_of(), TABLE, ordered=False)
    assert_same_rows([], TABLE[:0])
    assert_same_rows(batches_of(TABLE.select(["s", "i"])), TABLE, ["s", "i"])
    columns = {"p": Pad("l", 3), "x": Column("i", dtype=torch.float16, valid=True)}
    assert_same_rows(batches_of(TABLE, columns), TABLE, columns)


def test_any_order():
    shuffled = TABLE.take([2, 0, 3, 1])
    assert_same_rows(batches_of(shuffled), TABLE, ordered=False)
    with pytest.raises(AssertionError, match="Expected 1, got 3 - at row 0, column `i`"):
        assert_same_rows(batches_of(shuffled), TABLE)
    with pytest.raises(AssertionError, match=r"comes once too often: .*'i': '2'.* - at row 3"):
        assert_same_rows(batches_of(TABLE.take([0, 1, 2, 1])), TABLE, ordered=False)
    with pytest.raises(AssertionError, match=r"4 rows, got 3; row 3 of the table is missing: {'i"):
        assert_same_rows(batches_of(TABLE[:3]), TABLE, ordered=False)


def test_provenance_and_repeated_rows_are_left_out():
    batch = next(iter(batches_of(size=4)))
    batch["__file__"] = torch.zeros(4, dtype=torch.int32)
    batch["__valid__"] = torch.tensor([True, True, False, True])
    assert_same_rows([batch], TABLE.take([0, 1, 3]))


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("i", lambda x: x + 1, "Expected 4, got 5 - at row 3, column `i`"),
        ("f", lambda x: -x, "Expected 2.5, got -2.5 - at row 3, column `f`"),
        ("e", lambda x: x * 2, r"Expected \[1.0, 2.0\], got \[2.0, 4.0\] - at row 3"),
        ("e", lambda x: x[:, :1], r"torch.float32 tensor \(B, 2\), got .* \(B, 1\) - at column"),
        ("i", lambda x: x.int(), "Expected a torch.int64 tensor .* got a torch.int32 tensor"),
        ("i", lambda x: x[:0], "Expected 1 rows, got 0 - at column `i`|Expected 0 rows"),
        ("l", lambda x: x.to_padded(), r"Expected a Ragged of int64, got a torch.int64 tensor"),
        ("s", lambda x: Ragged(x.values, x.offsets), "Ragged of str, got a Ragged of uint8"),
        ("s", lambda x: x.tolist(), "Expected a Ragged of str, got list - at column `s`"),
    ],
)
def test_one_value_differs(name, change, message):
    with pytest.raises(AssertionError, match=message):
        assert_same_rows(changed(name, change), TABLE)


@pytest.mark.parametrize(
    ("column", "other", "row"),
    [
        ("s", ["a", "x", "bc", "d"], 1),
        ("s", ["a", "", "bx", "d"], 2),
        ("s", ["", "a", "bc", "d"], 0),
        ("l", [[1, 2], [3], [], [4]], 1),
        ("l", [[1, 2], [], [9], [4]], 2),
        ("l", [[1, 9], [], [3, 5], [4]], 0),
        ("ll", [[["x"], []], [], [["y", "w"]], [[]]], 2),
        ("ll", [[["x"], []], [], [["y"], ["z"]], [[]]], 2),
        ("ll", [[["x", ""]], [], [["y", "z"]], [[]]], 0),
        ("f", [-0.0, float("nan"), 1.5, 2.5], 0),
    ],
)
def test_the_first_row_that_differs_is_named(column, other, row):
    place = TABLE.column_names.index(column)
    array = pa.array(other, TABLE.schema.field(column).type)
    table = TABLE.set_column(place, column, array)
    with pytest.raises(AssertionError, match=f"at row {row}, column `{column}`"):
        assert_same_rows(batches_of(table), TABLE)
    with pytest.raises(AssertionError, match="missing in the table or comes once too often"):
        assert_same_rows(batches_of(table), TABLE, ordered=False)


def test_rows_and_outputs_that_are_missing():
    with pytest.raises(AssertionError, match="Expected 4 rows, got 3"):
        assert_same_rows(batches_of(TABLE[:3]), TABLE)
    with pytest.raises(AssertionError, match="Expected 3 rows, got more"):
        assert_same_rows(batches_of(), TABLE[:3])
    with pytest.raises(AssertionError, match=r"Expected outputs \['i', .*, got \['s'\]"):
        assert_same_rows(batches_of(TABLE.select(["s"])), TABLE)


def test_the_same_batches():
    assert_same_batches(batches_of(), batches_of())
    with pytest.raises(AssertionError, match="Expected 1 rows, got 2 - at batch 0, column `i`"):
        assert_same_batches(batches_of(size=2), batches_of(size=1))
    with pytest.raises(AssertionError, match="as many batches as others, got no more after 1"):
        assert_same_batches(list(batches_of())[:1], batches_of())
    with pytest.raises(AssertionError, match="more after 0"):
        assert_same_batches(batches_of(), [])
    with pytest.raises(AssertionError, match="Expected 4, got 5 - at batch 1, row 0, column `i`"):
        assert_same_batches(changed("i", lambda x: x + 1), batches_of())
