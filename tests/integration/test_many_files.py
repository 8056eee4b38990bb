"""Datasets of many files that differ, from the directories to the batches."""

import os
import pickle
import resource
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
import torch

from fastload import Column, FastParquetDataset, NullValueError, SchemaError, Stack
from support.own_process import in_its_own_process
from support.same_rows import assert_same_rows

ROWS = 120


def write(path, columns, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path, row_group_size=50, **options)


def whole(source, columns=None, **options):
    with FastParquetDataset(source, columns=columns, batch_size=10**6, **options) as dataset:
        (batch,) = dataset
    return batch


@pytest.fixture(scope="module")
def evolved(tmp_path_factory):
    """Three files whose columns were added, dropped, widened and moved over time."""
    directory = tmp_path_factory.mktemp("evolved")
    n = np.arange(ROWS)
    text = [f"text {k}" for k in n]
    write(directory / "a.parquet", {"id": pa.array(n, pa.int32()), "x": n / 2, "name": text})
    write(
        directory / "b.parquet",
        {"name": pa.array(text).dictionary_encode(), "score": n * 1.5, "id": n + ROWS},
        use_dictionary=False,
    )
    write(
        directory / "c.parquet",
        {
            "x": pa.array(n, pa.float32()),
            "id": pa.array(n % 100, pa.int16()),
            "score": pa.nulls(ROWS),
        },
    )
    return directory


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("threads", [0, 4])
def test_columns_that_come_and_go(evolved, shuffle, threads):
    columns = {
        "id": "id",
        "x": "x",
        "x_or": Column("x", fill=-1),
        "name": Column("name", fill="?", valid=True),
        "both": Stack(["score", "id", "x"], dtype=torch.float64, fill=0),
    }
    options = {"shuffle": shuffle, "threads": threads, "provenance": True}
    batch = whole(evolved, columns, nulls="nan", **options)
    fields = [("id", pa.int64()), ("x", pa.float64()), ("name", pa.string())]
    schema = pa.schema([*fields, ("score", pa.float64())])
    table = ds.dataset(sorted(evolved.iterdir()), schema=schema).to_table()
    rows = batch["__file__"].numpy() * ROWS + batch["__row__"].numpy()
    assert sorted(rows) == list(range(3 * ROWS))
    table = table.take(rows)
    assert batch["id"].tolist() == table["id"].to_pylist()
    x = [np.nan if value is None else value for value in table["x"].to_pylist()]
    assert np.array_equal(batch["x"].numpy(), x, equal_nan=True)
    assert np.array_equal(batch["x_or"].numpy(), np.nan_to_num(x, nan=-1))
    assert batch["name__valid"].tolist() == table["name"].is_valid().to_pylist()
    assert batch["name"].tolist() == [value or "?" for value in table["name"].to_pylist()]
    stacked = [table[name].fill_null(0).to_numpy() for name in ("score", "id", "x")]
    assert np.array_equal(batch["both"].numpy(), np.stack(stacked, axis=1))


def test_all_columns_in_order_of_first_appearance(evolved):
    with pytest.raises(
        NullValueError, match=r"write Column\('name', fill=.* - at .*c\.parquet, wh"
    ):
        iter(FastParquetDataset(evolved, nulls="nan"))
    missing = (
        r"got 120 \(write Column\('x', .* `name` \(120\), `score` \(240\); .* - at .*b\.parquet, wh"
    )
    with pytest.raises(NullValueError, match=missing):
        iter(FastParquetDataset(evolved))
    batch = whole([evolved / "a.parquet", evolved / "b.parquet"], nulls="nan")
    assert list(batch) == ["id", "x", "name", "score"]
    assert batch["score"].isnan().sum() == ROWS


def test_fields_of_structs(tmp_path):
    write(tmp_path / "a.parquet", {"s": [{"u": 1.0}], "n": pa.nulls(1), "z": [1]})
    write(tmp_path / "b.parquet", {"s": [{"v": 2.0, "u": 3.0}], "n": [{"w": 4.0}], "z": [2]})
    with pytest.raises(NullValueError, match=r"column `s\.v`"):
        whole(tmp_path)
    batch = whole(tmp_path, nulls="nan")
    assert list(batch) == ["s.u", "s.v", "n.w", "z"]
    assert batch["s.u"].tolist() == [1.0, 3.0]
    assert str(batch["s.v"].tolist()) == "[nan, 2.0]"
    assert str(batch["n.w"].tolist()) == "[nan, 4.0]"


def test_times_in_the_finer_unit(tmp_path):
    moments = [datetime(2024, 1, 2, 3, 4, 5, 678_000, UTC), None]
    for unit in ("ms", "us", "ns"):
        write(tmp_path / f"{unit}.parquet", {"t": pa.array(moments, pa.timestamp(unit, "UTC"))})
    with FastParquetDataset(tmp_path, columns={"t": Column("t", fill=0)}) as dataset:
        (batch,) = dataset
        assert dataset.schema["t"].unit == "ns"
    moment = int(moments[0].timestamp() * 1000) * 10**6
    assert batch["t"].tolist() == [moment, 0] * 3


def test_integers_that_a_float_can_not_hold(tmp_path):
    write(tmp_path / "a.parquet", {"x": [2**53, 2**53 + 1]})
    write(tmp_path / "b.parquet", {"x": [0.5]})
    with pytest.raises(ValueError, match=r"float64 without rounding, got 9007199254740993 .*a\.p"):
        whole(tmp_path)
    # Asked for, rounding is what a cast does.
    batch = whole(tmp_path, {"x": Column("x", dtype=torch.float64)})
    assert batch["x"].tolist() == [2.0**53, 2.0**53, 0.5]
    (tmp_path / "b.parquet").unlink()
    write(tmp_path / "b.parquet", {"x": pa.array([2**63], pa.uint64())})
    with pytest.raises(ValueError, match=r"fits int64, got 9223372036854775808 - at .*b\.parquet"):
        whole(tmp_path)


def test_types_without_a_common_one(tmp_path):
    columns = {
        "flag": ([True], [1]),
        "text": (["x"], [1]),
        "zone": ([1], [1]),
        "day": ([1], [1]),
        "deep": ([{"x": 1}], [1]),
    }
    types = {
        "zone": (pa.timestamp("us", "UTC"), pa.timestamp("us")),
        "day": (pa.date32(), pa.timestamp("us")),
    }
    for index, name in enumerate("ab"):
        table = {
            key: pa.array(values[index], types[key][index] if key in types else None)
            for key, values in columns.items()
        }
        write(tmp_path / f"{name}.parquet", {**table, "fine": [index]})
    for name in columns:
        with pytest.raises(SchemaError, match=rf"`{name}` .* got .*\.parquet and .*\.parquet"):
            FastParquetDataset(tmp_path, columns=[name])
    assert whole(tmp_path, ["fine"])["fine"].tolist() == [0, 1]


def test_hive_keys_are_columns(tmp_path):
    for year in (2023, 2024):
        for country in ("fr", "de%20at"):
            values = {"x": np.arange(10) + year}
            write(tmp_path / f"year={year}" / f"country={country}" / "a.parquet", values)
    table = ds.dataset(tmp_path, partitioning="hive").to_table()
    columns = {
        "x": "x",
        "year": "year",
        "country": Column("country", valid=True),
        "features": Stack(["x", "year"], dtype=torch.float32),
    }
    for shuffle in (False, True):
        batch = whole(tmp_path, columns, shuffle=shuffle, provenance=True)
        want = table.take(batch["__file__"].numpy() * 10 + batch["__row__"].numpy())
        for name in ("x", "year", "country"):
            assert batch[name].tolist() == want[name].to_pylist()
        assert batch["year"].dtype == torch.int32
        assert batch["country__valid"].all()
        stacked = [want[name].to_numpy() for name in ("x", "year")]
        assert np.array_equal(batch["features"].numpy(), np.stack(stacked, axis=1))
    assert list(whole(tmp_path)) == ["x", "year", "country"]
    # Keys alone need no bytes of any file.
    with FastParquetDataset(tmp_path, columns=["year"], batch_size=7) as dataset:
        assert torch.cat([batch["year"] for batch in dataset]).tolist() == table["year"].to_pylist()
        assert dataset.stats().read.bytes == 0


def test_a_hive_key_of_minus_zero_keeps_its_sign(tmp_path):
    for value in ("-0.0", "0.0"):
        write(tmp_path / f"k={value}" / "a.parquet", {"k": np.ones(2)})
    assert np.signbit(whole(tmp_path, ["k"])["k"].numpy()).tolist() == [True, True, False, False]


def test_hive_keys_in_large_shuffled_windows(tmp_path):
    rows = 40_000
    for part in range(3):
        values = {"code": np.arange(rows) % 50}
        write(tmp_path / f"part={part}" / "a.parquet", values)
    dataset = FastParquetDataset(
        tmp_path, columns=["code", "part"], shuffle=True, batch_size=5000, provenance=True
    )
    with dataset:
        for batch in dataset:
            assert torch.equal(batch["part"], batch["__file__"])
            assert torch.equal(batch["code"], batch["__row__"] % 50)


def test_a_dataset_with_keys_can_be_pickled_and_resumed(tmp_path):
    for part in "abc":
        write(tmp_path / f"part={part}" / "a.parquet", {"x": np.arange(10)})
    dataset = FastParquetDataset(tmp_path, batch_size=4, shuffle=True)
    batches = list(dataset)
    dataset.set_epoch(0)
    first = next(iter(dataset))
    copy = pickle.loads(pickle.dumps(dataset))
    copy.load_state_dict(dataset.state_dict(after=first))
    rest = list(copy)
    assert len(rest) == len(batches) - 1
    for got, want in zip(rest, batches[1:], strict=True):
        assert got["part"].tolist() == want["part"].tolist()
        assert torch.equal(got["x"], want["x"])


def test_files_are_listed_and_opened_once(tmp_path, monkeypatch):
    for part in range(20):
        write(tmp_path / f"k={part % 2}" / f"{part}.parquet", {"x": [part]})
    calls = {"scandir": 0, "stat": 0, "open": 0}

    def counted(name):
        real = getattr(os, name)

        def count(*arguments, **options):
            calls[name] += 1
            return real(*arguments, **options)

        monkeypatch.setattr(os, name, count)

    for name in calls:
        counted(name)
    dataset = FastParquetDataset(tmp_path, columns=["x"])
    # Three directories; the source, the folder of Hudi's log in it and in each folder above, and of
    # each file one look while listing and one before it is opened.
    stats = 1 + 1 + len(tmp_path.parents) + 2 * 20
    assert calls == {"scandir": 3, "stat": stats, "open": 20}
    with dataset:
        assert len(list(dataset)) == 1
        assert len(list(dataset)) == 1
    assert calls == {"scandir": 3, "stat": stats, "open": 20}


@pytest.mark.parametrize("shuffle", [False, True])
def test_lists_of_nulls_beside_deeper_lists(tmp_path, shuffle):
    """The elements of one file's lists may be null lists; those of another are lists."""
    nulls = [[None], [], [None, None], None]
    deep = {
        "ll": ([[[1], []], None, [None, [2, 3]]], pa.list_(pa.list_(pa.int16()))),
        "le": ([[[1.5, 2.5]], [], [None]], pa.list_(pa.list_(pa.float32(), 2))),
        "ls": ([[["a"], []], [], [["b", None]]], pa.list_(pa.list_(pa.string()))),
        "lp": ([[{"q": [7]}], [None], []], pa.list_(pa.struct({"q": pa.list_(pa.int64())}))),
    }
    write(tmp_path / "a.parquet", {name: pa.array(nulls, pa.list_(pa.null())) for name in deep})
    write(tmp_path / "b.parquet", {name: pa.array(*column) for name, column in deep.items()})
    columns = {
        name: Column(name, fill="" if name == "ls" else 0, valid=True)
        for name in ("ll", "le", "ls", "lp.q")
    }
    table = pa.table({n: pa.array(nulls + rows, kind) for n, (rows, kind) in deep.items()})
    with FastParquetDataset(tmp_path, columns=columns, batch_size=2, shuffle=shuffle) as dataset:
        assert_same_rows(dataset, table, columns, ordered=not shuffle)

    write(tmp_path / "b.parquet", {"ll": pa.array([[1]], pa.list_(pa.int16()))})
    write(tmp_path / "a.parquet", {"ll": pa.array([[[None]]], pa.list_(pa.list_(pa.null())))})
    with pytest.raises(SchemaError, match=r"list<list<null>> in .*a\.parquet and list<int16> in"):
        FastParquetDataset(tmp_path)


@pytest.mark.parametrize("limit", [64, 256, 1024])
def test_more_files_in_a_window_than_descriptors(tmp_path, limit):
    count = min(limit + limit // 2, 1500)
    for number in range(count):
        write(tmp_path / f"{number:05}.parquet", {"x": [number] * 3, "y": [1.0] * 3})
    in_its_own_process(read_with_descriptors, limit, tmp_path, count, timeout_s=120)


def read_with_descriptors(limit, directory, count):
    resource.setrlimit(
        resource.RLIMIT_NOFILE, (limit, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    )
    for options in ({}, {"filters": [("x", ">=", 0)]}, {"split": ("x", 0.0, 1.0)}):
        with FastParquetDataset(directory, shuffle=True, batch_size=100, **options) as dataset:
            for _ in range(2):
                rows = sorted(row for batch in dataset for row in batch["x"].tolist())
                assert rows == sorted(3 * list(range(count)))
