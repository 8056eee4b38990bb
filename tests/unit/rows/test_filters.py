"""filters=: the rows that pyarrow.dataset keeps, and nothing else, with clear refusals."""

import datetime
import itertools
import os
import pickle
import subprocess
import sys
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest
import torch

from fastload import Column, FastParquetDataset, NullValueError, SchemaError, SourceChangedError
from fastload.errors import ColumnNotFoundError, CorruptFileError, StorageError
from fastload.rows.arrow_scan import naming
from fastload.rows.filter_schema import FilterSchema
from fastload.rows.predicate import parse_filters, within_limits
from fastload.rows.selection import select_rows
from fastload.source.source import Source

ROWS = 5000
SMALL = hasattr(pa, "decimal32")


def table_of(rows=ROWS, first=0):
    number = np.arange(first, first + rows)
    return pa.table(
        {
            "number": number,
            "price": pa.array([None if n % 11 == 0 else n / 7 for n in number], pa.float64()),
            "country": pa.array([["de", "fr", None, "us"][n % 4] for n in number]),
            "rare": pa.array([None if n % 100 == 3 else int(n) for n in number], pa.int32()),
            "user": [{"age": int(n % 90), "name": f"u{n % 13}"} for n in number],
            "day": pa.array([datetime.date(2024, 1, 1 + n % 28) for n in number]),
            "tokens": [list(range(n % 4)) for n in number],
        }
    )


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    directory = tmp_path_factory.mktemp("filtered")
    for i in range(2):
        pq.write_table(
            table_of(ROWS, i * ROWS),
            directory / f"part-{i}.parquet",
            row_group_size=1200,
            data_page_size=2000,
            use_dictionary=["country"],
        )
    return directory


def numbers_of(dataset):
    return [n for batch in dataset for n in batch["number"].tolist()]


def kept(source, filters=None, **options):
    """The numbers of the rows that stay."""
    return numbers_of(FastParquetDataset(source, columns=["number"], filters=filters, **options))


def expected(directory, filters):
    if isinstance(filters, list):
        filters = pq.filters_to_expression(filters)
    return pads.dataset(directory).to_table(filter=filters)["number"].to_pylist()


EXPRESSIONS = [
    pc.field("number") < 1500,
    pc.field("number") >= 2 * ROWS - 3,
    pc.field("number") > 10**6,
    pc.field("price") > 300,
    ~(pc.field("price") > 300),
    pc.field("price").is_null(),
    pc.field("country") == "de",
    pc.field("country").isin(["fr", "us"]),
    pc.field("user", "age") < 7,
    pc.field("day") == datetime.date(2024, 1, 5),
    pc.starts_with(pc.field("country"), "d") | (pc.field("number") == 17),
    pc.scalar(True) & (pc.field("number") >= 0),
]


@pytest.mark.parametrize("filters", EXPRESSIONS, ids=str)
@pytest.mark.parametrize("shuffle", [False, True])
def test_the_rows_that_pyarrow_keeps(directory, filters, shuffle):
    dataset = FastParquetDataset(
        directory, columns=["number"], filters=filters, batch_size=64, shuffle=shuffle
    )
    want = expected(directory, filters)
    found = numbers_of(dataset)
    assert (sorted(found) if shuffle else found) == want
    assert len(dataset) == -(-len(want) // 64)


PLAIN = [
    pc.field("b") | pc.field("b").is_null(),
    (pc.field("i8") > -3) & (pc.field("u16") < 60_000),
    pc.field("u64") > pa.scalar(2**63, pa.uint64()),
    pc.field("f16").is_null() | (pc.field("f16").cast(pa.float32()) < 2),
    pc.field("f32").is_nan() | (pc.field("f64") <= 0.5),
    pc.is_in(pc.field("day"), pa.array([datetime.date(2024, 1, 5), None])),
    pc.field("when") >= pa.scalar((1704067200 + 30) * 10**9, pa.timestamp("ns")),
    pc.field("zoned") < pa.scalar(5_000_000, pa.timestamp("us", "UTC")),
    pc.match_substring(pc.field("s"), "é") | (pc.field("s") == "None"),
    pc.field("raw") == b"\x00\xff",
    pc.field("key") == 2,
    (pc.field("key") == 1) | (pc.field("i8") == 7),
]


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """Columns that the core reads for filters, and a hive key."""
    directory = tmp_path_factory.mktemp("plain")
    for key in range(3):
        n = np.arange(380) + 380 * key

        def some(values, arrow, n=n):
            return pa.array(
                [None if i % 7 == 2 else v for i, v in zip(n, values, strict=True)], arrow
            )

        table = pa.table(
            {
                "number": n,
                "b": some((n % 2 == 0).tolist(), pa.bool_()),
                "i8": some((n % 256 - 128).tolist(), pa.int8()),
                "u16": some((n * 55).tolist(), pa.uint16()),
                "u64": pa.array([2**63 + int(i) - 600 for i in n], pa.uint64()),
                "f32": pa.array([float("nan") if i % 5 == 0 else i / 9 for i in n], pa.float32()),
                "f16": some(np.float16(n % 9), pa.float16()),
                "f64": some((n / 999).tolist(), pa.float64()),
                "day": some((n % 40 + 19720).tolist(), pa.date32()),
                "when": some((n * 10**9 + 1704067200 * 10**9).tolist(), pa.timestamp("ns")),
                "zoned": some((n * 10**4).tolist(), pa.timestamp("us", "UTC")),
                "s": some([["é", "None", "", "xyé"][i % 4] for i in n], pa.string()),
                "raw": some([[b"\x00\xff", b""][i % 2] for i in n], pa.binary()),
            }
        )
        (directory / f"key={key}").mkdir()
        pq.write_table(table, directory / f"key={key}" / "a.parquet", row_group_size=150)
    return directory


@pytest.mark.parametrize("filters", PLAIN, ids=str)
def test_filters_and_a_split_keep_what_each_of_them_keeps(plain, filters):
    split = ("number", 0, 0.9)
    by_both = kept(plain, filters, split=split)
    assert 0 < len(by_both) < 1140
    assert by_both == sorted({*kept(plain, filters)} & {*kept(plain, split=split)})
    expected = pads.dataset(plain, partitioning="hive").to_table(filter=filters)["number"]
    assert kept(plain, filters) == sorted(expected.to_pylist())


@pytest.mark.parametrize(
    "filters",
    [
        [("country", "==", "de"), ("number", "<", 777)],
        [[("number", "<", 3)], [("number", ">", 9990), ("country", "!=", "us")]],
        [("country", "in", {"de", "us"})],
        [("country", "not in", ["de", "us"])],
    ],
)
def test_conditions(directory, filters):
    assert kept(directory, filters) == expected(directory, filters)


def test_conditions_name_fields_of_structs(directory):
    found = kept(directory, [("user.age", "<", 7)])
    assert found == expected(directory, pc.field("user", "age") < 7)


def test_conditions_name_fields_whose_names_have_dots(tmp_path):
    rows = [{"a.b": n, "c": {"d.e.f": n % 3}} for n in range(12)]
    table = pa.table({"number": range(12), "s": rows, "t.u": [{"v": n % 2} for n in range(12)]})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=5)
    assert kept(tmp_path, [("s.a.b", ">=", 9)]) == [9, 10, 11]
    assert kept(tmp_path, [("s.c.d.e.f", "==", 1), ("t.u.v", "==", 0)]) == [4, 10]
    parts = [kept(tmp_path, split=("s.a.b", *part)) for part in ((0, 0.5), (0.5, 1))]
    assert sorted(parts[0] + parts[1]) == [*range(12)]
    assert parts[0] == kept(tmp_path, split=("number", 0, 0.5))
    with pytest.raises(ColumnNotFoundError, match=r"write pyarrow\.compute\.field\('s', 'a\.b'\)"):
        kept(tmp_path, pc.field("s.a.b") == 1)


def test_two_fields_of_one_dotted_name(tmp_path):
    table = pa.table({"number": [0, 1], "s": [{"a.b": n, "a": {"b": 1 - n}} for n in range(2)]})
    pq.write_table(table, tmp_path / "a.parquet")
    for options in ({"filters": ("s.a.b", "==", 1)}, {"split": ("s.a.b", 0, 1)}):
        with pytest.raises(SchemaError, match=r"one field .* got 2: write .*\('s', 'a\.b'\) or"):
            kept(tmp_path, **options)
    assert kept(tmp_path, pc.field("s", "a.b") == 1) == [1]


def test_every_kind_of_column_follows(directory):
    filters = pc.field("country").isin(["fr"]) | (pc.field("number") < 40)
    columns = {
        "number": "number",
        "price": "price",
        "rare": Column("rare", fill=-1, valid=True),
        "wide": Column("rare", dtype=torch.int64, fill=-2),
        "name": "user.name",
        "tokens": "tokens",
    }
    dataset = FastParquetDataset(
        directory,
        columns=columns,
        filters=filters,
        nulls="nan",
        batch_size=100,
        provenance=True,
    )
    want = pads.dataset(directory).to_table(filter=filters)
    found = {name: [] for name in [*dataset.schema]}
    for batch in dataset:
        for name, values in batch.items():
            found[name] += values.tolist()
    assert found["number"] == want["number"].to_pylist()
    assert np.array_equal(
        found["price"], want["price"].fill_null(np.nan).to_numpy(), equal_nan=True
    )
    assert found["rare"] == want["rare"].fill_null(-1).to_pylist()
    assert found["rare__valid"] == want["rare"].is_valid().to_pylist()
    assert found["wide"] == want["rare"].fill_null(-2).to_pylist()
    assert found["name"] == [user["name"] for user in want["user"].to_pylist()]
    assert found["tokens"] == want["tokens"].to_pylist()
    stored = np.array(found["__file__"]) * ROWS + np.array(found["__row__"])
    assert stored.tolist() == found["number"]


def test_no_rows_at_all(directory):
    dataset = FastParquetDataset(
        directory, columns=["number"], filters=[("number", "<", 0)], shuffle=True, batch_size=7
    )
    assert len(dataset) == 0
    assert list(dataset) == []


def test_limit_counts_filtered_rows(directory):
    filters = pc.field("country") == "us"
    assert kept(directory, filters, limit=100) == expected(directory, filters)[:100]


def test_hive_keys(tmp_path):
    for year in (2023, 2024):
        for country in ("de", "__HIVE_DEFAULT_PARTITION__"):
            path = tmp_path / f"year={year}" / f"country={country}"
            path.mkdir(parents=True)
            pq.write_table(pa.table({"number": np.arange(10) + year}), path / "a.parquet")
    found = kept(tmp_path, [("year", "=", 2024)], batch_size=7)
    assert sorted(found) == sorted([*range(2024, 2034)] * 2)
    filters = pc.field("country").is_null() & (pc.field("number") < 2025)
    found = kept(tmp_path, filters, batch_size=7)
    assert sorted(found) == sorted([*range(2023, 2025), 2024])


def test_pruned_files_are_not_read(tmp_path):
    for year in (2023, 2024):
        (tmp_path / f"year={year}").mkdir()
        pq.write_table(
            pa.table({"number": np.arange(1000), "year_": np.full(1000, year)}),
            tmp_path / f"year={year}" / "a.parquet",
            row_group_size=100,
            compression="none",
        )
    filters = (pc.field("year") == 2024) & (pc.field("number") >= 950)
    with FastParquetDataset(tmp_path, columns=["number"], filters=filters) as dataset:
        assert numbers_of(dataset) == list(range(950, 1000))
        assert dataset.stats().requests == 1


def test_files_that_differ(tmp_path):
    pq.write_table(pa.table({"a": pa.array([1, 2, 3], pa.int32())}), tmp_path / "0.parquet")
    pq.write_table(pa.table({"a": [2.5, 3.0], "b": ["x", "y"]}), tmp_path / "1.parquet")
    dataset = FastParquetDataset(tmp_path, columns=["a"], filters=pc.field("a") > 2)
    assert [v for batch in dataset for v in batch["a"].tolist()] == [3.0, 2.5, 3.0]
    dataset = FastParquetDataset(tmp_path, columns=["a"], filters=pc.field("b") == "y")
    assert [v for batch in dataset for v in batch["a"].tolist()] == [3.0]


def test_filters_may_remove_the_nulls(directory):
    with pytest.raises(NullValueError, match="fill="):
        iter(FastParquetDataset(directory, columns=["rare"]))
    filters = pc.field("rare").is_valid()
    dataset = FastParquetDataset(directory, columns=["rare"], filters=filters, batch_size=500)
    want = pads.dataset(directory).to_table(filter=filters)["rare"].to_pylist()
    assert [v for batch in dataset for v in batch["rare"].tolist()] == want


@pytest.mark.parametrize("shuffle", [False, True])
def test_a_null_that_stays_is_named(directory, shuffle):
    dataset = FastParquetDataset(
        directory,
        columns=["rare"],
        filters=(pc.field("rare").is_valid()) | (pc.field("number") == 7303),
        shuffle=shuffle,
    )
    with pytest.raises(NullValueError, match=r"part-1.*row group 1, column `rare`.*row 2303"):
        list(dataset)


def test_damage_in_a_column_of_filters_is_told_with_its_place(tmp_path):
    path = tmp_path / "damaged.parquet"
    table = pa.table({"key": np.arange(3000) // 3, "value": np.arange(3000)})
    pq.write_table(table, path, row_group_size=1000, use_dictionary=False)
    chunk = pq.read_metadata(path).row_group(1).column(0)
    data = bytearray(path.read_bytes())
    stop = chunk.data_page_offset + chunk.total_compressed_size
    data[stop - 1000 : stop] = b"\xff" * 1000
    path.write_bytes(data)
    with pytest.raises(CorruptFileError) as told:
        FastParquetDataset(path, columns=["value"], filters=pc.field("key") > 500)
    assert str(told.value).count(" - at ") == 1
    assert str(told.value).endswith(f" - at {path}, row group 1, column `key`, page 0")


@pytest.mark.parametrize(
    "options",
    [
        {"filters": pc.field("text") < "4000"},
        {"filters": pc.field("key") + pc.field("price") > 500},
        {"split": ("key", 0, 0.5), "filters": pc.field("price") > 5},
        {"split": (["price", "key"], 0, 0.5)},
    ],
    ids=["text", "arithmetic", "split and filters", "split"],
)
def test_the_scanner_names_the_damaged_column(tmp_path, options):
    column = "text" if "text" in str(options) else "key"
    path = tmp_path / "damaged.parquet"
    keys = pa.array(np.arange(3000) // 3)
    table = pa.table({"price": np.arange(3000), "key": keys, "text": keys.cast(pa.string())})
    pq.write_table(table, path, row_group_size=1000, use_dictionary=False, compression="zstd")
    chunk = pq.read_metadata(path).row_group(1).column(table.column_names.index(column))
    data = bytearray(path.read_bytes())
    stop = chunk.data_page_offset + chunk.total_compressed_size
    data[stop - 300 : stop] = b"\xff" * 300
    path.write_bytes(data)
    with pytest.raises(CorruptFileError) as raised:
        FastParquetDataset(path, columns=["price"], **options)
    assert str(raised.value).count(" - at ") == 1
    assert str(raised.value).endswith(f" - at {path}, row group 1, column `{column}`")


def test_errors_with_a_place_stay_what_they_are():
    # One that is no corruption must not become one: corruption may be skipped.
    with pytest.raises(StorageError, match=r"^Can't read - at b$"), naming("a"):
        raise StorageError("Can't read - at b")
    with pytest.raises(CorruptFileError, match="short - at a"), naming("a"):
        raise OSError("short")


@pytest.mark.parametrize(
    ("filters", "error", "message"),
    [
        (pc.field("numbr") > 1, ColumnNotFoundError, "`numbr`; the nearest is `number`"),
        ([("numbr", ">", 1)], ColumnNotFoundError, "the nearest is `number`"),
        (pc.field("user", "agee") > 1, ColumnNotFoundError, "user.agee"),
        (
            pc.field("user.age") > 1,
            ColumnNotFoundError,
            r"write pyarrow.*field\('user', 'age'\) for",
        ),
        (pc.field("user.agee") > 1, ColumnNotFoundError, "`user.agee`; the nearest are `user.age`"),
        ([("__row__", "<", 9)], ColumnNotFoundError, r"by number, pass limit= and .*take\(n"),
        (pc.field("__file__") == 0, ColumnNotFoundError, "To choose files, pass their paths"),
        ([("number", "!=", None)], ValueError, r"is_null\(\) or .is_valid\(\)"),
        (pc.field("number") == "x", SchemaError, "fit the columns' types"),
        (pc.field("number") + 1, SchemaError, "must evaluate to bool"),
        (5, TypeError, "Expected filters as"),
        ("number > 5", TypeError, "Expected filters as"),
        ([], ValueError, "pyarrow's form"),
        ([("number", ">")], ValueError, r"\(column, operator, value\)"),
        ([("number", "~", 3)], ValueError, "an operator of filters among"),
        ([("number", "in", iter([3]))], ValueError, "can be read only once"),
        ([("day", "in", ["2024-01-31", 5])], ValueError, "write a list of .* one type for `day`"),
        ([(3, ">", 3)], TypeError, "name of a column"),
    ],
)
def test_refusals(directory, filters, error, message):
    with pytest.raises(error, match=message):
        FastParquetDataset(directory, columns=["number"], filters=filters)


MOMENT = datetime.datetime.fromisoformat("2024-01-31")


@pytest.mark.parametrize(
    "filters",
    [
        ("t", "<", 5),
        pc.scalar(5) > pc.field("t"),
        pc.field("d") < "2024-01-31",
        ("c", "<", 1.5),
        ("s", "==", 5),
        ("s", "in", [5]),
        ("t", "in", [MOMENT, 5]),
        ~pc.field("c").isin([5]),
        ("b", "in", (None, 1)),
        ("n", "in", ["1"]),
        ("p", "in", ["1.5"]),
        ("s", "<", MOMENT),
        ("b", "==", 1),
        ("n", "==", "x"),
        ("p", "==", "x"),
        [("s2", "==", "a"), ("s", "==", 5)],
        ("u.s", "==", 5),
    ],
)
def test_values_of_other_types_than_the_column_are_refused(tmp_path, filters):
    table = pa.table(
        {
            "t": pa.array([MOMENT], pa.timestamp("us")),
            "d": [MOMENT.date()],
            "c": [MOMENT.time()],
            "s": ["a"],
            "s2": ["a"],
            "b": [True],
            "n": [1],
            "p": [Decimal("1.5")],
            "u": [{"s": "a"}],
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(SchemaError, match=r"; compare strings with a str \("):
        FastParquetDataset(tmp_path, columns=["n"], filters=filters)


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("user.nam", ColumnNotFoundError, "`user.nam`; the nearest are `user.name`"),
        (
            "user.place.cty",
            ColumnNotFoundError,
            "nearest are `user.place.city`",
        ),
        ("boxes.x", SchemaError, r"`boxes.x`, of which the rows of `boxes` have several; .*Subset"),
        ("user.bag.key", SchemaError, r"of which the rows of `user.bag` have several; .*Subset"),
        ("boxes", SchemaError, r"list<.*filters compare no elements of lists and maps: let a func"),
        ("pair", SchemaError, r"list<.*filters compare no elements of lists and maps: let a func"),
    ],
)
def test_refusals_of_nested_columns(tmp_path, name, error, message):
    place = pa.struct([("city", pa.string())])
    bag = pa.map_(pa.string(), pa.int64())
    user = pa.struct([("name", pa.string()), ("place", place), ("bag", bag)])
    box = pa.struct([("x", pa.float32())])
    columns = {"user": user, "boxes": pa.list_(box), "pair": pa.list_(pa.int64(), 2)}
    table = pa.table({column: pa.nulls(3, type_) for column, type_ in columns.items()})
    pq.write_table(table, tmp_path / "nested.parquet")
    with pytest.raises(error, match=message):
        FastParquetDataset(tmp_path, columns=["user.name"], filters=[(name, "==", 1)])


def test_columns_without_a_common_type(tmp_path):
    pq.write_table(pa.table({"a": [1], "b": [1]}), tmp_path / "0.parquet")
    pq.write_table(pa.table({"a": [2], "b": [[1]]}), tmp_path / "1.parquet")
    dataset = FastParquetDataset(tmp_path, columns=["a"], filters=pc.field("a") > 1)
    assert [batch["a"].tolist() for batch in dataset] == [[2]]
    message = r"`b` of types .* got int64 in .*0\.parquet and list<element: int64> in .*1\.parquet"
    with pytest.raises(SchemaError, match=message):
        FastParquetDataset(tmp_path, columns=["a"], filters=pc.field("b") > 1)


STRINGS = [
    pa.string(),
    pa.large_string(),
    pa.string_view(),
    pa.dictionary(pa.int32(), pa.string()),
    pa.dictionary(pa.int8(), pa.string()),
    pa.dictionary(pa.int8(), pa.string(), ordered=True),
]


def write_two(directory, values, first, second):
    for i, arrow in enumerate((first, second)):
        table = pa.table({"number": [3 * i, 3 * i + 1, 3 * i + 2], "v": pa.array(values, arrow)})
        pq.write_table(table, directory / f"{i}.parquet")


@pytest.mark.parametrize(("first", "second"), [*itertools.combinations(STRINGS, 2)], ids=str)
def test_strings_and_dictionaries_of_several_writers(tmp_path, first, second):
    write_two(tmp_path, ["a", "b", None], first, second)
    assert kept(tmp_path, pc.field("v").is_valid()) == [0, 1, 3, 4]
    assert kept(tmp_path, [("v", "in", ["b", "c"])]) == [1, 4]
    halves = [kept(tmp_path, split=("v", *bounds)) for bounds in ((0, 0.5), (0.5, 1))]
    assert sorted(itertools.chain(*halves)) == list(range(6))
    assert all(number + 3 in half for half in halves for number in half if number < 3)


@pytest.mark.parametrize("nested", [pa.list_, pa.large_list])
def test_lists_of_strings_and_of_dictionaries(tmp_path, nested):
    dictionary = pa.dictionary(pa.int32(), pa.string())
    write_two(tmp_path, [["a"], ["b"], None], nested(dictionary), nested(pa.string()))
    assert kept(tmp_path, pc.field("v").is_valid()) == [0, 1, 3, 4]


def fixed(arrow):
    return pa.list_(arrow, 1)


def test_lists_of_a_fixed_size_of_strings_and_of_dictionaries(tmp_path):
    dictionary = pa.dictionary(pa.int32(), pa.string())
    write_two(tmp_path, [["a"], ["b"], ["c"]], fixed(dictionary), fixed(pa.string()))
    assert kept(tmp_path, pc.list_element(pc.field("v"), 0) != "b") == [0, 2, 3, 5]


@pytest.mark.xfail(
    int(pa.__version__.partition(".")[0]) < 26,
    raises=ValueError,
    reason="pyarrow before 26 can't read the null of a list of a fixed size",
)
def test_nulls_among_lists_of_a_fixed_size(tmp_path):
    dictionary = pa.dictionary(pa.int32(), pa.string())
    write_two(tmp_path, [["a"], ["b"], None], fixed(dictionary), fixed(pa.string()))
    assert kept(tmp_path, pc.field("v").is_valid()) == [0, 1, 3, 4]


def test_structs_and_maps_of_strings_and_of_dictionaries(tmp_path):
    dictionary = pa.dictionary(pa.int32(), pa.string())
    types = [pa.struct([("c", pa.map_(pa.string(), each))]) for each in (pa.string(), dictionary)]
    write_two(tmp_path, [{"c": [("k", "a")]}, {"c": None}, None], *types)
    assert kept(tmp_path, pc.field("v", "c").is_valid()) == [0, 3]


@pytest.mark.parametrize(
    "arrow",
    [
        *((pa.decimal32(6, 1), pa.decimal64(12, 2)) if SMALL else ()),
        pa.decimal128(6, 1),
        pa.decimal128(12, 2),
        pa.decimal128(38, 10),
    ],
    ids=str,
)
def test_decimals_are_compared_with_integers(tmp_path, arrow):
    values = [Decimal(n).scaleb(-1) for n in range(0, 400, 5)] + [None]
    table = pa.table({"number": range(len(values)), "price": pa.array(values, arrow)})
    pq.write_table(table, tmp_path / "0.parquet", row_group_size=30)
    assert kept(tmp_path, [("price", ">", 38)]) == [77, 78, 79]
    assert kept(tmp_path, [("price", "==", np.int64(5))]) == [10]
    assert kept(tmp_path, [("price", "in", [5, Decimal("7.5")])]) == [10, 15]
    assert kept(tmp_path, pc.field("price").isin([Decimal("7.5")])) == [15]
    with pytest.raises(SchemaError, match=r"as decimal\.Decimal\(\.\.\.\) - at"):
        kept(tmp_path, pc.field("price") > 38)


def test_fixed_size_binary_is_compared_with_text_of_any_length(tmp_path):
    table = pa.table({"number": range(2), "code": pa.array([b"de", b"fr"], pa.binary(2))})
    pq.write_table(table, tmp_path / "0.parquet")
    assert kept(tmp_path, ("code", "in", ["fr"])) == [1]
    assert kept(tmp_path, ("code", "in", ["fra", "de"])) == [0]
    assert kept(tmp_path, ("code", "not in", {"fra", b"de"})) == [1]


def test_large_integers_are_compared_as_uint64(tmp_path):
    ids = [5, 2**63 - 1, 2**63, 2**63 + 5, 2**64 - 1]
    table = pa.table({"number": range(len(ids)), "id": pa.array(ids, pa.uint64())})
    pq.write_table(table, tmp_path / "0.parquet")
    assert kept(tmp_path, ("id", "==", 2**63 + 5)) == [3]
    assert kept(tmp_path, ("id", ">", 2**63 - 1)) == [2, 3, 4]
    assert kept(tmp_path, ("id", ">", 5)) == [1, 2, 3, 4]
    assert kept(tmp_path, ("id", "in", {5, 2**64 - 1})) == [0, 4]
    assert kept(tmp_path, [("id", "not in", [2**63])]) == [0, 1, 3, 4]


@pytest.mark.parametrize("arrow", [pa.uint64(), pa.int64(), pa.uint8(), pa.int32()], ids=str)
@pytest.mark.parametrize("value", [-1, -5, 2**63, 2**64, 2**70, -(2**63) - 1, -(2**200)])
@pytest.mark.parametrize("operator", ["==", "!=", "<", "<=", ">", ">=", "in", "not in"])
def test_integers_beyond_a_columns_type_are_compared_by_value(tmp_path, arrow, value, operator):
    most = 2 ** (arrow.bit_width - pa.types.is_signed_integer(arrow)) - 1
    values = [0, 5, most, *([] if pa.types.is_unsigned_integer(arrow) else [-2, -most - 1])]
    table = pa.table({"number": range(len(values) + 1), "id": pa.array([*values, None], arrow)})
    pq.write_table(table, tmp_path / "0.parquet")
    passes = {
        "==": lambda each: each == value,
        "!=": lambda each: each != value,
        "<": lambda each: each < value,
        "<=": lambda each: each <= value,
        ">": lambda each: each > value,
        ">=": lambda each: each >= value,
        "in": lambda each: each in (value, 5),
        "not in": lambda each: each not in (value, 5),
    }[operator]
    expected = [number for number, each in enumerate(values) if passes(each)]
    expected += [len(values)] if operator == "not in" else []  # as pyarrow has it
    given = value if "in" not in operator else [value, 5]
    filters = (("id", operator, given), [("id", operator, given), ("number", ">=", 0)])
    for each in filters:
        assert kept(tmp_path, each, batch_size=9) == expected


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (pa.int64(), pa.decimal128(10, 2)),
        (pa.int32(), pa.decimal128(10, 2)),
        (pa.uint64(), pa.decimal128(18, 2)),
        (pa.int64(), pa.decimal128(38, 25)),
        (pa.int64(), pa.decimal256(50, 2)),
        (pa.float16(), pa.decimal128(10, 2)),
        (pa.float32(), pa.decimal128(10, 2)),
        *([(each, pa.decimal32(7, 2)) for each in (pa.int32(), pa.int64())] if SMALL else []),
    ],
    ids=str,
)
def test_columns_of_numbers_in_one_file_and_decimals_in_another(tmp_path, one, other):
    numbers = [1, 2, None, 4]
    decimals = [Decimal("1.50"), Decimal("2.00"), None, Decimal("3.25")]
    for name, values, arrow in (("0", numbers, one), ("1", decimals, other)):
        column = pa.array(values, arrow)
        start = 4 * int(name)
        table = pa.table({"number": range(start, start + 4), "v": column})
        pq.write_table(table, tmp_path / f"{name}.parquet", row_group_size=2)
    assert kept(tmp_path, pc.field("v").is_valid()) == [0, 1, 3, 4, 5, 7]
    assert kept(tmp_path, ("v", ">", 1)) == [1, 3, 4, 5, 7]
    assert kept(tmp_path, ("v", ">", Decimal("1.5"))) == [1, 3, 5, 7]
    assert kept(tmp_path, ("v", "<", 1.75)) == [0, 4]
    assert kept(tmp_path, ("v", "in", [2, 4])) == [1, 3, 5]


@pytest.mark.parametrize(
    "filters",
    [
        ("day", "==", datetime.date(2024, 5, 1)),
        ("day", "in", [datetime.date(2024, 5, 1)]),
        ("day", "<", datetime.datetime(2024, 5, 1, tzinfo=datetime.timezone.utc)),
        pc.scalar(datetime.date(2024, 5, 1)) == pc.field("day"),
    ],
    ids=str,
)
def test_dates_and_hive_keys(tmp_path, filters):
    (tmp_path / "day=2024-05-01").mkdir()
    pq.write_table(pa.table({"number": [0, 1, 2]}), tmp_path / "day=2024-05-01/0.parquet")
    with pytest.raises(SchemaError, match="a Hive key of dates is a string"):
        FastParquetDataset(tmp_path, columns=["number"], filters=filters)
    text = FastParquetDataset(tmp_path, columns=["number"], filters=("day", ">", "2024-04-30"))
    assert text.num_rows == 3


def test_lists_without_values_and_times_of_numpy(tmp_path):
    minutes = pa.array([300, 420], pa.duration("s"))
    days = pa.array([0, 86400], pa.timestamp("s"))
    table = pa.table({"number": [0, 1], "s": ["a", None], "d": minutes, "t": days})
    pq.write_table(table, tmp_path / "0.parquet")
    assert kept(tmp_path, ("s", "in", [])) == []
    assert kept(tmp_path, ("s", "not in", set())) == [0, 1]
    assert kept(tmp_path, ("s", "in", [None])) == [1]
    assert kept(tmp_path, ("s", "not in", {None})) == [0]
    for name, times in (
        ("d", [np.timedelta64(300_000, "ms"), np.timedelta64(300, "s"), np.timedelta64(5, "m")]),
        ("t", [np.datetime64("1970-01-01T00", unit) for unit in ("D", "h", "m", "ns")]),
    ):
        for time in times:
            assert kept(tmp_path, (name, ">", time)) == [1]
            assert kept(tmp_path, (name, "in", {time})) == [0]
            assert kept(tmp_path, (name, "in", [time, None])) == [0]
    for time in (np.timedelta64(1, "Y"), np.timedelta64(1, "ps"), np.datetime64("NaT")):
        with pytest.raises(ValueError, match="Expected a value in filters in weeks"):
            FastParquetDataset(tmp_path, filters=("d", "in", [time]))


def test_values_that_filters_cannot_be_asked_of(tmp_path):
    pq.write_table(pa.table({"a": [1, 2**63 - 1]}), tmp_path / "0.parquet")
    with pytest.raises(ValueError, match=r"overflow.*0\.parquet, row group 0"):
        FastParquetDataset(tmp_path, filters=pc.field("a") + 1 > 5)


def test_a_changed_file(tmp_path, monkeypatch):
    path = tmp_path / "a.parquet"
    pq.write_table(table_of(100), path)
    real = select_rows

    def change_first(*arguments):
        pq.write_table(table_of(101), path)
        return real(*arguments)

    monkeypatch.setattr("fastload.rows.selection.select_rows", change_first)
    with pytest.raises(SourceChangedError, match=r"a\.parquet"):
        FastParquetDataset(path, columns=["number"], filters=[("number", ">", 1)])


def test_a_pickle_keeps_the_rows(directory):
    filters = pc.field("country") == "de"
    dataset = FastParquetDataset(directory, columns=["number"], filters=filters)
    again = pickle.loads(pickle.dumps(dataset))
    assert numbers_of(again) == numbers_of(dataset)


def test_a_state_belongs_to_its_filters(directory):
    def make(filters, split=None):
        return FastParquetDataset(
            directory, columns=["number"], filters=filters, split=split, batch_size=10
        )

    filters = pc.field("number").isin(list(range(0, 5000, 3)))
    dataset = make(filters)
    whole = numbers_of(dataset)
    iterator = iter(make(filters))
    state = dataset.state_dict(after=next(iterator))
    other = make(pc.field("number").isin([*range(0, 4999, 3), 1]))
    with pytest.raises(ValueError, match="Expected filters="):
        other.load_state_dict(state)
    with pytest.raises(ValueError, match="Expected split="):
        make(filters, (None, 0, 0.5)).load_state_dict(state)
    same = make(filters)
    same.load_state_dict(state)
    assert numbers_of(same) == whole[10:]


NAMES = [f"name {n}" for n in range(30)]
OF_EACH_SEED = """
import sys, json
import numpy as np, pyarrow.compute as pc
from fastload import FastParquetDataset

names = [f"name {n}" for n in range(30)]
filters = [
    [("s", "in", set(names))],
    ("s", "not in", frozenset(names[5:])),
    [("n", "in", {2**70, 3, 2**64 - 1})],
    [("n", "in", np.array([3, 2, 1])), ("s", "!=", "x")],
    [[("n", "in", {-1, -2, 5})], [("s", "in", {"a", None})]],
    pc.field("s").isin(set(names)) & (pc.field("n") < 10),
]
for each in filters:
    dataset = FastParquetDataset(sys.argv[1], columns=["n"], filters=each, batch_size=2)
    predicate = dataset._predicate
    print(json.dumps([predicate.digest, dataset.state_dict(after=next(iter(dataset)))]))
"""


def test_sets_in_filters_have_one_digest_in_every_process(tmp_path):
    table = pa.table({"n": range(30), "s": NAMES})
    pq.write_table(table, tmp_path / "a.parquet")
    program = [sys.executable, "-c", OF_EACH_SEED, tmp_path / "a.parquet"]
    made = [
        subprocess.run(
            program, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout.splitlines()
        for seed in ("1", "2")
    ]
    assert made[0] == made[1]
    assert len(made[0]) == len(set(made[0])) == 6


# States are saved with these digests.
@pytest.mark.parametrize(
    ("members", "digest"),
    [
        ([3, -20, 100, 3, None], "3f3ceb1577eb45fa3ded61683c315dde"),
        ([2**64 - 1, np.int32(7)], "8ff5666e6a925fcb16907ef957bb9fe5"),
        ([2**70, -1], "53afbe7e6c88b8780803c09f58115429"),
    ],
)
def test_digests_of_lists_stay(tmp_path, members, digest):
    pq.write_table(pa.table({"n": [1]}), tmp_path / "a.parquet")
    schema = FilterSchema.of(Source.open(tmp_path))
    for each in (members, members[::-1], set(members)):
        assert schema.predicate(parse_filters(("n", "in", each)), None).digest == digest


def test_limits_of_values_are_those_of_their_integers():
    least, most = -(2**63), 2**63 - 1
    for inside in ([], ["x"], [least, most], [True, 2.0**80, None], [np.timedelta64(1)]):
        assert within_limits(inside, least, most)
    for beyond in ([least - 1], [0, most + 1], ["x", most + 1], [np.uint64(2**63), np.int8(-1)]):
        assert not within_limits(beyond, least, most)


def test_long_lists_are_not_looked_at_value_by_value(tmp_path, monkeypatch):
    pq.write_table(pa.table({"n": [1], "s": ["1"]}), tmp_path / "a.parquet")
    schema = FilterSchema.of(Source.open(tmp_path))
    asked = []
    for module in ("predicate", "filter_schema"):
        monkeypatch.setattr(f"fastload.rows.{module}.is_integer", asked.append)
    numbers = [*range(1000)]
    for filters in (("n", "in", numbers), ("s", "not in", [str(number) for number in numbers])):
        schema.predicate(parse_filters(filters), None)
    assert len(asked) < 10


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("s", "in", {"a", "b"}), ("s", "in", {"a", "c"})),
        (("s", "in", ["a, b"]), ("s", "in", ["a", "b"])),
        (("s", "in", ["a"]), ("s", "not in", ["a"])),
        (("x", "==", 0.1), ("x", "==", np.nextafter(0.1, 1))),
        (("x", "in", [1.0, 2.0]), ("x", "in", [1.0, np.nextafter(2.0, 3)])),
        (("t", "<", "1970-01-01"), ("t", "<", "1970-01-01T00:00:00.000000001")),
        ([[("x", "<", 1)], [("s", "==", "a")]], [("x", "<", 1), ("s", "==", "a")]),
        (pc.field("s").isin(NAMES), pc.field("s").isin([*NAMES[:14], "x", *NAMES[15:]])),
        (pc.field("x") < 0.1, pc.field("x") < np.nextafter(0.1, 1)),
        (pc.field("x").is_null(), pc.field("x").is_null(nan_is_null=True)),
        (pc.match_substring(pc.field("s"), "a"), pc.match_substring(pc.field("s"), "b")),
    ],
)
def test_other_filters_have_other_digests(tmp_path, one, other):
    columns = {"s": ["a"], "x": [0.5], "t": pa.array([0], pa.timestamp("ns"))}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    schema = FilterSchema.of(Source.open(tmp_path))
    first, second = (schema.predicate(parse_filters(each), None) for each in (one, other))
    assert first.digest != second.digest
    assert first.filters_text != second.filters_text
    assert len(first.filters_text) < 80


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_times_of_day_as_text(tmp_path, unit):
    kind = pa.time32(unit) if unit == "ms" else pa.time64(unit)
    hours = [datetime.time(hour, 30) for hour in range(24)]
    pq.write_table(pa.table({"t": pa.array([*hours, None], kind)}), tmp_path / "a.parquet")

    def rows(operator, value):
        filters = [("t", operator, value)]
        return FastParquetDataset(tmp_path, nulls="zero", filters=filters).num_rows

    assert rows(">", "12:30:00") == rows(">", datetime.time(12, 30)) == 11
    assert rows(">=", "12:30") == 12
    assert rows("<", "12:30:00.001") == 13
    assert rows("in", ["01:30:00", "02:30:00", "03:31:00"]) == 2
    assert rows("not in", ["01:30:00"]) == 24
    for wrong in ("2024-01-31T12:30:00", "12:30:00Z", "25:00:00", "noon", ""):
        with pytest.raises(ValueError, match=r'filters such as "12:00:00", got'):
            rows(">", wrong)


def test_a_time_zone_is_asked_for_whatever_the_unit_of_the_value(tmp_path):
    noon = datetime.datetime(2024, 1, 31, 12, tzinfo=datetime.timezone.utc)
    pq.write_table(
        pa.table({"t": pa.array([noon], pa.timestamp("us", "Europe/Berlin"))}),
        tmp_path / "a.parquet",
    )
    value = np.datetime64("2024-01-31T12:00:00")
    with pytest.raises(SchemaError, match=r"a time zone if the column has one"):
        FastParquetDataset(tmp_path, filters=[("t", "<", value)])


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
@pytest.mark.parametrize("nested", [False, True])
def test_timestamps_with_and_without_a_time_zone_are_not_compared(tmp_path, unit, zone, nested):
    times = pa.array([0, 3_600_000, None]).cast(pa.timestamp("ms")).cast(pa.timestamp(unit))
    times = times.cast(pa.timestamp(unit, zone))
    struct = pa.StructArray.from_arrays([times], ["t"])
    table = pa.table(
        {"number": [0, 1, 2], "s": struct} if nested else {"number": [0, 1, 2], "t": times}
    )
    pq.write_table(table, tmp_path / "0.parquet")
    name = "s.t" if nested else "t"
    aware = datetime.datetime(1970, 1, 1, microsecond=1, tzinfo=datetime.timezone.utc)
    naive = aware.replace(tzinfo=None)
    fits, other = (naive, aware) if zone is None else (aware, naive)
    fits = pa.scalar(fits).cast(pa.timestamp(unit, zone), safe=False)
    assert kept(tmp_path, [(name, ">", fits)]) == [1]
    with pytest.raises(SchemaError, match="types, got"):
        FastParquetDataset(tmp_path, columns=["number"], filters=[(name, ">", other)])


def test_timestamps_of_several_time_zones(tmp_path):
    zones = ["Europe/Berlin", "UTC", "+00:00"]
    for number, zone in enumerate(zones):
        times = pa.array([0, 60, None]).cast(pa.timestamp("s")).cast(pa.timestamp("us", zone))
        pair = pa.array([0, 7, 8, 9]).cast(pa.timestamp("ms", zone))
        columns = {
            "number": [0, 1, 2],
            "t": times,
            "s": pa.StructArray.from_arrays([times, [1, 2, 3]], ["t", "x"]),
            "l": pa.ListArray.from_arrays([0, 1, 2, 4], pair),
        }
        pq.write_table(pa.table(columns), tmp_path / f"{number}.parquet")
    minute = datetime.datetime(1970, 1, 1, 0, 1, tzinfo=datetime.timezone.utc)
    west = minute.astimezone(datetime.timezone(datetime.timedelta(hours=-5)))
    for value in (minute, west, "1970-01-01T00:01:00Z", "1970-01-01T01:01:00+01:00"):
        for name in ("t", "s.t"):
            assert kept(tmp_path, [(name, "==", value)]) == [1] * 3
            assert kept(tmp_path, [(name, "<", value)]) == [0] * 3
            assert kept(tmp_path, [(name, "in", [value])]) == [1] * 3
    assert kept(tmp_path, pc.list_value_length(pc.field("l")) == 2) == [2] * 3
    parts = [kept(tmp_path, split=("t", *part)) for part in ((0, 0.5), (0.5, 1))]
    assert sorted(parts[0] + parts[1]) == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert set(parts[0]).isdisjoint(parts[1])
    pq.write_table(pa.table({"t": pa.array([0], pa.timestamp("us"))}), tmp_path / "naive.parquet")
    with pytest.raises(
        SchemaError, match=r"timestamp\[us, tz=Europe/Berlin\] in .*0\.parquet and ti"
    ):
        kept(tmp_path, [("t", "<", minute)])


def test_types_of_nested_columns_are_those_of_pyarrow_and_take_no_second_read(tmp_path):
    path = tmp_path / "a.parquet"
    table = pa.table(
        {
            "user": [{"age": 1, "tags": ["x"]}],
            "word": pa.array(["a"], pa.large_string()).dictionary_encode(),
            "when": pa.array([0], pa.timestamp("us", "Europe/Paris")),
            "pair": pa.array([[1, 2]], pa.list_(pa.int32(), 2)),
            "count": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.uint8())),
        }
    )
    pq.write_table(table, path)
    source, expected = Source.open(path), pq.read_schema(path)
    path.unlink()
    assert FilterSchema.of(source).arrow.equals(expected.remove_metadata())
