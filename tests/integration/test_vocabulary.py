"""`vocabulary` counts the values of a column as Python counts them."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastload
from fastload import (
    Codes,
    ColumnNotFoundError,
    FastParquetDataset,
    NullValueError,
    SchemaError,
)


def expected(values):
    counts = Counter(value for value in values if value is not None)
    return sorted(counts, key=lambda value: (-counts[value], value))


@pytest.fixture(name="write")
def write_fixture(tmp_path):
    def write(values, **writing):
        path = str(tmp_path / "data.parquet")
        pq.write_table(pa.table({"x": values}), path, **writing)
        return path

    return write


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.binary(), pa.int8(), pa.int64(), pa.uint64()]
)
def test_values_by_falling_count(write, kind):
    numbers = np.random.default_rng(0).zipf(1.3, 40_000) % 100
    values = pa.array(numbers).cast(pa.string() if not pa.types.is_integer(kind) else kind)
    values = values.cast(kind)
    path = write(values, row_group_size=7_000)
    assert fastload.vocabulary(path, "x") == expected(values.to_pylist())


def test_many_distinct_values(write):
    """Counts are added up more than once."""
    values = np.random.default_rng(1).integers(0, 2_000_000, 3_000_000)
    found = fastload.vocabulary(write(pa.array(values)), "x")
    distinct, counts = np.unique(values, return_counts=True)
    assert found == distinct[np.lexsort((distinct, -counts))].tolist()


def test_nulls_are_not_counted(write):
    values = [None, "b", "", None, "b", "a", None, ""]
    assert fastload.vocabulary(write(values), "x") == ["", "b", "a"]
    path = write(pa.array([None, 0, 3, 3, None]))
    assert fastload.vocabulary(path, "x") == [3, 0]
    assert fastload.vocabulary(path, "x", nulls="zero") == [0, 3]


def test_elements_of_lists(write):
    path = write([["a", "b"], [], ["b"]])
    assert fastload.vocabulary(path, "x") == ["b", "a"]
    path = write(pa.array([[1, 2], [2, 3]], pa.list_(pa.int32(), 2)))
    assert fastload.vocabulary(path, "x") == [2, 1, 3]


def test_long_lists_keep_to_the_memory_budget(write):
    values = pa.array(list(np.arange(20_000_000).reshape(200, -1) % 7))
    assert fastload.vocabulary(write(values), "x", memory_budget="500MB") == [*range(7)]


def test_a_null_element_of_a_list(write):
    path = write([["a", None], [], ["a"]])
    with pytest.raises(NullValueError, match="`x`"):
        fastload.vocabulary(path, "x")
    assert fastload.vocabulary(path, "x", nulls="zero") == ["a", ""]


def test_limits(write):
    path = write(["c", "c", "c", "b", "b", "a", "a", "d"])
    assert fastload.vocabulary(path, "x", min_count=2) == ["c", "a", "b"]
    assert fastload.vocabulary(path, "x", max_size=2) == ["c", "a"]
    assert fastload.vocabulary(path, "x", min_count=9) == []


def test_rows_that_filters_keep(write):
    path = write([5, 5, 1, 2, 2, 2])
    assert fastload.vocabulary(path, "x", filters=[("x", "<", 5)]) == [2, 1]


def test_every_rank_counts_all_rows(write, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert fastload.vocabulary(write([3, 1, 1, 2, 2, 2]), "x") == [2, 1, 3]


def test_codes_take_the_values(write):
    path = write(["b", "b", "a", "c"])
    words = fastload.vocabulary(path, "x", max_size=2)
    codes = Codes("x", [None, *words], unknown=0)
    batch = next(iter(FastParquetDataset(path, columns={"x": codes})))
    assert batch["x"].tolist() == [1, 1, 2, 0]


def test_without_rows(write):
    assert fastload.vocabulary(write(pa.array([], pa.string())), "x") == []
    assert fastload.vocabulary(write(pa.array([None], pa.string())), "x") == []


@pytest.mark.parametrize("precision", [9, 15, 16, 38])
def test_decimals_of_scale_0_are_integers(write, precision):
    values = [Decimal(8), Decimal(-3), None, Decimal(8)]
    words = fastload.vocabulary(write(pa.array(values, pa.decimal128(precision, 0))), "x")
    assert words == [8, -3]
    assert {type(word) for word in words} == {int}
    lists = pa.array([values[:2], [], values[3:]], pa.list_(pa.decimal128(precision, 0)))
    assert fastload.vocabulary(write(lists), "x") == [8, -3]


def test_a_column_of_type_null(write):
    path = write(pa.nulls(3))
    assert fastload.vocabulary(path, "x") == []
    assert fastload.vocabulary(path, "x", nulls="zero") == [0]


@pytest.mark.parametrize(
    "values",
    [
        [1.5],
        [True],
        [[0.5]],
        pa.array([1], pa.timestamp("us")),
        pa.array([Decimal("1.5")], pa.decimal128(9, 1)),
    ],
)
def test_a_column_of_another_type(write, values):
    message = r"strings, binary, integers or decimals of scale 0 to count, got .* `x`"
    with pytest.raises(SchemaError, match=message):
        fastload.vocabulary(write(values), "x")


@pytest.mark.parametrize("values", [[{"a": 1, "b": "u"}], [[{"a": 1, "b": "u"}]]])
def test_a_column_of_several_fields(write, values):
    path = write(values)
    with pytest.raises(ColumnNotFoundError, match=r"got `x`: name one of `x\.a`, `x\.b`"):
        fastload.vocabulary(path, "x")
    assert fastload.vocabulary(path, "x.b") == ["u"]


def test_arguments(write):
    path = write([1])
    with pytest.raises(ValueError, match=r"Expected min_count in \[1, "):
        fastload.vocabulary(path, "x", min_count=0)
    with pytest.raises(TypeError, match=r"Expected max_size to be an int, got 1\.5"):
        fastload.vocabulary(path, "x", max_size=1.5)
    with pytest.raises(TypeError, match="for reading, got 'shuffle'"):
        fastload.vocabulary(path, "x", shuffle=True)
    with pytest.raises(TypeError, match=r"Expected io as fastload\.IO, got 0"):
        fastload.vocabulary(path, "x", io=0)
    with pytest.raises(TypeError, match="Expected the name of a column, got"):
        fastload.vocabulary(path, ["x"])
