"""Filters keep the rows that Arrow keeps of a table in memory, whatever statistics a file has."""

import datetime
import decimal
import inspect
import tempfile

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastload import FastParquetDataset
from fastload.rows.filter_schema import FilterSchema
from fastload.rows.predicate import parse_split
from fastload.rows.row_test import RowTest
from fastload.source.source import Source

NAN, INF = float("nan"), float("inf")
VALUES = {
    "f": (pa.float64(), [0.0, -0.0, 1.0, -2.5, 7.0, INF, -INF, NAN]),
    "g": (pa.float32(), [0.0, -0.0, 0.5, INF, NAN]),
    "i": (pa.int32(), [-5, 0, 1, 7]),
    "u": (pa.uint16(), [0, 3, 65_535]),
    "b": (pa.bool_(), [False, True]),
    "day": (pa.date32(), [datetime.date(1969, 12, 31), datetime.date(2024, 2, 29)]),
    "at": (
        pa.timestamp("us", "UTC"),
        [datetime.datetime(y, 2, 28, tzinfo=datetime.timezone.utc) for y in (1969, 2024)],
    ),
    "s": (pa.string(), ["", "a", "b", "é"]),
    "d": (pa.decimal128(7, 2), [decimal.Decimal(n) / 4 for n in (-6, 0, 1, 4)]),
}
ROWS = 120
BLOOM = "bloom_filter_options" in inspect.signature(pq.write_table).parameters


@st.composite
def columns(draw, name):
    """A column of few values, some of them null; sorted runs let statistics say something."""
    arrow, values = VALUES[name]
    some = draw(st.lists(st.sampled_from([*values, None]), min_size=1, max_size=4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    places = rng.integers(0, len(some), ROWS)
    if draw(st.booleans()):
        places.sort()
    return pa.array([some[place] for place in places], arrow)


@st.composite
def conditions(draw):
    name = draw(st.sampled_from(sorted(VALUES)))
    arrow, values = VALUES[name]
    field, value = pc.field(name), pa.scalar(draw(st.sampled_from(values)), arrow)
    members = pa.array(draw(st.lists(st.sampled_from([*values, None]), max_size=3)), arrow)
    found = [
        field == value,
        field != value,
        field < value,
        field >= value,
        field.isin(members),
        ~field.isin(members),
        field.is_null(),
    ]
    if name in "fgi":
        added = field + pa.scalar(1, arrow)
        found += [added > value, pc.negate(field) == value, added.isin(members)]
    if name in "fg":
        found += [
            pc.is_nan(field),
            field.cast(pa.string()) == "nan",
            pc.divide(pc.scalar(1.0), field) < 0,
        ]
    return draw(st.sampled_from(found))


FILTERS = st.recursive(
    conditions(),
    lambda parts: (
        st.tuples(parts, parts).map(lambda p: p[0] & p[1])
        | st.tuples(parts, parts).map(lambda p: p[0] | p[1])
        | parts.map(lambda p: ~p)
    ),
    max_leaves=4,
)
SPLITS = st.sampled_from(
    [None, None, (None, 0.2, 0.8), ("s", 0, 0.6), (("i", "f"), 0.3, 1), (("day",), 0, 0.7)]
)


def rows_of(path, filters, split, **more):
    dataset = FastParquetDataset(path, columns=["n"], filters=filters, split=split, **more)
    return [n for batch in dataset for n in batch["n"].tolist()]


def expected(path, table, filters, split):
    """What Arrow keeps of the table, less what the split leaves out."""
    passes = table.append_column("keep", [pa.array(np.arange(ROWS))]).filter(filters)["n"]
    if split is None:
        return passes.to_pylist()
    schema = FilterSchema.of(Source.open(path))
    test = RowTest(schema, schema.predicate(None, parse_split(split)))
    if split[0] is None:
        kept = test.of_numbers(Source.open(path).files[0].name, 0, ROWS)
    else:
        names = [split[0]] if isinstance(split[0], str) else split[0]
        kept = test.of_arrays([table[name].combine_chunks() for name in names])
    return [n for n in passes.to_pylist() if kept[n]]


@settings(max_examples=settings.default.max_examples // 3, deadline=None)
@given(st.data(), FILTERS, SPLITS)
def test_statistics_and_row_groups_change_no_row(data, filters, split):
    table = pa.table({name: data.draw(columns(name)) for name in sorted(VALUES)})
    table = table.append_column("n", pa.array(np.arange(ROWS)))
    groups = data.draw(st.sampled_from([1, 7, 100, ROWS]))
    page_index = data.draw(st.booleans())
    filtered = {name: {"ndv": 9} for name in VALUES if name != "b"}
    bloom = {"bloom_filter_options": filtered} if BLOOM else {}
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/a.parquet"
        for statistics in (True, False):
            pq.write_table(
                table,
                path,
                row_group_size=groups,
                data_page_size=100,
                write_batch_size=20,
                write_page_index=page_index and statistics,
                write_statistics=statistics,
                use_dictionary=data.draw(st.booleans()),
                **bloom,
            )
            want = expected(path, table, filters, split)
            assert rows_of(path, filters, split) == want
            assert rows_of(path, filters, split, uneven="keep", rank=0, world_size=1) == want


@pytest.mark.parametrize(
    ("values", "filters"),
    [
        ([1.0, NAN, 2.0], pc.field("x").isin([NAN, 9.0])),
        ([1.0, NAN, 2.0], pc.field("x").cast(pa.string()) == "nan"),
        ([5.0, NAN, 5.0], (pc.field("x") != 5) & (pc.field("n") * 1 >= 0)),
        ([5.0, NAN, 5.0], ~(pc.field("x") <= 5) & (pc.field("n") * 1 >= 0)),
        ([-0.0, 0.0], pc.field("x").isin([0.0])),
        ([0.0, -0.0], pc.field("x").isin([-0.0])),
        ([-0.0, 0.0], (pc.divide(pc.scalar(1.0), pc.field("x")) > 0) | (pc.field("x") < 0)),
    ],
    ids=str,
)
def test_values_that_bounds_leave_out_are_found(tmp_path, values, filters):
    table = pa.table({"x": values, "n": np.arange(len(values))})
    for statistics in (True, False):
        path = tmp_path / f"{statistics}.parquet"
        pq.write_table(table, path, write_statistics=statistics)
        found = rows_of(path, filters, None)
        assert found
        assert found == table.filter(filters)["n"].to_pylist()


def test_hive_keys_leave_files_out_where_statistics_may_not(tmp_path):
    for year in (2023, 2024):
        (tmp_path / f"year={year}").mkdir()
        table = pa.table({"x": [1.0, NAN], "n": [0, year]})
        pq.write_table(table, tmp_path / f"year={year}" / "a.parquet")
    # A file that is looked into would be found to be damaged.
    path = tmp_path / "year=2023" / "a.parquet"
    data = bytearray(path.read_bytes())
    data[4:40] = b"\xff" * 36
    path.write_bytes(data)
    filters = (pc.field("year") == 2024) & pc.field("x").isin([NAN])
    assert rows_of(tmp_path, filters, None) == [2024]
