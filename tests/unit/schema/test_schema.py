"""From schema and columns to what the core decodes."""

from __future__ import annotations

import datetime
import decimal
import pickle
import struct
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from fastload.errors import (
    ColumnNotFoundError,
    CorruptFileError,
    NullValueError,
    SchemaError,
)
from fastload.rows.filter_schema import FilterSchema
from fastload.schema.columns import Codes, Column, Hash, Stack
from fastload.schema.fields import Field
from fastload.schema.file_schema import FileSchema, group_files
from fastload.schema.projection import Projection, plan_columns
from fastload.source.source import Source

NAN32 = struct.pack("=f", float("nan"))
NAN64 = struct.pack("=d", float("nan"))


def save(directory: Path, columns: dict[str, Any], name: str = "a.parquet") -> Source:
    pq.write_table(pa.table(columns), directory / name, row_group_size=2)
    return Source.open(directory)


def plan(directory: Path, columns: dict[str, Any], asked: Any = None, **options: Any) -> Projection:
    return plan_columns(save(directory, columns), asked, **options)


DAY = datetime.date(2024, 1, 2)


@pytest.mark.parametrize(
    ("array", "field", "dtype"),
    [
        (pa.array([True]), Field(torch.bool), "bool"),
        (pa.array([1], pa.int8()), Field(torch.int8), "int8"),
        (pa.array([1], pa.int16()), Field(torch.int16), "int16"),
        (pa.array([1], pa.int32()), Field(torch.int32), "int32"),
        (pa.array([1], pa.int64()), Field(torch.int64), "int64"),
        (pa.array([1], pa.uint8()), Field(torch.uint8), "uint8"),
        (pa.array([1], pa.uint16()), Field(torch.uint16), "uint16"),
        (pa.array([1], pa.uint32()), Field(torch.uint32), "uint32"),
        (pa.array([1], pa.uint64()), Field(torch.uint64), "uint64"),
        (pa.array([1.0], pa.float16()), Field(torch.float16), "float16"),
        (pa.array([1.0], pa.float32()), Field(torch.float32), "float32"),
        (pa.array([1.0], pa.float64()), Field(torch.float64), "float64"),
        (pa.array([DAY], pa.date32()), Field(torch.int32, unit="day"), "int32"),
        # pyarrow reads a date64 that it wrote back as date32.
        (pa.array([DAY], pa.date64()), Field(torch.int32, unit="day"), "int32"),
        (pa.array([5], pa.time32("ms")), Field(torch.int64, unit="ms"), "int64"),
        (pa.array([5], pa.time64("us")), Field(torch.int64, unit="us"), "int64"),
        (pa.array([5], pa.timestamp("us")), Field(torch.int64, unit="us"), "int64"),
        (pa.array([5], pa.timestamp("ns", "UTC")), Field(torch.int64, unit="ns"), "int64"),
        (pa.array([5], pa.duration("s")), Field(torch.int64, unit="s"), "int64"),
        (pa.array([decimal.Decimal("1.5")], pa.decimal128(5, 2)), Field(torch.float64), "float64"),
        (pa.array([decimal.Decimal("1.5")], pa.decimal256(50, 2)), Field(torch.float64), "float64"),
        (pa.nulls(1), Field(torch.float32), "float32"),
        (pa.array(["x"]), Field(torch.uint8, ragged=True, kind="str"), "uint8"),
        (pa.array(["x"], pa.large_string()), Field(torch.uint8, ragged=True, kind="str"), "uint8"),
        (pa.array(["x"], pa.string_view()), Field(torch.uint8, ragged=True, kind="str"), "uint8"),
        (pa.array(["{}"], pa.json_()), Field(torch.uint8, ragged=True, kind="str"), "uint8"),
        (pa.array([b"x"]), Field(torch.uint8, ragged=True, kind="bytes"), "uint8"),
        (pa.array([b"x"], pa.binary(1)), Field(torch.uint8, ragged=True, kind="bytes"), "uint8"),
        (pa.array([b"0" * 16], pa.uuid()), Field(torch.uint8, ragged=True, kind="bytes"), "uint8"),
        (
            pa.array(["x"]).dictionary_encode(),
            Field(torch.uint8, ragged=True, kind="str"),
            "uint8",
        ),
        (pa.array([1], pa.int16()).dictionary_encode(), Field(torch.int16), "int16"),
        (pa.array([True]).cast(pa.int8()).cast(pa.bool8()), Field(torch.bool), "bool"),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_types(tmp_path: Path, array: Any, field: Field, dtype: str) -> None:
    projection = plan(tmp_path, {"x": array}, nulls="nan")
    assert dict(projection.schema) == {"x": field}
    assert projection.columns[0].dtype == dtype
    assert projection.columns[0].bytes is field.ragged
    assert projection.outputs[0].kind == ("ragged" if field.ragged else "column")


def test_int96_is_nanoseconds(tmp_path: Path) -> None:
    table = pa.table({"t": pa.array([5], pa.timestamp("ns"))})
    pq.write_table(table, tmp_path / "a.parquet", use_deprecated_int96_timestamps=True)
    source = Source.open(tmp_path)
    assert source.files[0].footer.leaves[0].physical_type == "INT96"
    assert plan_columns(source).schema["t"] == Field(torch.int64, unit="ns")


COLUMNS = {
    "i": [1, 2, 3],
    "f": pa.array([1.0, None, 3.0], pa.float32()),
    "s": ["a", "bb", "ccc"],
    "d": pa.array([decimal.Decimal("1.50")] * 3, pa.decimal128(9, 2)),
    "p": [{"x": 1, "q": {"y": 2.0}}, {"x": 3, "q": {"y": 4.0}}, {"x": 5, "q": {"y": 6.0}}],
}


def test_all_columns_by_dotted_name(tmp_path: Path) -> None:
    projection = plan(tmp_path, COLUMNS, nulls="nan")
    assert list(projection.schema) == ["i", "f", "s", "d", "p.x", "p.q.y"]
    assert [column.leaves for column in projection.columns] == [(n,) for n in range(6)]
    # 8 + 4 + (offset 8 + 2 a row) + 8 + 8 + 8, where the writer tells the bytes of the values.
    chunks = save(tmp_path, COLUMNS).files[0].footer.leaf_chunks(2)
    known = sum(chunks.value_bytes) if min(chunks.value_bytes) >= 0 else None
    values = known if known is not None else sum(chunks.uncompressed_bytes)
    assert projection.row_bytes == 8 + 4 + 8 + -(-values // 3) + 8 + 8 + 8


def test_names_and_structs(tmp_path: Path) -> None:
    source = save(tmp_path, COLUMNS)
    assert list(plan_columns(source, ["p.q", "i"]).schema) == ["p.q.y", "i"]
    assert list(plan_columns(source, ("p",)).schema) == ["p.x", "p.q.y"]
    assert list(plan_columns(source, {"out": "p", "n": "i"}).schema) == ["out.x", "out.q.y", "n"]
    stack = plan_columns(source, {"out": Stack(["p", "i"], dtype=torch.float32)})
    assert stack.schema["out"] == Field(torch.float32, shape=(3,))


def test_a_leaf_is_decoded_once(tmp_path: Path) -> None:
    projection = plan(
        tmp_path,
        COLUMNS,
        {
            "a": "i",
            "b": Column("i"),
            "c": Column("i", valid=True),
            "e": Column("i", fill=0),
            "g": Column("i", dtype=torch.int32),
        },
    )
    assert [(output.name, output.kind, output.columns) for output in projection.outputs] == [
        ("a", "column", (0,)),
        ("b", "column", (0,)),
        ("c", "column", (1,)),
        ("c__valid", "valid", (1,)),
        ("e", "column", (1,)),
        ("g", "column", (2,)),
    ]
    assert [column.cast for column in projection.columns] == [False, False, True]
    assert projection.row_bytes == 8 + 8 + 8 + 1 + 8 + 4


@pytest.mark.parametrize(
    ("spec", "fill"),
    [
        (Column("f"), NAN32),
        (Column("f", fill=1), struct.pack("=f", 1)),
        (Column("f", valid=True), bytes(4)),
        (Column("f", dtype=torch.float64), NAN64),
        (Column("i"), None),
        (Column("i", dtype=torch.float64), NAN64),
        (Column("i", fill=-2), struct.pack("=q", -2)),
        (Column("i", fill=2.0, dtype=torch.uint8), b"\x02"),
        (Column("i", fill=2**64 - 1, dtype=torch.uint64), b"\xff" * 8),
        (Column("i", fill=True, dtype=torch.bool), b"\x01"),
        (Column("i", fill=1.5, dtype=torch.bfloat16), struct.pack("=H", 0x3FC0)),
        (Column("i", valid=True), bytes(8)),
        (Column("d"), NAN64),
        (Column("d", dtype=torch.int64), None),
        (Column("d", dtype=torch.int64, fill=150), struct.pack("=q", 150)),
        (Column("s"), None),
        (Column("s", fill="é"), "é".encode()),
        (Column("s", valid=True), b""),
    ],
)
def test_fill(tmp_path: Path, spec: Column, fill: bytes | None) -> None:
    assert plan(tmp_path, COLUMNS, {"x": spec}, nulls="nan").columns[0].fill == fill
    if spec.fill is None and not spec.valid:
        refused = plan(tmp_path, COLUMNS, {"x": spec}, check_nulls=False).columns[0]
        assert (refused.fill, refused.takes_nulls) == (None, False)
        for nulls in ("zero", "mask"):
            zero = plan(tmp_path, COLUMNS, {"x": spec}, nulls=nulls).columns[0]
            assert zero.fill == bytes(0 if zero.bytes else getattr(torch, zero.dtype).itemsize)
    else:
        assert plan(tmp_path, COLUMNS, {"x": spec}).columns[0].fill == fill


@pytest.mark.parametrize(
    ("spec", "error", "message"),
    [
        (Column("i", fill=1.5), ValueError, "fits int64, got 1.5 - at column `i`"),
        (Column("i", fill=-1, dtype=torch.uint8), ValueError, "fits uint8, got -1"),
        (Column("i", fill=2, dtype=torch.bool), ValueError, "fits bool, got 2"),
        (Column("f", fill=1e300), ValueError, r"fits float32, got 1e\+300"),
        (Column("f", fill=10**400), ValueError, "fits float32, got 1000"),
        (Column("i", fill="x"), TypeError, "a number as fill, got 'x' - at column `i`"),
        (Column("s", fill=b"x"), TypeError, "str as fill, got b'x' - at column `s`"),
        (Column("s", fill=0), TypeError, "str as fill, got 0"),
        (Column("s", dtype=torch.int64), SchemaError, "no dtype for a column of type string"),
        (Column("d", dtype=torch.bool), SchemaError, r"dtype for .* type decimal\(9, 2\)"),
        (Stack(["i", "s"]), SchemaError, "in Stack `x`, got string: use Codes or Hash .* `s`"),
    ],
)
def test_specs_that_do_not_fit(
    tmp_path: Path, spec: Column | Stack, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        plan(tmp_path, COLUMNS, {"x": spec})


def test_decimals(tmp_path: Path) -> None:
    asked = {name: Column("d", dtype=dtype) for name, dtype in [("f", None), ("i", torch.int32)]}
    default, unscaled = plan(tmp_path, COLUMNS, asked).columns
    assert (default.dtype, default.unscaled, default.cast) == ("float64", False, False)
    assert (unscaled.dtype, unscaled.unscaled, unscaled.cast) == ("int32", True, True)


def test_null_column(tmp_path: Path) -> None:
    asked = {"a": "n", "b": Column("n", dtype=torch.int64, fill=7)}
    first, second = plan(tmp_path, {"n": pa.nulls(3)}, asked, nulls="nan").columns
    assert (first.dtype, first.fill, first.cast) == ("float32", NAN32, False)
    assert (second.dtype, second.fill, second.cast) == ("int64", struct.pack("=q", 7), False)
    for nulls, dtype in (("raise", None), ("raise", torch.int64), ("nan", torch.int64)):
        with pytest.raises(NullValueError, match=r"got 3 .* column `n`"):
            plan(tmp_path, {"n": pa.nulls(3)}, {"b": Column("n", dtype=dtype)}, nulls=nulls)


def test_stack(tmp_path: Path) -> None:
    columns = {
        "a": pa.array([1, 2], pa.int32()),
        "b": pa.array([1.0, None], pa.float32()),
        "u": pa.array([1, 2], pa.uint64()),
    }
    projection = plan(tmp_path, columns, {"x": Stack(["a", "b"])}, nulls="nan")
    assert projection.schema["x"] == Field(torch.float32, shape=(2,))
    assert [(c.dtype, c.cast, c.fill) for c in projection.columns] == [
        ("float32", True, NAN32),
        ("float32", False, NAN32),
    ]
    with pytest.raises(NullValueError, match="column `b`"):  # a null is never NaN unsaid
        plan(tmp_path, columns, {"x": ["a", "b"]})
    with pytest.raises(NullValueError, match="column `a`"):
        plan(tmp_path, {"a": pa.array([1, None])}, {"x": ["a"]})
    assert projection.outputs[0].columns == (0, 1)
    assert projection.row_bytes == 8
    filled = plan(tmp_path, columns, {"x": Stack(["b", "a"], dtype=torch.float64, fill=-1)})
    assert {c.fill for c in filled.columns} == {struct.pack("=d", -1)}
    each = plan(tmp_path, columns, {"x": Stack(["b", "a"], fill={"a": 7})}, nulls="nan")
    assert [c.fill for c in each.columns] == [NAN32, struct.pack("=f", 7)]
    listed = plan(tmp_path, columns, {"x": ["a", "u"]})
    assert listed.schema["x"] == Field(torch.float32, shape=(2,))


def test_unknown_column_names_the_nearest(tmp_path: Path) -> None:
    source = save(tmp_path, {"price": [1], "Volume": [2], "day": [3]})
    with pytest.raises(ColumnNotFoundError, match="got `pirce`; the nearest is `price` - at"):
        plan_columns(source, ["pirce"])
    with pytest.raises(ColumnNotFoundError, match="the nearest is `Volume`"):
        plan_columns(source, {"x": "volume"})
    with pytest.raises(ColumnNotFoundError, match=r"the columns are `price`, `Volume`, `day` - at"):
        plan_columns(source, {"x": Stack(["day", "zzzzzzzz"])})
    for name in ("__file__", "__row__"):
        with pytest.raises(ColumnNotFoundError, match=rf"got `{name}`: .* pass provenance=True"):
            plan_columns(source, ["price", name])


def test_unknown_column_that_is_a_key_above_the_source(tmp_path: Path) -> None:
    (tmp_path / "day=3" / "to%20wn=a").mkdir(parents=True)
    source = save(tmp_path / "day=3" / "to%20wn=a", {"price": [1]})
    for name, folder in (("day", "day=3"), ("to wn", "to%20wn=a")):
        hint = (
            f"`{name}`; .* pass the directory that holds `{folder}`, or a glob .*`{name}=\\*` - at"
        )
        with pytest.raises(ColumnNotFoundError, match=hint):
            plan_columns(source, [name])
    with pytest.raises(ColumnNotFoundError, match="the columns are `price` - at"):
        plan_columns(source, ["a"])


@pytest.mark.parametrize(
    ("asked", "error", "message"),
    [
        ([], ValueError, "at least one column, got none"),
        ({}, ValueError, "at least one column, got none"),
        ("i", TypeError, "None, a list of names or a mapping .*, got 'i'"),
        ([Stack(["i"])], TypeError, "a list of column names, got Stack"),
        (["i", "i"], ValueError, "Output name `i` is used twice"),
        ({"i": Column("i", valid=True), "i__valid": "f"}, ValueError, "`i__valid` is used twice"),
        ({"": "i"}, ValueError, "an output name, got an empty str"),
        ({1: "i"}, TypeError, "output names to be str, got 1"),
        ({"x": 1}, TypeError, "a column name, dtype, list of names, Column, .* for `x`, got 1"),
    ],
)
def test_wrong_columns(tmp_path: Path, asked: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        plan(tmp_path, COLUMNS, asked, nulls="nan")


def test_a_column_may_have_the_name_of_a_mask_that_is_not_needed(tmp_path: Path) -> None:
    # Batch.to_arrow() writes such a file of a batch that has masks.
    full = save(tmp_path, {"x": [1, 2], "x__valid": [True, False]})
    outputs = plan_columns(full, nulls="mask").outputs
    assert [(output.name, output.kind) for output in outputs] == [
        ("x", "column"),
        ("x__valid", "column"),
    ]
    with_null = save(tmp_path, {"x": [1, None], "x__valid": [True, False]})
    message = (
        r"`x__valid` is used twice by a column and by nulls=\"mask\" .* exclude=\[\"x__valid\"\]"
    )
    with pytest.raises(ValueError, match=message):
        plan_columns(with_null, nulls="mask")
    kept = plan_columns(with_null, nulls="mask", exclude=["x__valid"]).outputs
    assert [output.kind for output in kept] == ["column", "valid"]


def test_nulls_shown_by_footers(tmp_path: Path) -> None:
    columns = {"a": [1, 2, 3, None], "s": ["x", None, "y", "z"], "f": [None, 1.0, 2.0, 3.0]}
    source = save(tmp_path, columns)
    with pytest.raises(
        NullValueError,
        match=r"got 1 .*Column\('a', fill=\.\.\.\).*same for `s` \(1\), `f` \(1\); .*"
        r"a\.parquet, row group 1, column `a`",
    ):
        plan_columns(source)
    with pytest.raises(NullValueError, match=r"got 1 \(write Stack\(\.\.\., fill=\.\.\.\), and"):
        plan_columns(source, {"x": Stack(["f", "a"], dtype="int64")})
    plan_columns(source, {"x": Stack(["f", "a"], dtype="int64", fill=0)})
    planned = plan_columns(source, check_nulls=False)
    assert planned.refusal.startswith("Expected no nulls, got 1 (write Column('a', ")
    assert [field.nulls for field in planned.schema.values()] == [1, 1, 1]
    with pytest.raises(NullValueError, match=r"a\.parquet, row group 0, column `f`"):
        plan_columns(source, ["f"])
    assert plan_columns(source, ["f"], nulls="nan").refusal == ""
    plan_columns(source, {"a": Column("a", valid=True), "s": Column("s", fill="")})


def test_nulls_unknown_to_footers(tmp_path: Path) -> None:
    table = pa.table({"a": [1, None]})
    pq.write_table(table, tmp_path / "a.parquet", write_statistics=False)
    assert plan_columns(Source.open(tmp_path)).columns[0].fill is None


def test_files_agree_by_name(tmp_path: Path) -> None:
    save(tmp_path, {"a": [1], "s": pa.array(["x"]).dictionary_encode()}, "a.parquet")
    save(tmp_path, {"s": pa.array(["x"], pa.large_string()), "b": [1.0], "a": [2]}, "b.parquet")
    save(tmp_path, {"a": [1], "s": ["y"]}, "c.parquet")
    projection = plan_columns(Source.open(tmp_path), nulls="nan")
    leaves = {"a": (0, 2, 0), "s": (1, 0, 1), "b": (-1, 1, -1)}
    assert {c.name: c.leaves for c in projection.columns} == leaves


def test_files_with_a_column_of_their_own_take_time_in_proportion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = 40
    for number in range(files):
        columns = {"a": pa.array([number]), f"own{number}": pa.array([1.0])}
        pq.write_table(pa.table(columns), tmp_path / f"{number:02}.parquet")
    source = Source.open(tmp_path)
    calls: Counter[str] = Counter()
    for name in ("find", "find_null", "find_sibling", "other"):
        monkeypatch.setattr(FileSchema, name, _counted(getattr(FileSchema, name), calls))
    planned = plan_columns(source, nulls="zero")
    assert [column.name for column in planned.columns] == [
        "a",
        *(f"own{number}" for number in range(files)),
    ]
    assert planned.columns[0].leaves == (0,) * files
    for number, column in enumerate(planned.columns[1:]):
        assert column.leaves == tuple(1 if file == number else -1 for file in range(files))
    assert calls == {"find": 2 * files}
    arrow = FilterSchema.of(source).arrow
    assert arrow.names == [column.name for column in planned.columns]
    assert set(arrow.types) == {pa.int64(), pa.float64()}


def _counted(method: Any, calls: Counter[str]) -> Any:
    def call(*arguments: Any) -> Any:
        calls[method.__name__] += 1
        return method(*arguments)

    return call


def test_schemas_that_return_are_not_new(tmp_path: Path) -> None:
    for number in range(6):
        column = pa.array([number], [pa.int64(), pa.int32(), pa.float64()][number % 3])
        pq.write_table(pa.table({"a": column}), tmp_path / f"{number}.parquet")
    files = Source.open(tmp_path).files
    for each in (files, pickle.loads(pickle.dumps(files))):
        schemas, schema_of = group_files(each)
        assert [schema.path for schema in schemas] == [file.path for file in files[:3]]
        assert schema_of == [0, 1, 2, 0, 1, 2]


def test_one_name_for_two_columns(tmp_path: Path) -> None:
    array = pa.array([1])
    pq.write_table(pa.table([array, array], ["a", "a"]), tmp_path / "a.parquet")
    with pytest.raises(SchemaError, match=r"one column of this name, got 2 .* column `a`"):
        plan_columns(Source.open(tmp_path))
    source = save(tmp_path, {"p.x": [1], "p": [{"x": 2}]})
    with pytest.raises(SchemaError, match=r"one column of this name, got 2 .* column `p.x`"):
        plan_columns(source, ["p.x"])


def test_projection_can_be_pickled(tmp_path: Path) -> None:
    projection = plan(tmp_path, COLUMNS, nulls="nan")
    copy = pickle.loads(pickle.dumps(projection))
    assert copy == projection
    assert dict(copy.schema) == dict(projection.schema)
    assert "p.q.y  float64" in repr(copy.schema)


def test_chunk_outside_the_file(data_dir: Path) -> None:
    path = data_dir / "parquet-testing" / "bad_data" / "ARROW-RS-GH-6229-DICTHEADER.parquet"
    with pytest.raises(CorruptFileError, match="row group 0, column `"):
        plan_columns(Source.open(path))


def test_real_files(data_dir: Path) -> None:
    schema = plan_columns(Source.open(data_dir / "real" / "feast_training_ds.parquet")).schema
    assert len(schema) == 23
    source = Source.open(data_dir / "writers" / "lineitem.tpchgen.sf0.05.parquet")
    schema = plan_columns(source).schema
    assert schema["l_extendedprice"] == Field(torch.float64)
    assert schema["l_shipdate"] == Field(torch.int32, unit="day")
    assert schema["l_comment"].kind == "str"
    source = Source.open(data_dir / "real" / "nyc_green_2024-01.parquet")
    with pytest.raises(NullValueError, match=r"`RatecodeID`|store_and_fwd_flag"):
        plan_columns(source)


@pytest.mark.parametrize(
    "spec", [Column("s", fill="\ud800"), Hash("s", 5, fill="\ud800"), Codes("s", ["a", "\ud800"])]
)
def test_a_lone_surrogate_is_refused_by_its_column(tmp_path, spec):
    pq.write_table(pa.table({"s": ["a", None]}), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=r"str that UTF-8 can encode, got .* at column `s`"):
        plan_columns(Source.open(tmp_path), {"s": spec})
