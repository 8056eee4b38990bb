"""nulls="zero" and nulls="mask": columns with nulls that no spec speaks of."""

import math
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch.utils.data import DataLoader

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
from fastload.testing import assert_same_rows

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
def test_nulls_become_zero_and_nan(path, options):
    got = read(path, nulls="zero", **options)
    assert len(got) == 8
    for i in got["full"]:
        at = got["full"].index(i)
        assert got["i"][at] == (0 if null(i) else i)
        assert got["b"][at] == (not null(i))
        assert got["s"][at] == ("" if null(i) else str(i))
        assert got["l"][at] == ([] if null(i) else [i, 0, i])
        if null(i):
            assert math.isnan(got["f"][at])
            assert all(map(math.isnan, got["v"][at]))
        else:
            assert (got["f"][at], got["v"][at]) == (i / 2, [i, i])


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
    with pytest.raises(ValueError, match='nulls="zero" or "mask", pass the dataset or its loader'):
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
        FastParquetDataset(tmp_path)
    assert "b.parquet, which has no value for column `__index_level_0__`" in str(error.value)
    assert FastParquetDataset(tmp_path, exclude=["__index_level_0__"]).num_rows == 2


def test_another_spelling_of_a_column_is_named(tmp_path):
    for n, names in enumerate((["UserId", "P"], ["userid", "p"], ["x", "y"])):
        pq.write_table(pa.table([[n], [n / 2]], names=names), tmp_path / f"{n}.parquet")
    expected = "1.parquet, which has no value for column `UserId` but a column `userid`"
    with pytest.raises(NullValueError, match=expected):
        FastParquetDataset(tmp_path, columns=["UserId"])
    with pytest.warns(UserWarning, match=r"in case alone.*: `P` and `p` - at .*1\.parquet$"):
        batch = FastParquetDataset(tmp_path, columns=["P"]).head(3)
    assert batch["P"].isnan().tolist() == [False, True, True]
    # A file that has neither comes first.
    (tmp_path / "2.parquet").rename(tmp_path / "00.parquet")
    with pytest.warns(UserWarning, match=r"in case alone.*: `P` and `p` - at .*1\.parquet$"):
        FastParquetDataset(tmp_path, columns=["P"])


def test_the_message_names_both_words(path):
    with pytest.raises(NullValueError, match='nulls="zero" or nulls="mask"'):
        FastParquetDataset(path)


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
