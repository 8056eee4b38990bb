"""The rules of nulls=: columns with nulls that no spec speaks of."""

import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import torch
from torch.utils.data import DataLoader

import fastload
from fastload import (
    Codes,
    Column,
    DataWait,
    DevicePrefetcher,
    FastParquetDataset,
    Fixed,
    Hash,
    NullValueError,
    Pad,
    Stack,
)
from support.same_rows import assert_same_rows

ROWS = 1000


def null(i):
    return i % 7 == 3


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    fixed = pa.list_(pa.float32(), 2)
    columns = {
        "i": pa.array([None if null(i) else i for i in range(ROWS)], pa.int32()),
        "j": pa.array([None if i % 5 == 1 else i for i in range(ROWS)], pa.int16()),
        "f": pa.array([None if null(i) else i / 2 for i in range(ROWS)], pa.float32()),
        "b": pa.array([None if null(i) else True for i in range(ROWS)]),
        "s": pa.array([None if null(i) else str(i) for i in range(ROWS)]),
        "l": pa.array([None if null(i) else [i, None, i] for i in range(ROWS)]),
        "v": pa.array([None if null(i) else [i, i] for i in range(ROWS)], fixed),
        "full": pa.array(range(ROWS), pa.int64()),
    }
    file = tmp_path_factory.mktemp("nulls") / "a.parquet"
    pq.write_table(pa.table(columns), file, row_group_size=300)
    return file


def read(path, **options):
    """Return all values of each output, in the order of column `full`."""
    with FastParquetDataset(path, batch_size=64, **options) as dataset:
        rows = [(batch, i) for batch in dataset for i in range(batch.rows)]
        rows.sort(key=lambda row: int(row[0]["full"][row[1]]))
        return {
            name: [
                value.tolist() if isinstance(value := batch[name][i], torch.Tensor) else value
                for batch, i in rows
            ]
            for name in dataset.schema
        }


ORDERS = [
    {},
    {"threads": 0},
    {"shuffle": True, "shuffle_window": 200},
    {"shuffle": True},
    {"filters": [("full", "!=", 5)]},
]


@pytest.mark.parametrize("options", ORDERS, ids=str)
def test_nulls_become_zero(path, options):
    got = read(path, nulls="zero", **options)
    assert len(got) == 8
    for i in got["full"]:
        at = got["full"].index(i)
        assert got["i"][at] == (0 if null(i) else i)
        assert got["b"][at] == (not null(i))
        assert got["s"][at] == ("" if null(i) else str(i))
        assert got["l"][at] == ([] if null(i) else [i, 0, i])
        assert got["f"][at] == (0 if null(i) else i / 2)
        assert got["v"][at] == ([0, 0] if null(i) else [i, i])


@pytest.mark.parametrize("options", ORDERS, ids=str)
def test_nulls_of_floats_become_nan(path, options):
    columns = {"f": "f", "full": "full", "x": ["i", "f"], "double": Column("j", "float64")}
    got = read(path, columns=columns, nulls="nan", **options)
    assert set(got) == set(columns)
    for at, i in enumerate(got["full"]):
        doubled = got["double"][at]
        assert math.isnan(doubled) if i % 5 == 1 else doubled == i
        if null(i):
            assert math.isnan(got["f"][at])
            assert all(map(math.isnan, got["x"][at]))
        else:
            assert (got["f"][at], got["x"][at]) == (i / 2, [i, i / 2])


NAN = float("nan")
# For each kind of null: the files; the columns; the value in place of the null with nulls="nan"
# (None = an error) and with "zero"; and whether footers tell of the null before a pass.
KINDS = {
    "float": ([{"x": pa.array([1, None], pa.float32())}], None, NAN, 0, True),
    "double": ([{"x": pa.array([1, None], pa.float64())}], None, NAN, 0, True),
    "half": ([{"x": pa.array([np.float16(1), None], pa.float16())}], None, NAN, 0, True),
    "int": ([{"x": [1, None]}], None, None, 0, True),
    "bool": ([{"x": [True, None]}], None, None, False, True),
    "string": ([{"x": ["a", None]}], None, None, "", True),
    "time": ([{"x": pa.array([1, None], pa.timestamp("ms"))}], None, None, 0, True),
    "list": ([{"x": [[1], None]}], None, None, [], False),
    "list of floats": ([{"x": [[1.0], None]}], None, None, [], False),
    "element": ([{"x": [[1], [1, None]]}], None, None, [1, 0], False),
    "float element": ([{"x": [[1.0], [1.0, None]]}], None, [1, NAN], [1, 0], False),
    "missing float": ([{"x": [1.0], "y": [1]}, {"y": [2]}], ["x"], NAN, 0, True),
    "missing int": ([{"x": [1], "y": [1]}, {"y": [2]}], ["x"], None, 0, True),
    "missing list": ([{"x": [[1]], "y": [1]}, {"y": [2]}], ["x"], None, [], True),
    "hive key": ([{"k": 5, "y": [1]}, {"k": None, "y": [2]}], {"x": "k"}, None, 0, True),
    "stack": (
        [{"f": [1.0, None], "i": [1, None], "y": [1, 2]}],
        {"x": ["f", "i", "y"]},
        [NAN, NAN, 2],
        [0, 0, 2],
        True,
    ),
    "stack of ints": (
        [{"i": [1, None], "y": [1, 2]}],
        {"x": Stack(["i", "y"], torch.int64)},
        None,
        [0, 2],
        True,
    ),
    "cast to float": ([{"i": [1, None]}], {"x": Column("i", "float32")}, NAN, 0, True),
    "cast to int": (
        [{"f": [1.0, None]}],
        {"x": Column("f", torch.int64)},
        None,
        0,
        True,
    ),
    "hash": ([{"i": [1, None]}], {"x": Hash("i", 10)}, None, 0, True),
}


@pytest.fixture(params=KINDS)
def kind(request, tmp_path):
    """The kind of null, after its files are written to tmp_path."""
    files, *kind = KINDS[request.param]
    for n, columns in enumerate(files):
        directory = tmp_path
        if "k" in columns:
            key = "__HIVE_DEFAULT_PARTITION__" if columns["k"] is None else columns["k"]
            directory = tmp_path / f"k={key}"
            directory.mkdir()
        stored = {name: values for name, values in columns.items() if name != "k"}
        pq.write_table(pa.table(stored), directory / f"{n}.parquet")
    return kind


def value_of(batches, output="x"):
    """Return the value in the second row: the null."""
    values = [batch[output][row] for batch in batches for row in range(batch.rows)]
    value = values[1]
    return value.tolist() if isinstance(value, torch.Tensor) else value


def same(found, expected):
    return np.array_equal(
        np.asarray(found), np.asarray(expected), equal_nan=not isinstance(expected, str)
    )


@pytest.mark.parametrize("batch_size", [1, 100])
@pytest.mark.parametrize("nulls", ["raise", "nan", "zero", "mask"])
def test_every_kind_of_null_under_every_rule(kind, nulls, batch_size, tmp_path):
    columns, as_nan, as_zero, known = kind
    dataset = FastParquetDataset(tmp_path, columns=columns, nulls=nulls, batch_size=batch_size)
    assert dataset.num_rows == 2
    stored = 2 if isinstance(as_nan, list) and known else 1  # a null in two columns of a Stack
    assert dataset.schema["x"].nulls == (stored if known else 0)
    assert dataset.head().rows == 2
    assert dataset.take([0]).rows == 1
    expected = {"raise": None, "nan": as_nan}.get(nulls, as_zero)
    if expected is None:
        passes = iter if known else list  # which raises before a batch, or at it
        with pytest.raises(NullValueError, match="Expected no null"):
            passes(dataset)
        with pytest.raises(NullValueError, match="Expected no null"):
            dataset.take([1])
        return
    assert same(value_of(dataset), expected)
    assert same(value_of([dataset.take([0, 1])]), expected)
    if nulls == "mask":
        stack = isinstance(columns, dict) and isinstance(columns["x"], (list, Stack))
        element = isinstance(expected, list) and not known and len(expected) > 0
        valid = [False] * (len(expected) - 1) + [True] if stack else element
        assert value_of(dataset, "x__valid") == valid
    else:
        assert "x__valid" not in dataset.schema


@pytest.mark.parametrize("nulls", ["raise", "nan"])
def test_a_dataset_with_nulls_can_be_made_and_shown(path, nulls):
    def double(batch):
        batch["full"] = batch["full"] * 2
        return batch

    for options in ({}, {"preprocess": double}, {"shuffle": True}, {"limit": 3}):
        dataset = FastParquetDataset(path, nulls=nulls, **options)
        text = str(dataset)
        for name, count in (("i", 143), ("j", 200), ("f", 143), ("b", 143), ("s", 143)):
            assert dataset.schema[name].nulls == count, options
            (line,) = (line for line in text.splitlines() if line.split()[0] == name)
            assert line.endswith(f"  {count} nulls")
        for name in ("l", "full"):  # footers count empty lists as nulls
            assert dataset.schema[name].nulls == 0
        assert text.count(" nulls") == 5
        assert dataset.num_rows == ROWS
        head = dataset.head(10)
        assert head["f"].tolist() == [0 if null(i) else i / 2 for i in range(10)][: head.rows]
        assert head["f__valid"].tolist() == [not null(i) for i in range(10)][: head.rows]
        for _ in range(2):
            with pytest.raises(NullValueError, match="Expected no nulls, got 143 "):
                iter(dataset)
        taken = FastParquetDataset(path, nulls=nulls, exclude=["l"], **options)
        assert taken.take([0, -1]).rows == 2
        assert taken.by_index()[0].keys() == taken.schema.keys()
        with pytest.raises(NullValueError, match=r"Expected no null, got one .* row 3"):
            taken.take([0, 3])


def test_counts_of_nulls_are_not_part_of_equality(tmp_path):
    for name, values in (("a", [1, None]), ("b", [1, 2])):
        pq.write_table(pa.table({"x": values}), tmp_path / f"{name}.parquet")
    fields = [FastParquetDataset(tmp_path / f"{name}.parquet").schema["x"] for name in "ab"]
    assert [field.nulls for field in fields] == [1, 0]
    assert fields[0] == fields[1]


@pytest.mark.parametrize("workers", [0, 2])
def test_the_first_step_of_a_loader_raises(path, workers):
    seen = []

    def see(batch):
        seen.append(batch.rows)
        return batch

    dataset = FastParquetDataset(path, preprocess=see)
    loader = DataLoader(dataset, batch_size=None, num_workers=workers)
    with pytest.raises(NullValueError, match=r"Expected no nulls, got 143 .* column `i`"):
        next(iter(loader))
    assert seen == []


@pytest.mark.parametrize("workers", [0, 2])
def test_a_mix_raises_before_a_batch(path, tmp_path, workers):
    pq.write_table(pa.table({"full": range(1000)}), tmp_path / "full.parquet")

    def mixed(**options):
        sources = {
            "whole": FastParquetDataset(tmp_path),
            "holes": FastParquetDataset(path, **options),
        }
        return fastload.mix(sources, {"whole": 1000, "holes": 1}, stop="all")

    mix = mixed()
    assert mix.schema["holes"]["i"].nulls == 143
    with pytest.raises(NullValueError, match=r"Expected no nulls, got 143 .* column `i`"):
        next(iter(DataLoader(mix, batch_size=None, num_workers=workers)))
    batches = list(DataLoader(mixed(nulls="mask"), batch_size=None, num_workers=workers))
    assert sum(batch.rows for batch in batches) == 2000


def plain(batch):
    return batch


def every_other(batch):
    return {name: values[::2] for name, values in batch.items()}


def test_rows_that_are_prepared_at_once_raise_at_once(path, tmp_path):
    options = {"columns": ["f", "full"], "preprocess": every_other, "cache": tmp_path}
    with pytest.raises(NullValueError, match="Expected no nulls, got 143 "):
        FastParquetDataset(path, **options)
    with FastParquetDataset(path, **options, nulls="zero") as zeros:
        assert zeros.num_rows < ROWS
    with pytest.raises(NullValueError, match="Expected no nulls, got 143 "):
        FastParquetDataset(path, **options)
    with pytest.raises(NullValueError, match="Expected no nulls, got 143 "):
        fastload.prepare(FastParquetDataset(path, columns=["f", "full"]), tmp_path / "prepared")


def test_a_cache_of_prepared_rows_raises_before_a_batch(path, tmp_path):
    options = {"columns": ["f", "full"], "preprocess": plain, "cache": tmp_path}
    dataset = FastParquetDataset(path, **options)
    assert "143 nulls" in str(dataset)
    assert set(dataset.schema) == {"f", "full"}
    assert dataset.head().rows > 0
    for _ in range(2):
        with pytest.raises(NullValueError, match="Expected no nulls, got 143 "):
            iter(dataset)
    with pytest.raises(NullValueError, match="Expected no nulls, got 143 "):
        dataset.warm_cache(progress=False)
    # What another rule has kept is not read.
    with FastParquetDataset(path, **options, nulls="zero") as zeros:
        for _ in range(2):
            assert not torch.cat([batch["f"] for batch in zeros]).isnan().any()
    with pytest.raises(NullValueError, match="Expected no nulls, got 143 "):
        iter(FastParquetDataset(path, **options))
    with FastParquetDataset(path, **options, nulls="nan") as nan:
        for _ in range(2):
            assert torch.cat([batch["f"] for batch in nan]).isnan().any()


def test_the_schema_after_steps_needs_no_rule(path):
    def named(batch):
        batch["text"] = torch.tensor([len(word) for word in batch["s"]])
        return batch

    columns = ["s", "l", "full"]
    for options in ({}, {"filters": [("full", ">=", 3)]}, {"provenance": True}):
        dataset = FastParquetDataset(path, columns=columns, preprocess=named, **options)
        assert set(dataset.schema) >= {"s", "l", "full", "text"}
        assert dataset.schema["text"].dtype == torch.int64
        with pytest.raises(NullValueError):
            list(dataset)


@pytest.mark.parametrize("nulls", ["raise", "nan"])
def test_with_filters_only_kept_rows_count(path, nulls):
    for column in ("i", "s", *(["f"] if nulls == "raise" else [])):
        options = {"columns": [column, "full"], "nulls": nulls}
        kept = FastParquetDataset(path, filters=[("full", "in", [4, 5, 6])], **options)
        assert sum(batch.rows for batch in kept) == 3
        kept = FastParquetDataset(path, filters=pc.field(column).is_valid(), **options)
        assert sum(batch.rows for batch in kept) == sum(not null(i) for i in range(ROWS))
        kept = FastParquetDataset(path, filters=[("full", "in", [4, 10])], **options)
        with pytest.raises(NullValueError, match="Expected no null, got one"):
            list(kept)
        split = FastParquetDataset(path, split=("full", 0.0, 1.0), **options)
        with pytest.raises(NullValueError, match="Expected no null"):
            list(split)


def test_a_dataset_without_rows_raises_nothing(path, tmp_path):
    empty = pq.read_table(path).slice(0, 0)
    pq.write_table(empty, tmp_path / "a.parquet")
    pq.write_table(empty.select(["i"]), tmp_path / "b.parquet")
    assert list(FastParquetDataset(tmp_path)) == []


def test_the_message_counts_all_nulls_of_a_column(tmp_path):
    names = [f"c{n}" for n in range(12)]
    for number in range(2):
        values = pa.array([None] * 1200 + [1], pa.float32())
        pq.write_table(pa.table([values] * 12, names), tmp_path / f"{number}.parquet")
    pq.write_table(pa.table({"other": range(10)}), tmp_path / "2.parquet")
    with pytest.raises(NullValueError) as raised:
        iter(FastParquetDataset(tmp_path, columns=names))
    others = ", ".join(f"`c{n}` (2,410)" for n in range(1, 9))
    assert str(raised.value).startswith(
        "Expected no nulls, got 2,410 (write Column('c0', fill=...) or Column('c0', valid=True), "
        f"and the same for {others} and 3 more; for all columns at once pass "
        'nulls="nan" (for floats), "zero" or "mask") - at '
    )
    assert str(raised.value).endswith("0.parquet, row group 0, column `c0`")


@pytest.mark.parametrize("options", ORDERS, ids=str)
def test_masks_stand_beside_outputs_that_have_nulls(path, options):
    columns = {
        "full": "full",
        "*": ...,
        "hash": Hash("i", 100),
        "code": Codes("i", [1, 2]),
        "own": Column("i", fill=-1),
        "stack": Stack(["i", "full", "j"], torch.int64),
        "pad": Pad("l", 2, side="left"),
    }
    got = read(path, columns=columns, nulls="mask", **options)
    masks = {name.removesuffix("__valid") for name in got if name.endswith("__valid")}
    assert masks == {"f", "b", "s", "v", "hash", "stack", "pad"}
    for i, row in zip(got["full"], range(len(got["full"])), strict=True):
        for name in masks - {"stack"}:
            assert got[f"{name}__valid"][row] == (not null(i)), name
        assert got["stack__valid"][row] == [not null(i), True, i % 5 != 1]
        assert got["stack"][row] == [0 if null(i) else i, i, 0 if i % 5 == 1 else i]
        assert got["hash"][row] == 0 or not null(i)
        assert got["code"][row] == (i - 1 if i in (1, 2) and not null(i) else -1)
        assert got["own"][row] == (-1 if null(i) else i)
        assert got["pad"][row] == ([0, 0] if null(i) else [i, 0])


@pytest.mark.parametrize("nulls", ["zero", "mask"])
@pytest.mark.parametrize(
    "columns",
    [
        None,
        ["s", "i", "full"],
        {
            "*": ...,
            "hash": Hash("i", 100),
            "words": Hash("s", 100),
            "code": Codes("i", [1, 2]),
            "own": Column("i", fill=-1),
            "marked": Column("f", valid=True),
            "stack": Stack(["i", "full", "j"], torch.int64),
            "filled": Stack(["i", "j"], torch.int64, fill=3),
            "pad": Pad("l", 2, side="left", mask=True),
            "fixed": Fixed("v", 2),
        },
    ],
    ids=["all", "names", "specs"],
)
def test_the_check_of_rows_takes_nulls_as_the_dataset_does(path, columns, nulls):
    table = pq.read_table(path)
    if isinstance(columns, list):
        table = table.select(columns)

    def make():
        return FastParquetDataset(path, columns=columns, nulls=nulls, batch_size=64)

    for batches in (
        make(),
        DataLoader(make(), batch_size=None),
        DataWait(DevicePrefetcher(DataLoader(make(), batch_size=None), "cpu")),
        DataLoader(make().by_index(), batch_size=64),
    ):
        assert_same_rows(batches, table, columns)
    assert_same_rows(make(), table, columns, ordered=False)
    changed = table.set_column(
        table.column_names.index("i"),
        "i",
        pa.array([5 if i == 3 else v for i, v in enumerate(table["i"].to_pylist())], pa.int32()),
    )
    with pytest.raises(AssertionError, match=r"got 0 - at row 3, column `(i|hash)`"):
        assert_same_rows(make(), changed, columns)


def test_the_check_of_rows_expects_the_masks_that_the_files_call_for(tmp_path):
    table = pa.table({"x": [1, 2], "l": [[1], []], "n": [[1, None], [2]], "o": [[1], [2]]})
    pq.write_table(table, tmp_path / "a.parquet", write_statistics=["l.list.element"])
    dataset = FastParquetDataset(tmp_path, nulls="mask")
    assert [name for name in dataset.schema if name.endswith("__valid")] == [
        "x__valid",
        "l__valid",
        "n__valid",
        "o__valid",
    ]
    assert_same_rows(dataset, table)
    pq.write_table(table, tmp_path / "a.parquet")
    dataset = FastParquetDataset(tmp_path, nulls="mask")
    assert_same_rows(dataset, table)
    with pytest.raises(AssertionError, match=r"Expected outputs .*'x__valid'"):
        assert_same_rows(dataset, table.set_column(0, "x", pa.array([1, None])))


def test_the_check_of_kept_rows_says_what_to_pass(path):
    with FastParquetDataset(path, columns=["i"], nulls="zero") as dataset:
        batches = list(dataset)
    table = pq.read_table(path, columns=["i"])
    with pytest.raises(ValueError, match='nulls="nan", "zero" or "mask", pass the dataset or'):
        assert_same_rows(batches, table)
    assert_same_rows(batches, table, {"i": Column("i", fill=0)})


def test_columns_without_statistics_get_a_mask(tmp_path):
    pq.write_table(pa.table({"x": [1, 2]}), tmp_path / "a.parquet", write_statistics=False)
    strict = pa.schema([pa.field("x", pa.int64(), nullable=False)])
    pq.write_table(pa.table({"x": [1]}, strict), tmp_path / "b.parquet", write_statistics=False)
    assert list(FastParquetDataset(tmp_path / "a.parquet", nulls="mask").schema) == [
        "x",
        "x__valid",
    ]
    assert list(FastParquetDataset(tmp_path / "b.parquet", nulls="mask").schema) == ["x"]


def test_a_file_without_the_column_counts_as_null(tmp_path):
    pq.write_table(pa.table({"x": [1], "y": [1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"x": [2]}), tmp_path / "b.parquet")
    assert list(FastParquetDataset(tmp_path, nulls="mask").schema) == ["x", "y", "y__valid"]


def test_an_index_of_pandas_that_a_file_lacks_is_to_be_excluded(tmp_path):
    pq.write_table(pa.table({"x": [1], "__index_level_0__": [7]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"x": [2]}), tmp_path / "b.parquet")
    with pytest.raises(NullValueError, match=r'pass exclude=\["__index_level_0__"\]') as error:
        iter(FastParquetDataset(tmp_path))
    assert "b.parquet, which has no value for column `__index_level_0__`" in str(error.value)
    assert FastParquetDataset(tmp_path, exclude=["__index_level_0__"]).num_rows == 2


def test_another_spelling_of_a_column_is_named(tmp_path):
    for n, names in enumerate((["UserId", "P"], ["userid", "p"], ["x", "y"])):
        pq.write_table(pa.table([[n], [n / 2]], names=names), tmp_path / f"{n}.parquet")
    expected = "1.parquet, which has no value for column `UserId` but a column `userid`"
    with pytest.raises(NullValueError, match=expected):
        iter(FastParquetDataset(tmp_path, columns=["UserId"]))
    with pytest.warns(UserWarning, match=r"in case alone.*: `P` and `p` - at .*1\.parquet$"):
        (batch,) = FastParquetDataset(tmp_path, columns=["P"], nulls="nan")
    assert batch["P"].isnan().tolist() == [False, True, True]
    # A file that has neither comes first.
    (tmp_path / "2.parquet").rename(tmp_path / "00.parquet")
    with pytest.warns(UserWarning, match=r"in case alone.*: `P` and `p` - at .*1\.parquet$"):
        FastParquetDataset(tmp_path, columns=["P"], nulls="zero")


def test_the_message_names_all_words(path):
    with pytest.raises(NullValueError, match=r'nulls="nan" \(for floats\), "zero" or "mask"'):
        iter(FastParquetDataset(path))


@pytest.mark.parametrize("options", [*ORDERS, {"world_size": 3, "rank": 2}], ids=str)
def test_fixed_lists_are_a_matrix(tmp_path, options):
    lists = [[i, i + 1, i + 2] for i in range(100)]
    stored = pa.table({"x": pa.array(lists, pa.list_(pa.int32())), "full": range(100)})
    pq.write_table(stored, tmp_path / "a.parquet", row_group_size=30)
    columns = {"x": Fixed("x", 3, "float32"), "full": "full", "ragged": "x"}
    got = read(tmp_path / "a.parquet", columns=columns, **options)
    assert set(got) == {"x", "full", "ragged"}
    assert got["x"] == got["ragged"] == [lists[i] for i in got["full"]]
    with FastParquetDataset(tmp_path / "a.parquet", columns=columns) as dataset:
        assert (dataset.schema["x"].shape, dataset.schema["x"].dtype) == ((3,), torch.float32)


@pytest.mark.parametrize("length", [0, 2, 4])
@pytest.mark.parametrize("shuffle", [False, True])
def test_a_list_of_another_length_is_named(tmp_path, length, shuffle):
    lists = [[i] * (length if i == 47 else 3) for i in range(100)]
    pq.write_table(pa.table({"x": lists}), tmp_path / "a.parquet", row_group_size=30)
    dataset = FastParquetDataset(
        tmp_path, columns={"x": Fixed("x", 3)}, shuffle=shuffle, batch_size=10
    )
    where = "a.parquet, row group 1, column `x`, .*row 47"
    with pytest.raises(ValueError, match=f"Expected lists of 3 elements, got {length} .*{where}"):
        list(dataset)


def test_a_null_list_of_fixed_length_needs_a_word(tmp_path):
    pq.write_table(pa.table({"x": [[1, 2], None]}), tmp_path / "a.parquet")

    def rows(**options):
        return FastParquetDataset(tmp_path, **options).head(2)["x"].tolist()

    with pytest.raises(NullValueError):
        list(FastParquetDataset(tmp_path, columns={"x": Fixed("x", 2)}))
    assert rows(columns={"x": Fixed("x", 2)}, nulls="zero") == [[1, 2], [0, 0]]
    assert rows(columns={"x": Fixed(Column("x", fill=7), 2)}) == [[1, 2], [7, 7]]


@pytest.mark.parametrize("shuffle", [False, True])
def test_pads_at_either_side(tmp_path, shuffle):
    lists = [list(range(i % 6)) for i in range(300)]
    pq.write_table(pa.table({"x": lists, "full": range(300)}), tmp_path / "a.parquet")
    columns = {
        "full": "full",
        "left": Pad("x", 3, -1, side="left", keep="last", mask=True),
        "right": Pad("x", 3, -1, keep="last", mask=True),
    }
    got = read(tmp_path / "a.parquet", columns=columns, shuffle=shuffle)
    for i, row in zip(got["full"], range(300), strict=True):
        kept = lists[i][-3:]
        padding = [-1] * (3 - len(kept))
        mask = [True] * len(kept), [False] * len(padding)
        assert got["left"][row] == padding + kept
        assert got["left__mask"][row] == mask[1] + mask[0]
        assert got["right"][row] == kept + padding
        assert got["right__mask"][row] == mask[0] + mask[1]
        assert got["left__length"][row] == len(kept)


def test_fill_of_unscaled_decimals_is_unscaled(tmp_path):
    for scale in (2, 4):
        values = pa.array([Decimal("1.5"), None], pa.decimal128(12, scale))
        pq.write_table(pa.table({"d": values}), tmp_path / f"{scale}.parquet")
    columns = {"d": Column("d", "int64", fill=150)}
    of_one = FastParquetDataset(tmp_path / "2.parquet", columns=columns)
    assert next(iter(of_one))["d"].tolist() == [150, 150]
    of_both = FastParquetDataset(tmp_path, columns=columns)
    assert next(iter(of_both))["d"].tolist() == [15000, 150, 15000, 150]
