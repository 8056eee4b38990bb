"""From columns of lists, structs and maps to what the core decodes."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from fastload.errors import ColumnNotFoundError, NullValueError, SchemaError
from fastload.schema.columns import Codes, Column, Hash, Pad, Stack
from fastload.schema.fields import Field
from fastload.schema.projection import Projection, plan_columns
from fastload.source.source import Source

ROWS = 4
NAN32 = struct.pack("=f", float("nan"))


def fixed(size: int, of: Any = None) -> Any:
    return pa.list_(of or pa.float32(), size)


def tensors(shape: list[int], permutation: list[int] | None = None) -> Any:
    kind = pa.fixed_shape_tensor(pa.float32(), shape, permutation=permutation)
    storage = pa.nulls(ROWS, kind.storage_type)
    return pa.ExtensionArray.from_storage(kind, storage)


COLUMNS = {
    "l": pa.array([[1, 2], [], [None], None], pa.list_(pa.int32())),
    "ll": pa.array([[[1.0], []], [], None, [None]]),
    "s": pa.array([["a"], [], [None], None]),
    "p": pa.array([{"x": 1, "q": [{"y": 2.0, "z": "u"}]}] * ROWS),
    "m": pa.array([[("k", [1, 2])]] * ROWS, pa.map_(pa.string(), pa.list_(pa.int64()))),
    "e": pa.array([[1.0, 2.0]] * ROWS, fixed(2)),
    "ee": pa.array([[[1.0, 2.0]] * 3] * ROWS, fixed(3, fixed(2))),
    "le": pa.array([[[1.0, 2.0]], [], [], []], pa.list_(fixed(2))),
    "el": pa.array([[[1.0], []]] * ROWS, fixed(2, pa.list_(pa.float32()))),
    "es": pa.array([["a", "b"]] * ROWS, fixed(2, pa.string())),
    "t": tensors([2, 3]),
    "tp": tensors([2, 3, 4], [2, 0, 1]),
    "lg": pa.array([[1]] * ROWS, pa.large_list(pa.int64())),
    "day": pa.array([[0]] * ROWS, pa.list_(pa.timestamp("us"))),
    "i": pa.array([1] * ROWS),
    "w": pa.array(["x"] * ROWS),
}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Source:
    path = tmp_path_factory.mktemp("nested") / "a.parquet"
    pq.write_table(pa.table(COLUMNS), path)
    return Source.open(path)


def ragged(dtype: torch.dtype, depth: int, **more: Any) -> Field:
    return Field(dtype, ragged=True, depth=depth, **more)


@pytest.mark.parametrize(
    ("name", "fields", "sizes"),
    [
        ("l", {"l": ragged(torch.int32, 1)}, (1, 0)),
        ("ll", {"ll": ragged(torch.float64, 2)}, (2, 0)),
        ("s", {"s": ragged(torch.uint8, 1, kind="str")}, (1, 0)),
        ("p.x", {"p.x": Field(torch.int64)}, (0, 0)),
        ("p.q.y", {"p.q.y": ragged(torch.float64, 1)}, (1, 0)),
        ("p.q.z", {"p.q.z": ragged(torch.uint8, 1, kind="str")}, (1, 0)),
        ("m.key", {"m.key": ragged(torch.uint8, 1, kind="str")}, (1, 0)),
        ("m.value", {"m.value": ragged(torch.int64, 2)}, (2, 0)),
        ("e", {"e": Field(torch.float32, (2,))}, (0, 2)),
        ("ee", {"ee": Field(torch.float32, (3, 2))}, (0, 6)),
        ("le", {"le": ragged(torch.float32, 1, shape=(2,))}, (1, 2)),
        ("el", {"el": ragged(torch.float32, 2)}, (2, 0)),
        ("es", {"es": ragged(torch.uint8, 1, kind="str")}, (1, 0)),
        ("t", {"t": Field(torch.float32, (2, 3))}, (0, 6)),
        ("tp", {"tp": Field(torch.float32, (4, 2, 3))}, (0, 24)),
        ("lg", {"lg": ragged(torch.int64, 1)}, (1, 0)),
        ("day", {"day": ragged(torch.int64, 1, unit="us")}, (1, 0)),
    ],
)
def test_types(source: Source, name: str, fields: dict[str, Field], sizes: tuple[int, int]) -> None:
    projection = plan_columns(source, [name])
    assert dict(projection.schema) == fields
    column = projection.columns[0]
    assert (column.name, column.depth, column.list_size) == (name, *sizes)
    assert not column.null_lists
    kind = projection.outputs[0].kind
    field = fields[name]
    assert kind == ("ragged" if field.ragged else "list" if field.shape else "column")


def test_all_leaves_by_dotted_name(source: Source) -> None:
    leaves = {"p": ["p.x", "p.q.y", "p.q.z"], "m": ["m.key", "m.value"]}
    names = [leaf for name in COLUMNS for leaf in leaves.get(name, [name])]
    assert list(plan_columns(source).schema) == names
    assert list(plan_columns(source, ["p"]).schema) == ["p.x", "p.q.y", "p.q.z"]
    assert list(plan_columns(source, {"out": "p.q"}).schema) == ["out.y", "out.z"]
    assert list(plan_columns(source, {"out": "m"}).schema) == ["out.key", "out.value"]
    with pytest.raises(ColumnNotFoundError, match=r"the nearest is `m\.value`"):
        plan_columns(source, ["m.values"])


def test_strides_of_a_permuted_tensor(source: Source) -> None:
    plain, permuted = plan_columns(source, ["t", "tp"]).outputs
    assert plain.strides == (3, 1)
    # Stored (2, 3, 4); dimension i of the tensor is dimension (2, 0, 1)[i] as stored.
    assert (permuted.field.shape, permuted.strides) == ((4, 2, 3), (1, 12, 4))


def test_a_writer_without_arrow_schema_has_lists_of_any_length(tmp_path: Path) -> None:
    table = pa.table({"e": COLUMNS["e"], "t": COLUMNS["t"].storage})
    pq.write_table(table, tmp_path / "a.parquet", store_schema=False)
    schema = plan_columns(Source.open(tmp_path)).schema
    assert schema["e"] == schema["t"] == ragged(torch.float32, 1)


@pytest.mark.parametrize(
    ("spec", "fill", "null_lists"),
    [
        (Column("l"), None, False),
        (Column("l", fill=7), struct.pack("=i", 7), True),
        (Column("l", valid=True), bytes(4), True),
        (Column("l", dtype=torch.float32), NAN32, False),
        (Column("e"), NAN32, False),
        (Column("e", fill=0), bytes(4), True),
        (Column("s", fill="é"), "é".encode(), True),
        (Column("s", valid=True), b"", True),
        (Column("i", fill=1), struct.pack("=q", 1), False),
        (Hash("s", 10), None, False),
        (Codes("s", ["a"], unknown=5), struct.pack("=q", 5), True),
        (Codes("w", ["a"]), struct.pack("=q", -1), False),
    ],
)
def test_nulls(source: Source, spec: Any, fill: bytes | None, null_lists: bool) -> None:
    projection = plan_columns(source, {"x": spec}, nulls="nan")
    assert projection.columns[0].fill == fill
    if fill == NAN32:
        assert plan_columns(source, {"x": spec}, check_nulls=False).columns[0].fill is None
    assert projection.columns[0].null_lists is null_lists
    valid = [output for output in projection.outputs if output.name == "x__valid"]
    assert [(v.kind, v.columns, v.field) for v in valid] == [
        ("valid", (0,), Field(torch.bool)) for _ in valid
    ]
    assert bool(valid) == (isinstance(spec, Column) and spec.valid)


def test_footers_do_not_refuse_lists(source: Source) -> None:
    """They count empty lists as nulls."""
    chunks = source.files[0].footer.leaf_chunks(0)
    assert sum(chunks.null_count) == 3
    assert sum(chunks.num_values) == 5
    plan_columns(source, ["l", "ll", "s", "t"])


def test_hash_and_codes(source: Source) -> None:
    projection = plan_columns(
        source,
        {
            "w": Hash("w", 100, seed=3),
            "i": Hash("i", 7),
            "s": Hash("s", 50),
            "es": Hash("es", 50),
            "c": Codes("w", ["é", "x"]),
            "b": Codes("i", [5, -6], unknown=9),
            "ls": Codes("s", ["a"]),
        },
    )
    assert [
        (c.dtype, c.bytes, c.depth, c.list_size, c.hash_buckets, c.hash_seed, c.vocabulary)
        for c in projection.columns
    ] == [
        ("int64", False, 0, 0, 100, 3, None),
        ("int64", False, 0, 0, 7, 0, None),
        ("int64", False, 1, 0, 50, 0, None),
        ("int64", False, 0, 2, 50, 0, None),
        ("int64", False, 0, 0, 0, 0, ("é".encode(), b"x")),
        ("int64", False, 0, 0, 0, 0, (5, -6)),
        ("int64", False, 1, 0, 0, 0, (b"a",)),
    ]
    assert projection.columns[5].unknown == 9
    assert dict(projection.schema) == {
        "w": Field(torch.int64),
        "i": Field(torch.int64),
        "s": ragged(torch.int64, 1),
        "es": Field(torch.int64, (2,)),
        "c": Field(torch.int64),
        "b": Field(torch.int64),
        "ls": ragged(torch.int64, 1),
    }


def test_pad(source: Source) -> None:
    projection = plan_columns(
        source,
        {
            "x": Pad("l", 5, value=-1),
            "f": Pad(Column("l", dtype=torch.float32, valid=True), 3),
            "h": Pad(Hash("s", 10), 4),
            "c": Pad(Codes("s", ["a"]), 4),
            "e": Pad("e", 6, dtype=torch.float64),
            "le": Pad("le", 2),
        },
    )
    outputs = {output.name: output for output in projection.outputs}
    assert {name: output.kind for name, output in outputs.items()} == {
        "x": "pad",
        "x__length": "length",
        "f": "pad",
        "f__length": "length",
        "f__valid": "valid",
        "h": "pad",
        "h__length": "length",
        "c": "pad",
        "c__length": "length",
        "e": "pad",
        "e__length": "length",
        "le": "pad",
        "le__length": "length",
    }
    assert outputs["x"].field == Field(torch.int32, (5,))
    assert (outputs["x"].length, outputs["x"].pad) == (5, struct.pack("=i", -1))
    assert outputs["x__length"].field == Field(torch.int64)
    assert outputs["x__length"].length == 5
    assert outputs["f"].field == Field(torch.float32, (3,))
    assert outputs["h"].field == Field(torch.int64, (4,))
    assert outputs["e"].field == Field(torch.float64, (6,))
    assert outputs["le"].field == Field(torch.float32, (2, 2))
    columns = {name: projection.columns[output.columns[0]] for name, output in outputs.items()}
    assert all(column.depth == 1 for column in columns.values())
    assert (columns["e"].list_size, columns["le"].list_size) == (0, 2)
    assert columns["f"].null_lists
    assert not columns["x"].null_lists


@pytest.mark.parametrize(
    ("spec", "error", "message"),
    [
        (Pad("i", 3), SchemaError, "one level of lists .* for Pad `x`, got int64 - at .* `i`"),
        (Pad("ll", 3), SchemaError, r"got list<list<double>>; .*ragged\.to_padded\(\)"),
        (Pad("el", 3), SchemaError, r"got fixed_size_list<list<float>>\[2\]; read the"),
        (Pad("s", 3), SchemaError, r"lists of numbers for Pad `x`, got list<string>; Pad\(Hash"),
        (Pad("w", 3), SchemaError, "lists of numbers for Pad `x`, got string"),
        (Pad("l", 3, value=0.5), ValueError, "value of Pad that fits int32, got 0.5 - at col"),
        (Stack(["e"]), SchemaError, r"numeric columns in Stack `x`, got fixed_size_list<float>"),
        (
            Hash("ll", 3),
            SchemaError,
            "strings, binary, integers or decimals of scale 0 to hash, got list<list<double>>",
        ),
        (Hash("e", 3), SchemaError, "to hash, got fixed"),
        (Hash("ll", 3), SchemaError, r"\(pandas stores integers with nulls .* Int64\) - at column"),
        (Hash("day", 3), SchemaError, r"to hash, got list<timestamp\[us\]>"),
        (Hash("w", 3, fill=1), TypeError, "Expected str as fill, got 1 - at column `w`"),
        (Hash("i", 3, fill="x"), TypeError, "Expected int as fill, got 'x' - at column `i`"),
        (Hash("i", 3, fill=2**64), ValueError, "a fill of 64 bits, got 18446744073709551616"),
        (Codes("w", [1]), SchemaError, "a vocabulary of str for .* string, got one of int"),
        (Codes("i", ["a"]), SchemaError, "a vocabulary of int for .* int64, got one of str"),
        (Codes("w", [b"a"]), SchemaError, "a vocabulary of str for .* string, got one of bytes"),
        (Column("s", dtype=torch.int64), SchemaError, r"no dtype .* list<string>, .* \(Hash and"),
        (Column("l", fill="x"), TypeError, "a number as fill, got 'x' - at column `l`"),
    ],
)
def test_specs_that_do_not_fit(
    source: Source, spec: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        plan_columns(source, {"x": spec})


def test_nulls_in_footers_of_hashes(tmp_path: Path) -> None:
    pq.write_table(pa.table({"w": ["x", None]}), tmp_path / "a.parquet")
    source = Source.open(tmp_path)
    with pytest.raises(
        NullValueError, match=r"write Hash\('w', \.\.\., fill=\.\.\.\); .* - at .* `w`"
    ):
        plan_columns(source, {"w": Hash("w", 5)})
    plan_columns(source, {"w": Codes("w", ["x"])})


def sizes(tmp_path: Path, array: Any, spec: Any = None) -> Projection:
    pq.write_table(pa.table({"x": array}), tmp_path / "a.parquet")
    return plan_columns(Source.open(tmp_path), {"x": spec or "x"})


def test_bytes_of_a_row(tmp_path: Path) -> None:
    """Values as footers count them, shared out evenly, and offsets."""
    lists = pa.array([[1, 2, 3], [], [4]], pa.list_(pa.int32()))
    assert sizes(tmp_path, lists).row_bytes == 8 + 7
    assert sizes(tmp_path, lists).staged_row_bytes == 8 + 7
    nested = pa.array([[[1], [2, 3]], [[4]]], pa.list_(pa.list_(pa.int8())))
    assert sizes(tmp_path, nested).row_bytes == 8 + (4 + 4 * 8) // 2
    words = sizes(tmp_path, pa.array([["aa"], ["b", "ccc"]]))
    assert words.staged_row_bytes - words.row_bytes == 3 * 16 // 2
    padded = sizes(tmp_path, lists, Pad("x", 10))
    assert (padded.row_bytes, padded.staged_row_bytes) == (40 + 8, 8 + 7)
    dense = sizes(tmp_path, pa.array([[1.0] * 100] * 3, fixed(100)))
    assert (dense.row_bytes, dense.staged_row_bytes) == (400, 0)


def test_maps_and_lists_of_any_writer(data_dir: Path) -> None:
    """Writers call the groups of lists and maps as they like."""

    def depths(name: str) -> dict[str, int]:
        source = Source.open(data_dir / "parquet-testing" / "data" / name)
        schema = plan_columns(source, check_nulls=False).schema
        return {name: field.depth for name, field in schema.items()}

    assert depths("nonnullable.impala.parquet") == {
        "ID": 0,
        "Int_Array": 1,
        "int_array_array": 2,
        "Int_Map.key": 1,
        "Int_Map.value": 1,
        "int_map_array.key": 2,
        "int_map_array.value": 2,
        "nested_Struct.a": 0,
        "nested_Struct.B": 1,
        "nested_Struct.c.D.e": 2,
        "nested_Struct.c.D.f": 2,
        "nested_Struct.G.key": 1,
        "nested_Struct.G.value.h.i": 2,
    }
    assert depths("repeated_no_annotation.parquet") == {
        "id": 0,
        "phoneNumbers.phone.number": 1,
        "phoneNumbers.phone.kind": 1,
    }


def test_images_as_hugging_face_writes_them(tmp_path: Path) -> None:
    kind = pa.struct({"bytes": pa.binary(), "path": pa.string()})
    pq.write_table(
        pa.table({"image": pa.array([{"bytes": b"\x89PNG", "path": "a.png"}], kind)}),
        tmp_path / "a.parquet",
    )
    schema = plan_columns(Source.open(tmp_path), ["image"]).schema
    assert {name: field.kind for name, field in schema.items()} == {
        "image.bytes": "bytes",
        "image.path": "str",
    }
