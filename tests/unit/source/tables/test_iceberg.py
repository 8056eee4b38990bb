"""Iceberg tables as sources: the rows of a snapshot, as pyiceberg reads them."""

from __future__ import annotations

import datetime as dt
import decimal
import pickle
import struct
import sys
import uuid
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import fastload
from fastload import (
    Column,
    CorruptFileError,
    FastParquetDataset,
    Iceberg,
    Pack,
    SourceChangedError,
    SourceNotFoundError,
    StorageError,
)
from support.lakehouse import (
    commit_deletes,
    equality_deletes,
    iceberg_catalog,
    iceberg_data_files,
    in_order,
    loaded,
    needs,
    position_deletes,
    rows_of,
)
from support.same_rows import assert_same_rows

needs("pyiceberg")
needs("sqlalchemy")

NOW = dt.datetime(2024, 2, 29, 1, 2, 3, 456789)  # noqa: DTZ001 - a local time too
VALUES = {
    "bool": (pa.bool_(), [True, False]),
    "int": (pa.int32(), [-1, 7]),
    "long": (pa.int64(), [-(2**60), 5]),
    "float": (pa.float32(), [0.5, 1.25]),
    "double": (pa.float64(), [0.25, float("inf")]),
    "decimal": (pa.decimal128(20, 3), [decimal.Decimal("-1.250"), decimal.Decimal("12.001")]),
    "string": (pa.string(), ["a b/c=ä%", "x"]),
    "binary": (pa.binary(), [b"\0\xff", b"x"]),
    "date": (pa.date32(), [NOW.date(), dt.date(1969, 1, 1)]),
    "time": (pa.time64("us"), [NOW.time(), dt.time(0)]),
    "timestamptz": (pa.timestamp("us", "UTC"), [NOW, NOW.replace(year=1952)]),
    "timestamp": (pa.timestamp("us"), [NOW, NOW.replace(year=1952)]),
}


@pytest.fixture
def catalog(tmp_path):
    return iceberg_catalog(tmp_path / "warehouse")


def make(catalog, *tables, partition=None):
    """Make a table, whose columns are those of the first Arrow table, and append all."""
    table = catalog.create_table("db.t", tables[0].schema, properties={"format-version": "2"})
    if partition is not None:
        with table.update_spec() as update:
            update.add_identity(partition)
    for each in tables:
        table.append(each)
    return table


def expected(table, snapshot_id=None):
    return rows_of(table.scan(snapshot_id=snapshot_id).to_arrow())


def rewritten_without(table, *names):
    """Take columns out of the data files, as files that came from Hive lack their partitions."""
    for entry in iceberg_data_files(table):
        path = Path(entry.data_file.file_path.removeprefix("file://"))
        pq.write_table(pq.read_table(path).drop_columns(list(names)), path)


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("hive", [False, True])
def test_partition_values_of_every_type(catalog, kind, hive):
    arrow, values = VALUES[kind]
    values = [*values, None]
    rows = pa.table({"p": pa.array(values, arrow), "x": np.arange(3)})
    table = make(catalog, rows, partition="p")
    if hive:
        rewritten_without(table, "p")
    source = Iceberg("db.t", catalog=catalog)
    assert loaded(source) == expected(table) == rows_of(rows)
    for value, row in zip(values, range(3), strict=True):
        same = pc.field("p") == pa.scalar(value, arrow)
        chosen = pc.field("p").is_null() if value is None else same
        assert in_order(source, columns=["x"], filters=chosen) == [(row,)]


def test_the_rows_of_each_snapshot(catalog):
    table = make(catalog, pa.table({"x": [1, 2, 3]}), pa.table({"x": [4, 5]}))
    table.delete("x = 2")
    for snapshot in table.snapshots():
        number = snapshot.snapshot_id
        assert loaded(Iceberg("db.t", number, catalog)) == expected(table, number)
    assert loaded(Iceberg("db.t", catalog=catalog)) == {(1,): 1, (3,): 1, (4,): 1, (5,): 1}
    path = table.metadata_location
    assert loaded(Iceberg(path)) == expected(table)


def test_a_table_of_pyiceberg_is_a_source(catalog):
    table = make(catalog, pa.table({"x": [1, 2, 3]}))
    first = table.current_snapshot().snapshot_id
    table.append(pa.table({"x": [4]}))
    source = Iceberg(table)
    assert source.table == table.metadata_location
    assert "catalog" not in repr(source)
    assert loaded(source) == loaded(pickle.loads(pickle.dumps(source))) == expected(table)
    assert loaded(Iceberg(table, first)) == expected(table, first)
    before = Iceberg(catalog.load_table("db.t"))
    table.append(pa.table({"x": [5]}))
    assert loaded(before) == {(1,): 1, (2,): 1, (3,): 1, (4,): 1}
    with pytest.raises(ValueError, match="no catalog beside a Table of pyiceberg, got"):
        Iceberg(table, catalog=catalog)
    with pytest.raises(TypeError, match="or a Table of pyiceberg, got"):
        Iceberg(catalog)


def evolved(catalog):
    """A table whose columns were renamed, added, dropped, moved and widened."""
    from pyiceberg.types import DoubleType, IntegerType, LongType, NestedField, StructType

    inner = pa.struct([("u", pa.int32()), ("v", pa.string())])
    rows = pa.table({
        "a": pa.array([1, 2], pa.int32()),
        "b": pa.array([0.5, 1.5], pa.float32()),
        "s": pa.array([{"u": 1, "v": "x"}, {"u": 2, "v": "y"}], inner),
        "dropped": ["p", "q"],
    })  # fmt: skip
    table = make(catalog, rows)
    with table.update_schema(allow_incompatible_changes=True) as update:
        update.rename_column("a", "b2")
        update.update_column("a", LongType())
        update.update_column("b", DoubleType())
        update.rename_column("s.u", "w")
        update.update_column("s.u", LongType())
        update.delete_column("s.v")
        update.add_column(("s", "v"), IntegerType())
        update.delete_column("dropped")
        update.add_column("new", StructType(NestedField(90, "n", LongType(), required=False)))
    with table.update_schema() as update:
        update.rename_column("b", "a")
        update.add_column("dropped", LongType())
    with table.update_schema() as update:
        update.move_first("a")
    more = table.schema().as_arrow()
    columns = {"a": [2.5], "b2": [3], "s": [{"w": 7, "v": 8}], "dropped": [9], "new": [{"n": 1}]}
    table.append(pa.Table.from_pydict(columns, schema=more))
    return table


def test_columns_by_field_id(catalog):
    table = evolved(catalog)
    source = Iceberg("db.t", catalog=catalog)
    assert loaded(source) == expected(table)
    first = table.snapshots()[0].snapshot_id
    assert loaded(Iceberg("db.t", first, catalog)) == expected(table, first)
    whole = table.scan().to_arrow()
    for filters in (
        pc.field("b2") > 1,
        pc.field("a") + pc.field("b2") > 2,
        pc.field("s", "w") == 2,
        pc.field("s", "v") == 8,
        pc.field("dropped").is_null() & (pc.field("s", "w") * 2 > 1),
    ):
        assert loaded(source, filters=filters) == rows_of(whole.filter(filters))


def test_fields_of_structs_in_lists_and_maps_that_come_and_go(catalog):
    """An old file has as many nulls as structs, also if no field of the structs is left in it."""
    from pyiceberg.types import IntegerType, StringType

    kind = pa.struct([("a", pa.int64())])
    lists = [[{"a": 1}, None, {"a": None}], [], None]
    maps = [None if each is None else [("k", value) for value in each] for each in lists]
    rows = pa.table(
        {
            "l": pa.array(lists, pa.list_(kind)),
            "m": pa.array(maps, pa.map_(pa.string(), kind)),
        }
    )
    table = make(catalog, rows)
    with table.update_schema(allow_incompatible_changes=True) as update:
        update.add_column(("l", "element", "b"), IntegerType())
        update.add_column(("m", "value", "b"), StringType())
    table.append(table.scan().to_arrow())

    def check():
        rows = catalog.load_table("db.t").scan().to_arrow()
        columns = {"l.b": Column("l.b", fill=-1), "m.value.b": Column("m.value.b", fill="-")}
        assert rows["l"].to_pylist()[0][0]["b"] is None
        source = Iceberg("db.t", catalog=catalog)
        assert_same_rows(FastParquetDataset(source, columns=columns), rows, columns)

    check()
    with table.update_schema(allow_incompatible_changes=True) as update:
        update.delete_column(("l", "element", "a"))
        update.delete_column(("m", "value", "a"))
    check()


def test_names_that_columns_take_over(catalog):
    table = make(catalog, pa.table({
        "x": range(100),
        "y": [0] * 99 + [1],
        "t": [[1] * (i % 5) for i in range(100)],
        "u": [[2] * (i % 7) for i in range(100)],
    }))  # fmt: skip

    def check():
        rows = catalog.load_table("db.t").scan().to_arrow()
        source = Iceberg("db.t", catalog=catalog)
        for filters in (pc.field("x") > 50, pc.field("x") * 2 > 100):
            assert loaded(source, filters=filters) == rows_of(rows.filter(filters))
        packed = FastParquetDataset(source, columns=["t"], pack=Pack("t", 8, fit="split"))
        tokens = sum(map(len, rows["t"].to_pylist()))
        assert sum(batch.rows for batch in packed) == -(-tokens // 8)
        weighted = FastParquetDataset(source, columns=["x"], weights="x")
        assert all(batch["x"].all() for batch in weighted)
        return FastParquetDataset(source, split=("x", 0, 0.5)).num_rows

    assert check() == 49
    for names in ({"x": "x2", "t": "t2"}, {"y": "x", "u": "t"}, {"x2": "y", "t2": "u"}):
        with table.update_schema() as update:
            for old, new in names.items():
                update.rename_column(old, new)
    with table.update_schema() as update:
        update.move_first("x")
        update.move_after("u", "t")
    assert check() >= 99  # 99 rows have the same hash


def test_files_without_ids_by_a_name_mapping(catalog, tmp_path):
    table = make(catalog, pa.table({"x": [1, 2], "l": [[1], [2, 3]]}))
    path = tmp_path / "warehouse" / "db" / "t" / "plain.parquet"
    pq.write_table(pa.table({"l": [[7], []], "x": [3, 4]}), path)
    table.add_files([str(path)])
    with table.update_schema() as update:
        update.rename_column("x", "y")
        update.rename_column("l", "m")
    source = Iceberg("db.t", catalog=catalog)
    assert loaded(source) == expected(table)
    assert loaded(source, filters=pc.field("y") * 1 > 1) == rows_of(
        table.scan().to_arrow().filter(pc.field("y") > 1)
    )


@pytest.mark.parametrize("zone", ["UTC", None])
def test_int96_timestamps_have_the_type_of_the_table(catalog, zone):
    times = [NOW, NOW.replace(9999, 12, 31), NOW.replace(1000, 1, 1), None]
    rows = pa.table({"t": pa.array(times, pa.timestamp("us", zone)), "x": range(4)})
    table = make(catalog, rows)
    (entry,) = iceberg_data_files(table)
    path = entry.data_file.file_path.removeprefix("file://")
    pq.write_table(pq.read_table(path), path, use_deprecated_int96_timestamps=True)
    assert pq.ParquetFile(path).schema.column(0).physical_type == "INT96"
    table.append(rows)
    source = Iceberg("db.t", catalog=catalog)
    assert FastParquetDataset(source, nulls="zero").schema["t"].unit == "us"
    both = pa.concat_tables([rows, rows])
    assert loaded(source) == rows_of(both)
    late = pc.field("t") > pa.scalar(NOW, rows.schema.field("t").type)
    assert loaded(source, filters=late) == rows_of(both.filter(late))
    commit_deletes(table, equality_deletes(table, rows.select(["t"]).slice(1, 1)))
    assert sorted(x for x, *_ in in_order(source, columns=["x"])) == [0, 0, 2, 2, 3, 3]


def test_partitions_that_evolve(catalog):
    rows = pa.table({"d": pa.array([NOW.date()] * 3), "k": ["a", "b", "a"], "x": [1, 2, 3]})
    table = make(catalog, rows, partition="k")
    with table.update_spec() as update:
        update.remove_field("k")
        update.add_identity("d")
    table.append(rows)
    source = Iceberg("db.t", catalog=catalog)
    assert loaded(source) == expected(table)
    files = [len(FastParquetDataset(source, filters=f).files) for f in ([("k", "==", "b")], None)]
    assert files == [2, 3]


def test_a_state_belongs_to_one_snapshot(catalog):
    table = make(catalog, pa.table({"x": range(10)}), pa.table({"x": range(10)}))
    first, last = (each.snapshot_id for each in table.snapshots())
    dataset = FastParquetDataset(Iceberg("db.t", first, catalog), batch_size=2)
    next(iter(dataset))
    newer = FastParquetDataset(Iceberg("db.t", catalog=catalog), batch_size=2)
    expected = f"Expected snapshot {first}, as when the state was saved, got snapshot {last} "
    with pytest.raises(SourceChangedError, match=expected + ".* - at db.t"):
        newer.load_state_dict(dataset.state_dict())


def test_files_are_pruned_by_the_manifests(catalog):
    tables = [pa.table({"x": range(n * 10, n * 10 + 10), "s": [f"{n}"] * 10}) for n in range(4)]
    make(catalog, *tables, pa.table({"x": [*range(40, 49), None], "s": ["4"] * 10}))
    source = Iceberg("db.t", catalog=catalog)
    for filters, files in (
        ([("x", "in", [3, 41])], 2),
        ([("s", "==", "2")], 1),
        ([("x", ">", 99)], 1),
        (pc.field("x").is_null(), 1),
        (None, 5),
    ):
        assert len(FastParquetDataset(source, nulls="zero", filters=filters).files) == files
    assert in_order(source, columns=["s"], filters=pc.field("x").is_null()) == [("4",)]


# Deleted rows ---------------------------------------------------------------------------------


def test_position_deletes(catalog):
    rows = [pa.table({"x": range(n * 20, n * 20 + 20)}) for n in range(3)]
    table = make(catalog, *rows)
    paths = [entry.data_file.file_path for entry in iceberg_data_files(table)]
    commit_deletes(table, position_deletes(table, [(paths[0], 0), (paths[0], 5), (paths[2], 19)]))
    commit_deletes(table, position_deletes(table, [(paths[1], at) for at in range(20)]))
    source = Iceberg("db.t", catalog=catalog)
    assert loaded(source) == expected(table)
    assert FastParquetDataset(source).num_rows == 37
    assert [x for (x,) in in_order(source, filters=[("x", "<", 22)])] == [*range(19)]
    assert [x for (x,) in in_order(source, filters=[("x", ">", 40), ("x", "<", 48)])] == [
        41, 42, 43, 44, 46, 47
    ]  # fmt: skip
    table.append(rows[0])
    assert loaded(source) == expected(table)


def test_position_deletes_of_partitions(catalog):
    rows = pa.table({"k": ["a", "b"] * 10, "x": range(20)})
    table = make(catalog, rows, partition="k")
    deletes = []
    for entry in iceberg_data_files(table):
        file = entry.data_file
        deletes.append(position_deletes(table, [(file.file_path, 3)], partition=file.partition))
    commit_deletes(table, *deletes)
    source = Iceberg("db.t", catalog=catalog)
    assert loaded(source) == expected(table) == rows_of(rows.filter(~pc.field("x").isin([6, 7])))


@pytest.fixture
def reads(monkeypatch):
    """The paths of the delete files that are read."""
    from fastload.rows.deleted_rows import DeletedRows

    read, found = DeletedRows._read, []
    monkeypatch.setattr(
        DeletedRows,
        "_read",
        lambda self, delete, parse: found.append(delete.path) or read(self, delete, parse),
    )
    return found


def test_delete_files_are_read_once(catalog, reads):
    table = make(catalog, *(pa.table({"x": range(20), "y": [n] * 20}) for n in range(3)))
    paths = [entry.data_file.file_path for entry in iceberg_data_files(table)]
    files = [
        position_deletes(table, [(path, 4) for path in paths]),
        equality_deletes(table, pa.table({"x": [7]})),
    ]
    commit_deletes(table, *files)
    source = Iceberg("db.t", catalog=catalog)
    for _ in range(2):
        assert FastParquetDataset(source).num_rows == 3 * 18
    assert sorted(reads) == sorted(file.file_path.removeprefix("file://") for file in files)


def remaining(rows, *deletes):
    """Return the rows of dicts that no dict of `deletes` equals in all of its columns."""
    return [r for r in rows if not any(all(r[k] == v for k, v in d.items()) for d in deletes)]


def test_equality_deletes(catalog):
    values = [
        {"x": x, "s": s, "t": t}
        for x, s, t in zip(
            [1, 2, 3, 4, None, None], ["a", "b", None, "b", "a", None], [NOW] * 6, strict=True
        )
    ]
    arrow = pa.schema([("x", pa.int64()), ("s", pa.string()), ("t", pa.timestamp("us"))])
    rows = pa.Table.from_pylist(values, arrow)
    table = make(catalog, rows)
    source = Iceberg("db.t", catalog=catalog)
    commit_deletes(table, equality_deletes(table, pa.table({"x": [1, 9]})))
    left = remaining(values, {"x": 1})
    assert loaded(source) == rows_of(pa.Table.from_pylist(left, arrow))
    both = pa.table({"s": ["b", None, "a"], "x": pa.array([2, 3, None])})
    commit_deletes(table, equality_deletes(table, both))
    left = remaining(left, {"x": 2, "s": "b"}, {"x": 3, "s": None}, {"x": None, "s": "a"})
    assert [row["x"] for row in left] == [4, None]
    assert loaded(source) == rows_of(pa.Table.from_pylist(left, arrow))
    table.append(rows)  # later rows stay
    assert loaded(source) == rows_of(pa.Table.from_pylist(left + values, arrow))
    kept = [row for row in left + values if row["s"] == "b"]
    found = loaded(source, filters=[("s", "==", "b")])
    assert found == rows_of(pa.Table.from_pylist(kept, arrow))
    commit_deletes(table, equality_deletes(table, pa.table({"x": pa.array([None], pa.int64())})))
    assert sorted(x for x, *_ in in_order(source, columns=["x"])) == [1, 2, 3, 4, 4]


def test_equality_deletes_leave_rows_of_the_same_commit(catalog):
    rows = pa.table({"x": [1, 2]})
    table = make(catalog, rows, rows)
    first, _ = (each.snapshot_id for each in table.snapshots())
    newer = iceberg_data_files(table)[0].data_file
    table.manage_snapshots().rollback_to_snapshot(first).commit()
    commit_deletes(table, equality_deletes(table, pa.table({"x": [1]})), data=[newer])
    assert loaded(Iceberg("db.t", catalog=catalog)) == {(1,): 1, (2,): 2}


def test_position_deletes_hold_for_rows_of_the_same_commit(catalog):
    rows = pa.table({"x": [1, 2]})
    table = make(catalog, rows, rows)
    first, _ = (each.snapshot_id for each in table.snapshots())
    newer = iceberg_data_files(table)[0].data_file
    table.manage_snapshots().rollback_to_snapshot(first).commit()
    commit_deletes(table, position_deletes(table, [(newer.file_path, 0)]), data=[newer])
    source = Iceberg("db.t", catalog=catalog)
    assert loaded(source) == expected(table) == {(1,): 1, (2,): 2}


def test_equality_deletes_of_one_partition_and_of_all(catalog):
    rows = pa.table({"k": ["a", "b"] * 5, "x": range(10), "y": [0, 1] * 5})
    table = make(catalog, rows)
    with table.update_spec() as update:
        update.add_identity("k")
    table.append(rows)
    entries = iceberg_data_files(table)
    part = next(
        e.data_file.partition
        for e in entries
        if e.data_file.partition and e.data_file.partition[0] == "a"
    )
    one = equality_deletes(table, pa.table({"x": [2, 3]}), partition=part)
    whole = equality_deletes(table, pa.table({"x": [8]}), spec_id=0)
    commit_deletes(table, one, whole)
    left = [x for x in range(10) if x != 8] + [x for x in range(10) if x not in (2, 8)]
    found = in_order(Iceberg("db.t", catalog=catalog), columns=["x"])
    assert sorted(x for (x,) in found) == sorted(left)


def test_equality_deletes_after_columns_were_renamed(catalog):
    table = evolved(catalog)
    commit_deletes(table, equality_deletes(table, pa.table({"b2": [2], "a": [1.5]})))
    source = Iceberg("db.t", catalog=catalog)
    assert sorted(x for (x,) in in_order(source, columns=["b2"])) == [1, 3]
    none = pa.table({"dropped": pa.array([None], pa.int64())})  # the older file lacks the column
    commit_deletes(table, equality_deletes(table, none))
    assert sorted(x for (x,) in in_order(source, columns=["b2"])) == [3]


def test_a_delete_file_that_is_missing_or_damaged(catalog):
    table = make(catalog, pa.table({"x": range(20)}))
    path = iceberg_data_files(table)[0].data_file.file_path
    delete = position_deletes(table, [(path, 20)])
    commit_deletes(table, delete)
    source = Iceberg("db.t", catalog=catalog)
    with pytest.raises(CorruptFileError, match="among 20 rows, got a deleted row 20 - at /"):
        FastParquetDataset(source)
    local = Path(delete.file_path.removeprefix("file://"))
    for position, named in ((-1, "-1"), (None, "a null")):
        types = {"file_path": pa.string(), "pos": pa.int64()}
        listed = pa.table({"file_path": [path], "pos": [position]}, schema=pa.schema(types))
        pq.write_table(listed, local)
        with pytest.raises(CorruptFileError, match=f"of deleted rows, got {named} - at {local}"):
            FastParquetDataset(source)
    local.write_bytes(b"PAR1nothingPAR1")
    with pytest.raises(CorruptFileError, match=f"- at {local}"):
        FastParquetDataset(source)
    local.unlink()
    with pytest.raises(SourceNotFoundError, match=f"- at {local}"):
        FastParquetDataset(source)


def test_deletion_vectors_in_puffin_files(catalog):
    from pyroaring import BitMap

    table = make(catalog, pa.table({"x": range(20)}))
    file = iceberg_data_files(table)[0].data_file
    delete = position_deletes(table, [(file.file_path, 1)])
    bits = struct.pack("<qI", 1, 0) + BitMap([1, 7, 19]).serialize()
    body = struct.pack(">I", 1681511377) + bits
    blob = struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))
    footer = (
        '{"blobs": [{"type": "deletion-vector-v1", "fields": [], "snapshot-id": -1, '
        f'"sequence-number": -1, "offset": 4, "length": {len(blob)}, '
        f'"properties": {{"referenced-data-file": "{file.file_path}", "cardinality": "3"}}}}]}}'
    ).encode()
    puffin = b"PFA1" + blob + b"PFA1" + footer + struct.pack("<iI", len(footer), 0) + b"PFA1"
    path = f"{table.location()}/data/{uuid.uuid4()}.puffin"
    Path(path.removeprefix("file://")).write_bytes(puffin)
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat

    vector = DataFile.from_args(
        content=DataFileContent.POSITION_DELETES,
        file_path=path,
        file_format=FileFormat.PUFFIN,
        partition=delete.partition,
        record_count=3,
        file_size_in_bytes=len(puffin),
    )
    vector.spec_id = 0
    commit_deletes(table, vector)
    source = Iceberg("db.t", catalog=catalog)
    assert [x for (x,) in in_order(source)] == [x for x in range(20) if x not in (1, 7, 19)]
    assert loaded(source) == expected(table)


@pytest.mark.parametrize("kind", ["metadata", "list", "manifest"])
@pytest.mark.parametrize("left", [0, 0.5])
def test_damaged_metadata_is_an_error_with_its_place(catalog, kind, left):
    table = make(catalog, pa.table({"x": [1, 2]}))
    snapshot = table.current_snapshot()
    path = {
        "metadata": table.metadata_location,
        "list": snapshot.manifest_list,
        "manifest": snapshot.manifests(table.io)[0].manifest_path,
    }[kind].removeprefix("file://")
    data = Path(path).read_bytes()
    Path(path).write_bytes(data[: int(left * len(data))])
    for source in (Iceberg("db.t", catalog=catalog), Iceberg(table.metadata_location)):
        with pytest.raises(StorageError, match=r"(?s)^Can't read the m.* - at "):
            FastParquetDataset(source)


def test_a_dict_names_the_catalog(catalog, tmp_path):
    make(catalog, pa.table({"x": [1, 2]}))
    properties = {**catalog.properties, "type": "sql"}
    with pytest.raises(SourceNotFoundError, match='add "name" to the dict - at db'):
        FastParquetDataset(Iceberg("db.t", catalog=properties))
    named = Iceberg("db.t", catalog={**properties, "name": catalog.name})
    assert loaded(named) == {(1,): 1, (2,): 1}


def test_errors_say_what_is_missing(catalog, monkeypatch):
    with pytest.raises(
        SourceNotFoundError, match=r"Expected an Iceberg table, found none.* - at db\.t"
    ):
        FastParquetDataset(Iceberg("db.t", catalog=catalog))
    table = catalog.create_table("db.t", pa.schema([("x", pa.int64())]))
    with pytest.raises(SourceNotFoundError, match=r"without snapshots - at db\.t"):
        FastParquetDataset(Iceberg("db.t", catalog=catalog))
    table.append(pa.table({"x": [1]}))
    with pytest.raises(SourceNotFoundError, match=r"^Expected a snapshot .*, got 7 - at db\.t"):
        FastParquetDataset(Iceberg("db.t", 7, catalog))
    table.delete()
    with pytest.raises(
        SourceNotFoundError, match=r"^Expected a table .*, got snapshot \d+ without"
    ):
        FastParquetDataset(Iceberg("db.t", catalog=catalog))
    for wrong in ("1", True):
        with pytest.raises(TypeError, match="Expected snapshot_id as int or None"):
            Iceberg("db.t", wrong)
    with pytest.raises(TypeError, match="Expected table as a name"):
        Iceberg(Path("t"))
    with pytest.raises(TypeError, match="got Table of pyiceberg: write fastload") as error:
        FastParquetDataset(table)
    source = eval(str(error.value).partition("write ")[2], {"fastload": fastload, "table": table})
    assert source.table == "db.t"
    assert source.catalog is table.catalog
    assert "secret" not in repr(Iceberg("db.t", catalog={"s3.secret-access-key": "secret"}))
    monkeypatch.setitem(sys.modules, "pyiceberg", None)
    monkeypatch.setitem(sys.modules, "pyiceberg.exceptions", None)
    with pytest.raises(ImportError, match=r"pip install pyiceberg"):
        FastParquetDataset(Iceberg("db.t", catalog=catalog))


@pytest.mark.parametrize(
    ("catalog", "said"),
    [
        (None, "of the default catalog, got none: .*PYICEBERG_CATALOG__DEFAULT__URI"),
        ("prod", "of the catalog 'prod', got none: .*PYICEBERG_CATALOG__PROD__URI"),
        ({"type": "sql"}, "of the default catalog, got a dict without one: "),
    ],
)
def test_a_catalog_without_an_address(catalog, said):
    with pytest.raises(ValueError, match=rf"{said}.* - at shop\.events$") as raised:
        FastParquetDataset(Iceberg("shop.events", catalog=catalog))
    assert "write Iceberg('shop.events', catalog={\"uri\": ...})" in str(raised.value)


def test_a_filesystem_cannot_serve_a_table(tmp_path):
    import fsspec

    catalog = iceberg_catalog(tmp_path)
    table = catalog.create_table("db.t", pa.schema([("x", pa.int64())]))
    table.append(pa.table({"x": range(5)}))
    source = Iceberg("db.t", catalog=catalog)
    with pytest.raises(ValueError, match="Expected storage_options for a table, got a filesystem"):
        FastParquetDataset(source, filesystem=fsspec.filesystem("file"))
    assert FastParquetDataset(source, columns=["x"]).num_rows == 5


def test_a_local_table_names_any_local_files(catalog, tmp_path):
    table = make(catalog, pa.table({"x": [1]}))
    outside = tmp_path / "outside" / "a.parquet"
    outside.parent.mkdir()
    pq.write_table(pa.table({"x": [2]}), outside)
    table.add_files([outside.as_uri()])
    assert sorted(in_order(Iceberg("db.t", catalog=catalog))) == [(1,), (2,)]


LOCAL, S3 = "/w/t/metadata/a", "s3://b/t/metadata/a"
ONE, TWO = (f"abfss://c@{name}.dfs.core.windows.net" for name in ("one", "two"))
PLACES = [  # where the metadata lies, the location it states, what names a file, and which files
    (LOCAL, "/w/t", LOCAL, ["/w/t/a", "file:///d/a", "file:/d/a", "FILE:///d/a"], True),
    (LOCAL, "/w/t", LOCAL, ["s3://b/a", "http://h/a", "az://c/a"], False),
    (LOCAL, "s3://b/t", LOCAL, ["/w/t/a", "s3://b/t/a", "s3://other/a"], True),
    (LOCAL, "s3://b/t", S3, ["/w/t/a", "file:///w/t/a", "FILE:/w/t/a", "a", "gs://b/a"], False),
    (LOCAL, "http://h/t", LOCAL, ["http://h/t/a"], False),
    (S3, "/w/t", S3, ["s3://b/t/a", "s3://other/a", "s3a://b/a"], True),
    (S3, "/w/t", S3, ["/w/t/a", "file:///w/t/a", "FILE:/w/t/a", "a", "gs://b/a", "http://b/a"],
     False),
    (ONE, "/w/t", ONE, [f"{ONE}/a", f"{ONE.replace('c@', 'd@')}/a", "az://d/a"], True),
    (ONE, "/w/t", ONE, [f"{TWO}/a", "abfss://c@one.evil.net/a", "s3://c/a"], False),
]  # fmt: skip


@pytest.mark.parametrize(("metadata", "location", "by", "entries", "allowed"), PLACES)
def test_what_metadata_may_name(metadata, location, by, entries, allowed):
    from fastload.source.tables.iceberg import _Places

    places = _Places.of(metadata, location, {}, "db.t")
    for entry in entries:
        if allowed:
            places.check(entry, "data files", by)
            continue
        with pytest.raises(
            StorageError, match=r"Expected data files in the .* - at db\.t"
        ) as error:
            places.check(entry, "data files", by)
        assert f"got `{entry}`" in str(error.value)


def test_metadata_that_is_not_metadata(catalog):
    table = make(catalog, pa.table({"x": [1]}))
    path = Path(table.metadata_location.removeprefix("file://"))
    damages = {
        b"{\xff}": CorruptFileError,
        b"{": StorageError,
        b'{"format-version": 2}': StorageError,
    }
    for data, kind in damages.items():
        path.write_bytes(data)
        for source in (Iceberg(str(path)), Iceberg("db.t", catalog=catalog)):
            with pytest.raises(kind, match=r"(?s)(Expected|read) the metadata of .* - at "):
                FastParquetDataset(source)


def test_the_directory_of_a_table_as_its_name(catalog, tmp_path):
    table = make(catalog, pa.table({"x": [1]}), pa.table({"x": [2]}))
    directory = table.location().removeprefix("file://")
    for given in (directory, table.location(), f"{directory}/"):
        with pytest.raises(
            ValueError, match=r"path of a .*metadata\.json file, got another path: "
        ) as error:
            FastParquetDataset(Iceberg(given))
        call = str(error.value).partition("write ")[2].partition(" - at")[0]
        assert in_order(eval(call)) == [(2,), (1,)]
    with pytest.raises(ValueError, match=r"Iceberg\('s3://b/t/metadata/\*.metadata.json'\)"):
        FastParquetDataset(Iceberg("s3://b/t"))
    with pytest.raises(SourceNotFoundError, match="without null bytes"):
        FastParquetDataset(Iceberg("a\0.metadata.json"))
