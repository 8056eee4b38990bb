"""assert_same_rows of fastload.testing compares batches with a table by value."""

import datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fastload import FastParquetDataset
from fastload.testing import assert_same_rows

DAYS = [datetime.datetime.fromisoformat(f"2024-01-01T00:00:0{n}") for n in range(4)]
TABLE = pa.table(
    {
        "i": [1, 2, 3, 4],
        "f": pa.array([0.5, float("nan"), 1.5, 2.5], pa.float32()),
        "s": ["a", "", "bc", "d"],
        "b": [b"a", b"", b"\xff", b"d"],
        "l": [[["x"], []], [], [["y", "z"]], [[]]],
        "e": pa.array([[1.0, 2.0]] * 4, pa.list_(pa.float32(), 2)),
        "t": DAYS,
        "u": [[day.date()] for day in DAYS],
        "d": pa.array(map(Decimal, ["0.10", "0.20", "-1.00", "7.25"]), pa.decimal128(5, 2)),
        "n": [{"k": n, "w": {"x": bool(n)}} for n in range(4)],
    }
)


@pytest.fixture
def path(tmp_path):
    pq.write_table(TABLE, tmp_path / "a.parquet")
    return tmp_path / "a.parquet"


def test_the_same_rows(path):
    with FastParquetDataset(path, batch_size=3, provenance=True) as dataset:
        assert_same_rows(dataset, TABLE)
        assert_same_rows(dataset, TABLE.take([3, 1, 0, 2]), ordered=False)
    with FastParquetDataset(path, columns=["s", "i"], batch_size=4) as dataset:
        assert_same_rows(list(dataset), TABLE)


def test_repeated_rows_are_left_out(path):
    ranks = [
        batch
        for rank in range(3)
        for batch in FastParquetDataset(path, rank=rank, world_size=3, uneven="pad")
    ]
    assert_same_rows(ranks, TABLE, ordered=False)


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("i", [1, 2, 3, 5], "Expected 5, got 4 - at row 3, column `i`"),
        ("s", ["a", "", "bd", "d"], "Expected 'bd', got 'bc' - at row 2, column `s`"),
        ("l", [[["x"], []], [], [["y"], ["z"]], [[]]], "at row 2, column `l`"),
        ("t", [DAYS[1], *DAYS[1:]], "Expected 1704067201000000, got 1704067200000000 - at row 0"),
    ],
)
def test_a_value_differs(path, column, values, message):
    at = TABLE.column_names.index(column)
    table = TABLE.set_column(at, column, pa.array(values, TABLE.schema.field(column).type))
    with FastParquetDataset(path, batch_size=3) as dataset:
        with pytest.raises(AssertionError, match=message):
            assert_same_rows(dataset, table)
        with pytest.raises(AssertionError, match="missing in the table or comes once too often"):
            assert_same_rows(dataset, table, ordered=False)


def test_rows_and_columns_that_are_missing(path):
    with FastParquetDataset(path, batch_size=3) as dataset:
        with pytest.raises(AssertionError, match="Expected 3 rows, got more"):
            assert_same_rows(dataset, TABLE[:3])
        longer = pa.concat_tables([TABLE, TABLE[:1]])
        for ordered in (True, False):
            with pytest.raises(AssertionError, match=r"Expected 5 rows, got 4; missing: {'i': 1"):
                assert_same_rows(dataset, longer, ordered=ordered)
        with pytest.raises(KeyError, match="none for `s`"):
            assert_same_rows(dataset, TABLE.drop_columns("s"))
