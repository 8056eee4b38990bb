"""split=: disjoint, complementary, and the same on every machine."""

import datetime
import itertools
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from fastload import FastParquetDataset, SchemaError
from fastload.errors import ColumnNotFoundError
from fastload.rows.predicate import parse_split
from fastload.rows.row_hash import hash_columns, hash_numbers
from support.xxhash64 import xxhash64

ROWS = 4000


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    directory = tmp_path_factory.mktemp("split")
    number = np.arange(ROWS)
    table = pa.table(
        {"number": number, "user": [f"u{n % 50}" for n in number], "list": [[1]] * ROWS}
    )
    for i in range(2):
        part = table.slice(i * ROWS // 2, ROWS // 2)
        pq.write_table(part, directory / f"{i}.parquet", row_group_size=700)
    return directory


def rows_of(source, split, **more):
    dataset = FastParquetDataset(source, columns=["number", "user"], split=split, **more)
    rows = [
        row
        for batch in dataset
        for row in zip(batch["number"].tolist(), batch["user"].tolist(), strict=True)
    ]
    assert len(dataset) == -(-len(rows) // 1024)
    return rows


@pytest.mark.parametrize("columns", [None, "user", "number", ("user", "number")])
def test_disjoint_and_complementary(directory, columns):
    edges = [0, 0.1, 0.1 + 0.2, 0.85, 1]
    parts = [rows_of(directory, (columns, *pair)) for pair in itertools.pairwise(edges)]
    assert sorted(row for part in parts for row in part) == rows_of(directory, None)
    if columns != "user":
        assert abs(len(parts[0]) - 0.1 * ROWS) < 0.02 * ROWS


def test_a_user_is_in_one_part(directory):
    train, valid = (rows_of(directory, ("user", *pair)) for pair in ((0, 0.8), (0.8, 1)))
    assert train
    assert valid
    assert not {user for _, user in train} & {user for _, user in valid}


def test_whole_and_empty_ranges(directory):
    assert len(rows_of(directory, (None, 0, 1))) == ROWS
    assert rows_of(directory, (None, 0.5, 0.5)) == []
    assert rows_of(directory, (None, 1, 1)) == []
    assert rows_of(directory, ("user", 1, 1.0)) == []


def test_with_filters(directory):
    split = ("user", 0.3, 0.9)
    kept = rows_of(directory, split, filters=pc.field("number") < 1000)
    assert kept == [row for row in rows_of(directory, split) if row[0] < 1000]
    split = (None, 0.3, 0.9)
    kept = rows_of(directory, split, filters=pc.field("number") >= 2500)
    assert kept == [row for row in rows_of(directory, split) if row[0] >= 2500]


def test_columns_do_not_depend_on_files(directory):
    split = (["user"], 0, 0.5)
    turned = [directory / "1.parquet", directory / "0.parquet"]
    assert sorted(rows_of(turned, split)) == rows_of(directory, split)


def test_rows_do_not_depend_on_other_files_or_places(directory, tmp_path):
    split = (None, 0, 0.5)
    before = set(rows_of(directory, split))
    shutil.copy(directory / "0.parquet", tmp_path / "00.parquet")
    shutil.copy(directory / "1.parquet", tmp_path / "1.parquet")
    added = {row for row in rows_of(tmp_path, split) if row[0] >= ROWS // 2}
    assert added == {row for row in before if row[0] >= ROWS // 2}


def chained(*values):
    hashed = 0
    for value in values:
        hashed = xxhash64(b"", hashed + 1) if value is None else xxhash64(value, hashed)
    return hashed


def int64(value):
    return int(value).to_bytes(8, "little", signed=value < 0)


def float64(value):
    return np.float64(value).tobytes()


@pytest.mark.parametrize(
    ("array", "values"),
    [
        (pa.array(["", "abc", None, "x" * 99]), [b"", b"abc", None, b"x" * 99]),
        (pa.array([b"ab", b"cd"], pa.binary(2)), [b"ab", b"cd"]),
        (pa.array(["a", "b", "a", None]).dictionary_encode(), [b"a", b"b", b"a", None]),
        (pa.array([1, -1, None], pa.int8()), [int64(1), int64(-1), None]),
        (pa.array([2**64 - 1, 5], pa.uint64()), [int64(2**64 - 1), int64(5)]),
        (pa.array([True, False, None]), [int64(1), int64(0), None]),
        (pa.array([0.0, -0.0, 1.5], pa.float32()), [float64(0), float64(0), float64(1.5)]),
        (pa.array([float("nan"), None, 2.0]), [float64(np.nan), None, float64(2)]),
        (pa.array([datetime.date(1970, 1, 3)]), [int64(2)]),
        (pa.array([1000], pa.timestamp("ms")), [int64(1000)]),
        (pa.array([None, None]), [None, None]),
    ],
    ids=str,
)
def test_hashes_as_defined(array, values):
    assert hash_columns([array]).tolist() == [chained(value) for value in values]
    sliced = pa.concat_arrays([array, array]).slice(1) if len(array) > 1 else array
    if len(array) > 1:
        assert hash_columns([sliced]).tolist()[-len(array) :] == [chained(v) for v in values]
    twice = [chained(value, value) for value in values]
    assert hash_columns([array, array]).tolist() == twice


def test_hashes_of_rows_as_defined():
    seed = xxhash64("year=1/é.parquet".encode())
    expected = [xxhash64(int64(row), seed) for row in (7, 8)]
    assert hash_numbers("year=1/é.parquet", 7, 2).tolist() == expected


def test_bounds_are_exact():
    assert parse_split((None, 0, 1)).bounds == (0, 2**64)
    assert parse_split((None, 0.5, 0.75)).bounds == (2**63, 3 * 2**62)


@pytest.mark.parametrize(
    ("split", "error", "message"),
    [
        (0.5, TypeError, "Expected split as"),
        ((None, 0.5), TypeError, "Expected split as"),
        ((3, 0, 1), TypeError, "names or None"),
        (([], 0, 1), ValueError, "at least one column"),
        ((None, "0", 1), TypeError, "numbers"),
        ((None, 0.6, 0.5), ValueError, "start <= stop"),
        ((None, -0.1, 0.5), ValueError, "start <= stop"),
        ((None, float("nan"), 1), ValueError, "start <= stop"),
        (("usr", 0, 1), ColumnNotFoundError, "the nearest is `user`"),
        (("list", 0, 1), SchemaError, "numbers, strings"),
    ],
)
def test_refusals(directory, split, error, message):
    with pytest.raises(error, match=message):
        FastParquetDataset(directory, split=split)
