"""INT96 timestamps, also those that nanoseconds do not reach, against pyarrow in microseconds."""

import datetime as dt
import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import torch

from fastload import Column, Delta, FastParquetDataset, Pad
from fastload.errors import SchemaError
from support.lakehouse import delta_field, write_delta
from support.same_rows import assert_same_rows

FAR = dt.datetime(9999, 12, 31, 23, 59, 59, 999999)  # noqa: DTZ001 - without a time zone
DATES = [FAR, FAR.replace(year=1000), FAR.replace(year=1), FAR.replace(year=2024, day=29), None]
EDGES = [-(2**63) // 1000 + 1, (2**63 - 1) // 1000, 0, -1]


def write(path, dates, **options):
    times = pa.array(dates, pa.timestamp("us"))
    table = pa.table({
        "i": range(len(dates)),
        "t": times,
        "l": [[t, None] for t in times.to_pylist()],
        "s": pa.StructArray.from_arrays([times], ["t"]),
    })  # fmt: skip
    pq.write_table(table, path, use_deprecated_int96_timestamps=True, **options)
    stored = pq.ParquetFile(path)
    assert stored.metadata.row_group(0).column(1).physical_type == "INT96"
    return pq.read_table(path, coerce_int96_timestamp_unit="us")


def microseconds(fill=None):
    names = {"t": "t", "l": "l", "s": "s.t"}
    return {"i": "i", **{k: Column(v, unit="us", fill=fill) for k, v in names.items()}}


@pytest.mark.parametrize("options", [{}, {"use_dictionary": False}, {"row_group_size": 2}], ids=str)
def test_every_date_in_microseconds(tmp_path, options):
    table = write(tmp_path / "x.parquet", DATES, **options)
    columns = microseconds(fill=7)
    dataset = FastParquetDataset(tmp_path, columns=columns, batch_size=2)
    assert dataset.schema["t"].unit == "us"
    assert_same_rows(dataset, table, columns)
    assert_same_rows([dataset.take([3, 0])], table.take([3, 0]), columns)
    for order in ({"shuffle": True}, {"filters": [("i", ">=", 0)]}):
        shuffled = FastParquetDataset(tmp_path, columns=columns, **order)
        assert_same_rows(shuffled, table, columns, ordered=False)
    days = {"t": Column("t", torch.float64, unit="us")}
    assert_same_rows(FastParquetDataset(tmp_path, columns=days, nulls="nan"), table, days)
    padded = {"l": Pad(Column("l", unit="us", fill=0), 3)}
    assert_same_rows(FastParquetDataset(tmp_path, columns=padded), table, padded)


@pytest.mark.parametrize("column", ["t", "l", "s.t"])
@pytest.mark.parametrize("date", DATES[:3], ids=str)
@pytest.mark.parametrize("options", [{}, {"use_dictionary": False}], ids=str)
def test_a_date_that_nanoseconds_do_not_reach(tmp_path, column, date, options):
    write(tmp_path / "x.parquet", [DATES[3]] * 5 + [date], row_group_size=4, **options)
    place = rf"{date.isoformat()}.* - at .*x\.parquet, row group 1, column `{column}`.*, row 5"
    dataset = FastParquetDataset(tmp_path, columns={"t": Column(column, fill=0), "i": "i"})
    with pytest.raises(ValueError, match=place):
        list(dataset)
    with pytest.raises(ValueError, match=place):
        dataset.take([0, 5])
    assert dataset.take([1, 2])["i"].tolist() == [1, 2]
    # Rows that filters leave out may have any date.
    few = FastParquetDataset(tmp_path, columns=[Column(column, fill=0)], filters=[("i", "<", 5)])
    assert few.num_rows == sum(len(next(iter(b.values()))) for b in few) == 5


def test_the_last_dates_that_nanoseconds_reach(tmp_path):
    write(tmp_path / "x.parquet", EDGES)
    assert_same_rows(FastParquetDataset(tmp_path, columns=["t"]), pq.read_table(tmp_path), ["t"])
    for edge in (EDGES[0] - 1, EDGES[1] + 1):
        write(tmp_path / "x.parquet", [edge])
        with pytest.raises(ValueError, match="fits int64 as nanoseconds"):
            list(FastParquetDataset(tmp_path, columns=["t"]))


@pytest.mark.parametrize(
    "rows",
    [
        {"filters": [("t", "<", "2030-01-01")]},
        {"filters": pc.field("t") + pa.scalar(1, pa.duration("ns")) < dt.datetime(2030, 1, 1)},  # noqa: DTZ001
        {"filters": [("s.t", "<", "2030-01-01")]},
        {"split": ("t", 0, 0.5)},
        {"split": ("s.t", 0, 0.5)},
    ],
    ids=str,
)
@pytest.mark.parametrize("date", DATES[:2], ids=str)
def test_filters_and_splits_name_such_a_date(tmp_path, date, rows):
    write(tmp_path / "x.parquet", [DATES[3], date])
    advice = r"filters and split need a file with timestamps in microseconds"
    with pytest.raises(ValueError, match=rf"{advice}.*x\.parquet, row group 0"):
        list(FastParquetDataset(tmp_path, columns=["i"], **rows))


BEYOND = [
    dt.datetime(2500, 1, 1),  # noqa: DTZ001
    dt.date(1600, 1, 1),
    np.datetime64("2500-01-01"),
    "1600-01-01",
]


@pytest.mark.parametrize("value", BEYOND, ids=str)
def test_values_of_filters_that_nanoseconds_do_not_reach(tmp_path, value):
    # Besides dates, the first and the last nanosecond that int64 counts.
    stored = pa.array([0, 1_001, None, -(2**63), 2**63 - 1], pa.int64()).cast(pa.timestamp("ns"))
    pq.write_table(pa.table({"i": range(5), "t": stored}), tmp_path / "x.parquet")

    def passing(filters):
        dataset = FastParquetDataset(tmp_path, columns=["i"], filters=filters)
        return [i for batch in dataset for i in batch["i"].tolist()]

    late = "2500" in str(value)
    every = [0, 1, 3, 4]
    for operator in ("<", "<=", ">", ">="):
        assert passing([("t", operator, value)]) == (every if (operator[0] == "<") == late else [])
    assert passing([("t", "==", value)]) == passing([("t", "in", [value])]) == []
    assert passing([("t", "!=", value)]) == every
    assert passing([("t", "not in", [value])]) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("value", BEYOND, ids=str)
@pytest.mark.parametrize("coarse", ["INT96", "us"])
def test_values_of_filters_beyond_a_column_that_may_hold_them(tmp_path, value, coarse):
    """An error that says what to write, since no file's rows may be left out unseen."""
    if coarse == "INT96":
        write(tmp_path / "x.parquet", [DATES[3], None])
    else:
        for unit in ("ns", "us"):
            time = pa.array([0], pa.timestamp(unit))
            pq.write_table(pa.table({"i": [0], "t": time}), tmp_path / f"{unit}.parquet")
    with pytest.raises(SchemaError, match=r'\.cast\("timestamp\[us\]", safe=False\)'):
        FastParquetDataset(tmp_path, columns=["i"], filters=[("t", "<", value)])
    late = pc.field("t").cast("timestamp[us]", safe=False) < FAR
    assert len(list(FastParquetDataset(tmp_path, columns=["i"], filters=late, batch_size=9))) == 1


def test_filters_on_a_table_in_microseconds(tmp_path):
    table = pa.table({"t": pa.array(DATES[:4], pa.timestamp("us"))})
    rows = [(table, {}, None)]
    fields = [delta_field("t", "timestamp_ntz")]
    write_delta(tmp_path, fields, rows, use_deprecated_int96_timestamps=True)
    (log,) = (tmp_path / "_delta_log").iterdir()
    first, _, rest = log.read_text().partition("\n")
    protocol = json.loads(first)["protocol"] | {"minReaderVersion": 3, "minWriterVersion": 7}
    protocol |= {f"{kind}Features": ["timestampNtz"] for kind in ("reader", "writer")}
    log.write_text(json.dumps({"protocol": protocol}) + "\n" + rest)
    late = pc.year(pc.field("t")) > 3000
    columns = {"t": Column("t", unit="us")}
    found = FastParquetDataset(Delta(tmp_path), columns=columns, filters=late)
    assert_same_rows(found, table.filter(late), columns)


def test_units_of_other_times(tmp_path):
    table = pa.table({
        "ns": pa.array([1_000_000_000, -5_000_000_000], pa.timestamp("ns", "UTC")),
        "ms": pa.array([1000, -2000], pa.timestamp("ms")),
        "day": pa.array([1, -2], pa.date32()),
        "date64": pa.array([86_400_000, -86_400_000], pa.date64()),
        "time": pa.array([1000, 2000], pa.time32("ms")),
        "took": pa.array([3_000_000, None], pa.duration("us")),
        "x": [1, 2],
    })  # fmt: skip
    pq.write_table(table, tmp_path / "x.parquet")
    times = [name for name in table.column_names if name != "x"]
    for unit in ("s", "ms", "us", "ns"):
        columns = {name: Column(name, unit=unit, fill=0) for name in times}
        dataset = FastParquetDataset(tmp_path, columns=columns)
        assert {field.unit for field in dataset.schema.values()} == {unit}
        assert_same_rows(dataset, table, columns)
    pq.write_table(pa.table({"t": pa.array([999], pa.timestamp("ms"))}), tmp_path / "x.parquet")
    with pytest.raises(ValueError, match=r"divided by 1000 without a remainder, got 999 .*row 0"):
        list(FastParquetDataset(tmp_path, columns=[Column("t", unit="s")]))
    with pytest.raises(Exception, match="Expected no unit for a column of type int64, got 'us'"):
        FastParquetDataset(pa_file(tmp_path), columns=[Column("x", unit="us")])
    with pytest.raises(ValueError, match="Expected unit of Column to be None, 's'"):
        Column("t", unit="day")


def pa_file(directory):
    path = directory / "numbers.parquet"
    pq.write_table(pa.table({"x": [1]}), path)
    return path
