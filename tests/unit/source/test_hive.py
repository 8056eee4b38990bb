"""Keys in the names of directories, as columns."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
import torch

from fastload import FastParquetDataset
from fastload.errors import NullValueError, SchemaError
from fastload.schema.columns import Column, Stack
from fastload.schema.fields import Field
from fastload.schema.projection import plan_columns
from fastload.source.hive import keys_of
from fastload.source.source import Source

NULL = "__HIVE_DEFAULT_PARTITION__"


def write(root: Path, *folders: str, **columns: object) -> None:
    for number, folder in enumerate(folders):
        path = root / folder / f"{number}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(columns or {"x": [1, 2]}), path)


def test_keys_of_folders() -> None:
    folders = ["a=1", "plain", "b=x=y", "a=2", "c%20d=%2Fe+f", f"n={NULL}", "e="]
    assert keys_of(folders, "file") == (
        ("a", "1"),
        ("b", "x=y"),
        ("c d", "/e+f"),
        ("n", None),
        ("e", ""),
    )
    with pytest.raises(SchemaError, match=r"in UTF-8, got 'k=%ff' - at here"):
        keys_of(["k=%ff"], "here")


@pytest.mark.parametrize(
    "folders",
    [
        ["k=1", "k=-20"],
        ["k=007", "k=-0"],
        ["k=2147483647", "k=-2147483648"],
        ["k=1", "k=2147483648"],
        ["k=99999999999999999999"],
        ["k=1", "k=a"],
        ["k=1.5"],
        ["k=+5"],
        ["k= 1"],
        ["k=1_0"],
        ["k=0x10"],
        ["k=", "k=3"],
        ["k=true"],
        ["k=2024-01-02"],
        ["k=1", f"k={NULL}"],
        ["k=a%20b", "k=%2Fx", "k=a+b", "k=a=b"],
        ["a=1/b=x", "a=2/b=y"],
        ["a=1/b=x", "a=2"],
        ["z=1/a=2", "a=3"],
        ["k=1/k=2"],
        ["plain", "other/k=4"],
    ],
)
def test_keys_are_typed_as_pyarrow_infers(tmp_path: Path, folders: list[str]) -> None:
    write(tmp_path, *folders)
    source = Source.open(tmp_path)
    table = ds.dataset(tmp_path, partitioning="hive").to_table()
    schema = plan_columns(source, check_nulls=False).schema
    assert set(schema) == set(table.column_names)
    assert next(iter(schema)) == "x"
    for name in table.column_names[1:]:
        column = table[name]
        kind = "str" if column.type == pa.string() else None
        text = Field(torch.uint8, ragged=True, kind="str")
        assert schema[name] == (text if kind else Field(torch.int32))
        (plan,) = plan_columns(source, {name: Column(name, valid=True)}).columns
        assert set(plan.leaves) == {-1}
        by_file = column.to_pylist()[::2]
        assert len(by_file) == len(plan.constants)
        for value, constant in zip(by_file, plan.constants, strict=True):
            if value is None:
                assert constant is None
            elif kind:
                assert constant == value.encode()
            else:
                assert constant == value.to_bytes(4, "little", signed=True)


def test_only_below_what_was_given(tmp_path: Path) -> None:
    write(tmp_path, "a=1/b=2/c=3")
    file = next(tmp_path.rglob("*.parquet"))

    def names(source: object) -> list[str]:
        opened = Source.open(source)  # type: ignore[arg-type]
        return list(plan_columns(opened, check_nulls=False).schema)

    assert names(tmp_path) == ["x", "a", "b", "c"]
    assert names(f"{tmp_path}/") == ["x", "a", "b", "c"]
    assert names(tmp_path.as_uri()) == ["x", "a", "b", "c"]
    assert names(tmp_path / "a=1") == ["x", "b", "c"]
    assert names(file) == ["x"]
    assert names([file]) == ["x"]
    assert names([tmp_path / "a=1", tmp_path]) == ["x", "b", "c", "a"]
    assert names(f"{tmp_path}/*/b=2") == ["x", "a", "b", "c"]
    assert names(f"{tmp_path}/a=*/**") == ["x", "a", "b", "c"]
    assert names(f"{tmp_path}/a=1/**/*.parquet") == ["x", "b", "c"]
    assert names(f"{tmp_path}/a=1/b=2/c=3/*.parquet") == ["x"]


def test_a_key_counts_for_more_than_the_column(tmp_path: Path) -> None:
    write(tmp_path, "k=1", "k=2", k=pa.array([7, 8], pa.int32()), x=[1, 2])
    table = ds.dataset(tmp_path, partitioning="hive").to_table()
    assert table["k"].to_pylist() == [1, 1, 2, 2]
    (plan, _) = plan_columns(Source.open(tmp_path)).columns
    assert (plan.name, plan.leaves) == ("k", (-1, -1))
    assert plan.constants == (b"\1\0\0\0", b"\2\0\0\0")


def test_a_key_has_the_type_of_the_column(tmp_path: Path) -> None:
    write(tmp_path, "k=1", k=[7, 8])
    write(tmp_path, "other", k=[9])
    (plan,) = plan_columns(Source.open(tmp_path)).columns
    assert (plan.dtype, plan.leaves, plan.constants) == ("int64", (-1, 0), (b"\1" + bytes(7), None))
    write(tmp_path / "days", "d=1970-01-03", d=pa.array([1], pa.date32()))
    source = Source.open(tmp_path / "days")
    assert plan_columns(source).schema["d"] == Field(torch.int32, unit="day")
    assert plan_columns(source).columns[0].constants == (b"\2\0\0\0",)
    write(tmp_path / "bad", "k=1", "k=two", k=[7])
    with pytest.raises(SchemaError, match=r"`k=\.\.\.` of type int64, .* got 'two' - at .*k=two"):
        plan_columns(Source.open(tmp_path / "bad"))
    write(tmp_path / "struct", "k=1", k=[{"x": 7}])
    with pytest.raises(SchemaError, match=r"`k`"):
        plan_columns(Source.open(tmp_path / "struct"), ["k"])


def test_nulls_of_keys(tmp_path: Path) -> None:
    write(tmp_path, "k=1", f"k={NULL}")
    source = Source.open(tmp_path)
    with pytest.raises(NullValueError, match=rf"k={NULL}/1\.parquet, which has no value .* `k`"):
        plan_columns(source, ["k"])
    write(tmp_path / "all", f"k={NULL}")
    with pytest.raises(NullValueError, match=r"got 2 .* which has no value .* `k`"):
        plan_columns(Source.open(tmp_path / "all"), ["k"])
    only_nulls = plan_columns(Source.open(tmp_path / "all"), ["k"], nulls="nan")
    assert only_nulls.schema["k"] == Field(torch.float32)


def test_specs_of_keys(tmp_path: Path) -> None:
    write(tmp_path, "k=1/s=a", "k=300/s=b")
    source = Source.open(tmp_path)
    asked = {"f": Column("k", dtype=torch.float32), "b": Column("k", dtype=torch.bool)}
    floats, flags = plan_columns(source, asked).columns
    assert floats.constants == (b"\0\0\x80\x3f", b"\0\0\x96\x43")
    assert flags.constants == (b"\1", b"\1")
    assert plan_columns(source, {"x": Stack(["k", "x"])}).schema["x"].dtype == torch.float32
    with pytest.raises(ValueError, match=r"names of directories that fits int8, got 300 .* `k`"):
        plan_columns(source, {"k": Column("k", dtype=torch.int8)})
    # A row of x, then of a str of one byte and its offset.
    assert plan_columns(source, ["x", "s"]).row_bytes == 8 + 8 + 1


def test_text_of_keys_is_parsed_to_the_dtype_asked_for(tmp_path: Path) -> None:
    write(tmp_path, "ts=1700000000000/v=0.5/b=true", "ts=5/v=1e3/b=false")
    source = Source.open(tmp_path)
    asked = {
        "ts": torch.int64,
        "v": torch.float32,
        "half": Column("v", dtype=torch.bfloat16),
        "b": torch.bool,
        "both": Stack(["ts", "v"], dtype=torch.float64),
    }
    dataset = FastParquetDataset(tmp_path, columns=asked, batch_size=4)
    (batch,) = dataset
    assert batch["ts"].tolist() == [1700000000000] * 2 + [5] * 2
    assert batch["v"].tolist() == batch["half"].tolist() == [0.5, 0.5, 1000, 1000]
    assert batch["b"].tolist() == [True, True, False, False]
    assert batch["both"].tolist() == [[1700000000000, 0.5]] * 2 + [[5, 1000]] * 2
    assert [batch[name].dtype for name in ("ts", "half")] == [torch.int64, torch.bfloat16]
    assert plan_columns(source, ["ts"]).schema["ts"].kind == "str"
    with pytest.raises(
        SchemaError, match=r"`v=\.\.\.` of type int64, .*, got '0\.5' - at .*v=0\.5"
    ):
        plan_columns(source, {"v": torch.int64})
    write(tmp_path, f"ts={NULL}/v=0.5/b=true")
    asked = {"ts": Column("ts", dtype=torch.int64, fill=-1)}
    (batch,) = FastParquetDataset(tmp_path, columns=asked, batch_size=6)
    assert sorted(batch["ts"].tolist()) == [-1, -1, 5, 5, 1700000000000, 1700000000000]


def test_fingerprint_includes_keys(tmp_path: Path) -> None:
    write(tmp_path / "one", "k=1")
    write(tmp_path / "two", "k=2")
    assert Source.open(tmp_path / "one").fingerprint != Source.open(tmp_path / "two").fingerprint
