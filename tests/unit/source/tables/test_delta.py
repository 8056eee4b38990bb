"""Delta tables as sources: the rows of a version, as deltalake reads them."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import fastload
from fastload import (
    Column,
    Delta,
    FastParquetDataset,
    SourceChangedError,
    SourceNotFoundError,
    StorageError,
    UnsupportedTypeError,
)
from support.lakehouse import (
    deletion_vector,
    delta_field,
    in_order,
    loaded,
    needs,
    rows_of,
    write_delta,
)
from support.same_rows import assert_same_rows

deltalake = needs("deltalake")

NOW = dt.datetime(2024, 2, 29, 1, 2, 3, 456789)  # noqa: DTZ001 - a local time too
VALUES = {
    "bool": (pa.bool_(), [True, False]),
    "int8": (pa.int8(), [-1, 7]),
    "int64": (pa.int64(), [-(2**60), 5]),
    "float32": (pa.float32(), [0.5, 1.25]),
    "float64": (pa.float64(), [0.1, float("inf")]),
    "decimal": (pa.decimal128(20, 3), [decimal.Decimal("1.250"), decimal.Decimal("12345678.001")]),
    "string": (pa.string(), ["a b/c=ä%", "x"]),
    "date": (pa.date32(), [NOW.date(), dt.date(1969, 1, 1)]),
    "timestamp": (pa.timestamp("us", "UTC"), [NOW, NOW.replace(year=1952)]),
    "local time": (pa.timestamp("us"), [NOW, NOW.replace(year=1952)]),
}


def expression_of(filters):
    return pq.filters_to_expression(filters) if isinstance(filters, list) else filters


def expected(path, version=None):
    return rows_of(pa.table(deltalake.DeltaTable(path, version=version).scan()))


@pytest.mark.parametrize("kind", VALUES)
def test_partition_values_of_every_type(tmp_path, kind):
    arrow, values = VALUES[kind]
    values = [*values, None]
    table = pa.table({"p": pa.array(values, arrow), "x": np.arange(3)})
    deltalake.write_deltalake(tmp_path, table, partition_by=["p"])
    found = loaded(Delta(tmp_path))
    assert found == expected(tmp_path) == rows_of(table)
    for value, row in zip(values, range(3), strict=True):
        chosen = (
            pc.field("p").is_null() if value is None else pc.field("p") == pa.scalar(value, arrow)
        )
        assert [x for x, *_ in in_order(Delta(tmp_path), columns=["x"], filters=chosen)] == [row]


def test_local_paths_are_those_of_plain_files(tmp_path, monkeypatch):
    (tmp_path / "other" / "d").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "other" / "d")
    for number, place in enumerate((tmp_path / "t", tmp_path / "other" / "t", tmp_path / "a b#")):
        deltalake.write_deltalake(place, pa.table({"x": [number]}))
    assert in_order(Delta((tmp_path / "a b#").as_uri())) == [(2,)]
    assert in_order(Delta(f"file://localhost{tmp_path}/t")) == [(0,)]
    assert in_order(Delta(f"{tmp_path}/link/../t")) == [(1,)]
    monkeypatch.chdir(tmp_path / "link")
    assert in_order(Delta("../t/")) == [(1,)]
    with pytest.raises(ValueError, match="without a host"):
        FastParquetDataset(Delta("file://server/t"))


def test_a_partition_value_of_minus_zero_keeps_its_sign(tmp_path):
    for value in (0.0, -0.0):
        rows = pa.table({"p": [value], "x": [value]})
        deltalake.write_deltalake(tmp_path, rows, mode="append", partition_by=["p"])
    batch = next(iter(FastParquetDataset(Delta(tmp_path))))
    assert batch["x"].signbit().tolist() == batch["p"].signbit().tolist()
    assert batch["p"].signbit().any()


def test_the_rows_of_each_version(tmp_path):
    deltalake.write_deltalake(tmp_path, pa.table({"x": [1, 2, 3]}))
    deltalake.write_deltalake(tmp_path, pa.table({"x": [4, 5]}), mode="append")
    deltalake.DeltaTable(tmp_path).delete("x = 2")
    for version in range(3):
        assert loaded(Delta(tmp_path, version)) == expected(tmp_path, version)
    assert loaded(Delta(str(tmp_path))) == expected(tmp_path)
    assert sorted(in_order(Delta(tmp_path))) == [(1,), (3,), (4,), (5,)]


def test_columns_that_were_added(tmp_path):
    deltalake.write_deltalake(tmp_path, pa.table({"x": [1, 2]}))
    more = pa.table({"x": [3], "y": ["a"], "s": pa.array([{"u": 1, "v": [1, 2]}])})
    deltalake.write_deltalake(tmp_path, more, mode="append", schema_mode="merge")
    assert loaded(Delta(tmp_path), exclude=["s.v"]) == rows_of(
        pa.table(deltalake.DeltaTable(tmp_path).scan()).flatten().drop_columns(["s.v"])
    )
    dataset = FastParquetDataset(Delta(tmp_path), nulls="mask")
    assert [name for name in dataset.schema if "__" not in name] == ["x", "y", "s.u", "s.v"]


def test_a_field_that_was_added_to_structs_in_lists_and_maps(tmp_path):
    point = {"a": pa.int64()}, {"a": pa.int64(), "b": pa.int32(), "c": pa.list_(pa.string())}
    rows = [[{"a": 1}, None], [], None], [[{"a": 2, "b": 3, "c": ["x"]}], [], None]
    for kind, lists in zip(map(pa.struct, point), rows, strict=True):
        maps = [None if each is None else [("k", value) for value in each] for each in lists]
        table = pa.table(
            {
                "l": pa.array(lists, pa.list_(kind)),
                "m": pa.array(maps, pa.map_(pa.string(), kind)),
            }
        )
        deltalake.write_deltalake(tmp_path, table, mode="append", schema_mode="merge")
    files = deltalake.DeltaTable(tmp_path).to_pyarrow_table()
    columns = {name: Column(name, fill=-1) for name in ("l.a", "l.b", "m.value.a", "m.value.b")}
    columns |= {name: Column(name, fill="-") for name in ("l.c", "m.key", "m.value.c")}
    assert_same_rows(FastParquetDataset(Delta(tmp_path), columns=columns), files, columns)


def test_a_column_that_no_file_has(tmp_path):
    deltalake.write_deltalake(tmp_path, pa.table({"x": [1, 2]}))
    empty = pa.table({"x": pa.array([], pa.int64()), "y": pa.array([], pa.string())})
    deltalake.write_deltalake(tmp_path, empty, mode="append", schema_mode="merge")
    assert loaded(Delta(tmp_path)) == {(1, None): 1, (2, None): 1}


FIELDS = [
    delta_field("new name", "long", "col-1", 1),
    delta_field("p", "date", "col-2", 2),
    delta_field("s", {"type": "struct", "fields": [delta_field("b", "string", "c4", 4)]}, "c3", 3),
    delta_field("m", {"type": "map", "keyType": "string", "valueType": "long",
                      "valueContainsNull": True}, "c5", 5),
    delta_field("added", "integer", "c6", 6),
]  # fmt: skip


def mapped_file(first, *, by_id):
    """A file of the table with these columns; with ids, its names say nothing."""

    def field(name, arrow, number):
        metadata = {"PARQUET:field_id": str(number)} if by_id else None
        return pa.field(f"other{number}" if by_id else name, arrow, metadata=metadata)

    struct = pa.struct([field("c4", pa.string(), 4)])
    schema = pa.schema([
        field("dropped", pa.int64(), 9),
        field("c3", struct, 3),
        field("col-1", pa.int64(), 1),
        field("c5", pa.map_(pa.string(), pa.int64()), 5),
    ])  # fmt: skip
    rows = range(first, first + 10)
    inner = struct.field(0).name
    columns = [
        pa.array(rows),
        pa.array([{inner: str(row)} for row in rows], struct),
        pa.array(rows),
        pa.array([[("k", row)] for row in rows], pa.map_(pa.string(), pa.int64())),
    ]
    return pa.Table.from_arrays(columns, schema=schema)


@pytest.mark.parametrize("mode", ["name", "id"])
def test_renamed_columns(tmp_path, mode):
    files = [
        (mapped_file(n, by_id=mode == "id"), {"col-2": f"2024-01-0{n + 1}"}, None) for n in (0, 4)
    ]
    write_delta(tmp_path / "t", FIELDS, files, mode=mode, partitions=["p"])
    source = Delta(tmp_path / "t")
    dataset = FastParquetDataset(source, nulls="mask")
    batch = dataset.head(100)
    assert batch["new name"].tolist() == [*range(10), *range(4, 14)]
    assert batch["s.b"].tolist() == [str(row) for row in [*range(10), *range(4, 14)]]
    assert batch["m.key"].tolist() == [["k"]] * 20
    assert batch["m.value"].tolist() == [[row] for row in [*range(10), *range(4, 14)]]
    assert not batch["added__valid"].any()
    assert set(batch["p"].tolist()) == {19723, 19727}
    columns = ["new name", "p", "s"]
    # deltalake reads by physical names in both modes; the protocol asks for ids in mode id.
    named = [
        (mapped_file(n, by_id=False), values, None)
        for n, (_, values, _) in zip((0, 4), files, strict=True)
    ]
    write_delta(tmp_path / "named", FIELDS, named, mode="name", partitions=["p"])
    whole = pa.table(deltalake.DeltaTable(tmp_path / "named").scan())
    assert loaded(source, columns=columns) == rows_of(whole.select(columns))
    arrow = pa.schema([
        ("new name", pa.int64()),
        ("p", pa.date32()),
        ("s", pa.struct([("b", pa.string())])),
        ("added", pa.int32()),
    ])  # fmt: skip
    plain = pa.Table.from_pylist(whole.to_pylist(), schema=arrow)
    for filters in (
        [("new name", ">", 7)],
        pc.field("s", "b") == "7",
        (pc.field("new name") + pc.field("new name") > 14) & (pc.field("p") == dt.date(2024, 1, 5)),
        pc.field("added").is_null() & (pc.field("new name") == 9),
        pc.field("added") > 1,
    ):
        kept = plain.filter(expression_of(filters)).select(columns)
        assert loaded(source, columns=columns, filters=filters) == rows_of(kept)
    halves = [
        in_order(source, columns=columns, split=("s.b", a, b)) for a, b in ((0, 0.5), (0.5, 1))
    ]
    assert len(halves[0]) + len(halves[1]) == 20
    assert all(halves)
    assert not set(halves[0]) & set(halves[1])


def test_a_state_belongs_to_one_version(tmp_path):
    for x in (1, 2):
        deltalake.write_deltalake(tmp_path, pa.table({"x": [x] * 10}), mode="append")
    dataset = FastParquetDataset(Delta(tmp_path, 0), batch_size=2)
    next(iter(dataset))
    state = dataset.state_dict()
    again = FastParquetDataset(Delta(tmp_path, 0), batch_size=2)
    again.load_state_dict(state)
    assert sum(len(batch) > 0 for batch in again) == 4
    newer = FastParquetDataset(Delta(tmp_path), batch_size=2)
    with pytest.raises(SourceChangedError, match=r"Expected version 0, .* got version 1 .*- at /"):
        newer.load_state_dict(state)
    plain = FastParquetDataset(list(again.files), batch_size=2)
    with pytest.raises(SourceChangedError, match=r"Expected version 0, .* got plain files"):
        plain.load_state_dict(state)
    with pytest.raises(SourceChangedError, match=r"Expected plain files, .* got version 0"):
        again.load_state_dict(plain.state_dict())


def test_files_are_pruned_by_the_log(tmp_path, monkeypatch):
    for day in range(5):
        table = pa.table({"day": [day] * 4, "x": [day * 10 + n for n in range(4)]})
        deltalake.write_deltalake(tmp_path, table, mode="append", partition_by=["day"])
    read = []
    from fastload.source import source as module

    reads = module.read_footers
    monkeypatch.setattr(
        module, "read_footers", lambda found, s: read.append(len(found)) or reads(found, s)
    )
    assert in_order(Delta(tmp_path), columns=["x"], filters=[("day", "==", 3), ("x", ">", 31)]) == [
        (32,),
        (33,),
    ]
    assert in_order(Delta(tmp_path), columns=["x"], filters=[("x", "in", [0, 41])]) == [(41,), (0,)]
    assert in_order(Delta(tmp_path), columns=["x"], filters=[("x", ">", 99)]) == []
    assert read == [1, 2, 1]


def test_bounds_of_timestamps_may_be_cut(tmp_path):
    for time in (NOW, NOW.replace(year=1952)):
        rows = pa.table({"t": pa.array([time], pa.timestamp("us"))})
        deltalake.write_deltalake(tmp_path, rows, mode="append")
    filters = pc.field("t") > NOW.replace(microsecond=456788)
    assert len(in_order(Delta(tmp_path), filters=filters)) == 1


@pytest.mark.parametrize("zone", [None, "UTC"])
def test_the_last_time_that_python_knows(tmp_path, zone):
    times = [NOW, dt.datetime.max]  # noqa: DTZ901 - a local time too
    rows = pa.table({"t": pa.array(times, pa.timestamp("us", zone)), "x": [1, 2]})
    deltalake.write_deltalake(tmp_path, rows)
    filters = pc.field("t") > pa.scalar(NOW, pa.timestamp("us", zone))
    assert in_order(Delta(tmp_path), columns=["x"], filters=filters) == [(2,)]


@pytest.mark.parametrize(
    ("unit", "zone"), [("INT96", "UTC"), ("INT96", None), ("us", "UTC"), ("ns", "UTC")]
)
def test_timestamps_in_files_without_a_zone(tmp_path, unit, zone):
    early, late = (dt.datetime(year, 12, 31) for year in (1000, 9999))  # noqa: DTZ001
    reached = [NOW, NOW.replace(year=1952), None]
    times = [*reached, early, late] if unit != "ns" else reached
    options = {"use_deprecated_int96_timestamps": True} if unit == "INT96" else {}
    naive = pa.timestamp("us" if unit == "INT96" else unit)
    _append(tmp_path, times, pa.timestamp("us", zone))
    _append(tmp_path, times, pa.timestamp("us", zone), naive, row_group_size=2, **options)
    _append(tmp_path, [NOW.replace(year=2020)], pa.timestamp("us", zone), naive, **options)
    table = pa.table(deltalake.DeltaTable(tmp_path).scan()).select(["t", "l", "s", "x"])
    assert table.schema.field("t").type == pa.timestamp("us", zone)
    dataset = FastParquetDataset(Delta(tmp_path), nulls="mask")
    assert {dataset.schema[name].unit for name in ("t", "l", "s.t")} == {
        "ns" if unit == "ns" else "us"
    }
    columns = {"x": "x"} | {
        name: Column(leaf, unit="us", fill=0)
        for name, leaf in {"t": "t", "l": "l", "s": "s.t"}.items()
    }
    plain = {name: Column(spec.name, fill=0) for name, spec in columns.items() if name != "x"}
    if unit != "ns":
        assert_same_rows(FastParquetDataset(Delta(tmp_path), columns=plain), table, plain)
    found = FastParquetDataset(Delta(tmp_path), columns=columns, shuffle=True)
    assert_same_rows(found, table, columns, ordered=False)
    assert_same_rows([found.take([6, 0])], table.take([6, 0]), columns)
    halves = [
        FastParquetDataset(Delta(tmp_path), columns=["x", "t"], nulls="zero", split=("t", *part))
        for part in ((0, 0.5), (0.5, 1))
    ]
    values = [set(batch["t"].tolist()) for half in halves for batch in half]
    assert sum(half.num_rows for half in halves) == len(table)
    assert len(set.union(*values)) == sum(map(len, values))
    for least, files in ((NOW, 2), (NOW.replace(year=2016), 3)):
        at = pa.scalar(least, pa.timestamp("us", zone))
        for filters in (pc.field("t") >= at, pc.field("s", "t") >= at):
            kept = FastParquetDataset(Delta(tmp_path), columns=columns, filters=filters)
            assert_same_rows(kept, table.filter(filters), columns)
            assert len(kept.files) == files


def test_a_timestamp_between_two_units_of_the_table(tmp_path):
    utc, naive = pa.timestamp("us", "UTC"), pa.timestamp("ns")
    options = {"use_deprecated_int96_timestamps": True}
    _append(tmp_path, [np.datetime64(1001, "ns")], utc, naive, **options)
    with pytest.raises(ValueError, match=r"1970-01-01T00:00:00\.000001001.*column `t`"):
        list(FastParquetDataset(Delta(tmp_path), columns=["t"]))
    finer = FastParquetDataset(Delta(tmp_path), columns=[Column("t", unit="ns")])
    assert finer.take([0])["t"].tolist() == [1001]


def _append(directory, times, arrow, stored=None, **options):
    """Append rows with a timestamp of each time to a table, and store them as another type."""

    def rows(times):
        lists = pa.ListArray.from_arrays(range(len(times) + 1), times)
        structs = pa.StructArray.from_arrays([times], ["t"])
        return pa.table({"t": times, "l": lists, "s": structs, "x": range(len(times))})

    values = pa.array(times, stored or arrow)
    deltalake.write_deltalake(directory, rows(values.cast(arrow, safe=False)), mode="append")
    if stored is None:
        return
    log = max((directory / "_delta_log").glob("*.json"))
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    add = next(action["add"] for action in actions if "add" in action)
    file = directory / add["path"]
    pq.write_table(rows(values), file, **options)
    add["size"] = file.stat().st_size
    log.write_text("\n".join(map(json.dumps, actions)))


def test_the_fingerprint_covers_the_version(tmp_path):
    deltalake.write_deltalake(tmp_path, pa.table({"x": [1]}))
    deltalake.DeltaTable(tmp_path).alter.set_table_properties({"delta.appendOnly": "true"})
    first, second = (FastParquetDataset(Delta(tmp_path, version)) for version in (0, 1))
    assert first.files == second.files
    assert first.state_dict()["fingerprint"] != second.state_dict()["fingerprint"]


def test_nan_is_not_pruned(tmp_path):
    table = pa.table({"f": [1.0, float("nan")], "p": [float("nan"), 2.0]})
    deltalake.write_deltalake(tmp_path, table, partition_by=["p"])
    assert len(in_order(Delta(tmp_path), filters=~(pc.field("f") < 5))) == 1
    assert len(in_order(Delta(tmp_path), filters=pc.field("p") != 2)) == 1


def test_errors_say_what_is_missing(tmp_path, monkeypatch):
    with pytest.raises(SourceNotFoundError, match=r"Expected a Delta table, found none.* - at /"):
        FastParquetDataset(Delta(tmp_path / "none"))
    deltalake.write_deltalake(tmp_path / "t", pa.table({"x": [1]}))
    with pytest.raises(SourceNotFoundError, match="Expected version 7 of the Delta table"):
        FastParquetDataset(Delta(tmp_path / "t", version=7))
    deltalake.DeltaTable(tmp_path / "t").delete()
    with pytest.raises(SourceNotFoundError, match="got version 1 without files"):
        FastParquetDataset(Delta(tmp_path / "t"))
    for wrong, error in ((-1, ValueError), ("1", TypeError), (True, TypeError)):
        with pytest.raises(error, match="Expected version"):
            Delta("t", wrong)
    with pytest.raises(TypeError, match="Expected uri as the path or URL of a table, got int: 3"):
        Delta(3)
    table = deltalake.DeltaTable(tmp_path / "t", version=0)
    for wrong in (lambda: Delta(table), lambda: FastParquetDataset(table)):
        with pytest.raises(TypeError, match="got DeltaTable of deltalake: write fastload") as error:
            wrong()
    call = str(error.value).partition("write ")[2]
    source = eval(call, {"fastload": fastload, "table": table})
    assert FastParquetDataset(source).num_rows == len(table.to_pyarrow_table())
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(ImportError, match=r"pip install deltalake"):
        FastParquetDataset(Delta(tmp_path / "t", version=0))


def test_unknown_features_are_refused(tmp_path):
    write_delta(tmp_path / "t", [delta_field("x", "long")], [(pa.table({"x": [1]}), {}, None)])
    log = tmp_path / "t" / "_delta_log" / f"{0:020}.json"
    old = '"minReaderVersion": 1, "minWriterVersion": 2'
    new = '"minReaderVersion": 3, "minWriterVersion": 7, '
    new += '"readerFeatures": ["variantType"], "writerFeatures": ["variantType"]'
    log.write_text(log.read_text().replace(old, new))
    with pytest.raises(UnsupportedTypeError, match="features fastload has, got variant"):
        FastParquetDataset(Delta(tmp_path / "t"))


@pytest.mark.parametrize("version", [None, 0])
def test_a_table_for_newer_readers_is_not_called_missing(tmp_path, version):
    write_delta(tmp_path / "t", [delta_field("x", "long")], [(pa.table({"x": [1]}), {}, None)])
    log = tmp_path / "t" / "_delta_log" / f"{0:020}.json"
    log.write_text(log.read_text().replace('"minReaderVersion": 1', '"minReaderVersion": 99'))
    with pytest.raises(StorageError, match="minimum reader version 99"):
        FastParquetDataset(Delta(tmp_path / "t", version))


VECTORS = [[0], [1, 3, 4, 19], list(range(20)), [], list(range(5, 20)), list(range(0, 20, 2))]


@pytest.mark.parametrize("inline", [False, True])
def test_deletion_vectors(tmp_path, inline):
    table = tmp_path / "t"
    table.mkdir()
    files = [
        (
            pa.table({"x": range(n * 20, n * 20 + 20), "s": [f"{n}"] * 20}),
            {"p": str(n)},
            deletion_vector(table, rows, inline=inline) if rows else None,
        )
        for n, rows in enumerate(VECTORS)
    ]
    fields = [delta_field("x", "long"), delta_field("s", "string"), delta_field("p", "integer")]
    write_delta(table, fields, files, partitions=["p"], vectors=True)
    left = [n * 20 + row for n, rows in enumerate(VECTORS) for row in range(20) if row not in rows]
    assert [x for x, *_ in in_order(Delta(table), columns=["x"])] == left
    assert loaded(Delta(table)) == expected(table)
    assert FastParquetDataset(Delta(table)).num_rows == len(left)
    for filters in ([("x", ">", 50)], [("p", "in", [1, 4])], pc.field("x") + pc.field("p") > 60):
        rows = [row for row in left if _passes(filters, row)]
        assert [x for x, *_ in in_order(Delta(table), columns=["x"], filters=filters)] == rows


@pytest.mark.parametrize("name", ["my table", "ü#?", "link"])
@pytest.mark.parametrize("file", ["part-0.parquet", "a%20b%25.parquet", "a ü.parquet"])
def test_deletion_vectors_belong_to_files_whose_paths_have_escapes_or_links(tmp_path, name, file):
    table = tmp_path / ("real" if name == "link" else name)
    table.mkdir()
    if name == "link":
        (tmp_path / name).symlink_to(table)
    vector = deletion_vector(table, [1])
    files = [(pa.table({"x": range(3)}), {}, vector)]
    write_delta(table, [delta_field("x", "long")], files, vectors=True)
    _rename_in_log(table, file)
    (table / "part-0.parquet").rename(table / unquote(file))
    assert in_order(Delta(tmp_path / name)) == [(0,), (2,)]


def test_a_vector_of_an_unknown_file_is_an_error(tmp_path, monkeypatch):
    (tmp_path / "t").mkdir()
    files = [(pa.table({"x": range(3)}), {}, deletion_vector(tmp_path / "t", [1]))]
    write_delta(tmp_path / "t", [delta_field("x", "long")], files, vectors=True)
    monkeypatch.setattr(deltalake.DeltaTable, "table_uri", "file:///elsewhere/")
    with pytest.raises(StorageError, match=r"unknown file /.*/part-0.parquet - at /"):
        in_order(Delta(tmp_path / "t"))


@pytest.mark.parametrize("name", ["{}/t/part-0.parquet", "file:{}/t/part-0.parquet"])
def test_whole_paths_of_files_in_the_directory_of_the_table(tmp_path, name):
    one_file(tmp_path / "t")
    _rename_in_log(tmp_path / "t", name.format(tmp_path))
    assert in_order(Delta(tmp_path / "t")) == [(0,), (2,)]


OUTSIDE = ["{}/other.parquet", "file:{}/other.parquet", "file://{}/other.parquet",
           "FILE://{}/other.parquet", "/{}/other.parquet", "../other.parquet",
           "..%2Fother.parquet", "x/../../other.parquet", "{}/t/../other.parquet"]  # fmt: skip


@pytest.mark.parametrize("name", OUTSIDE)
def test_only_a_clone_has_files_outside_of_its_directory(tmp_path, name):
    (tmp_path / "t").mkdir()
    write_delta(tmp_path / "t", [delta_field("x", "long")], [(pa.table({"x": [1, 2]}), {}, None)])
    (tmp_path / "t" / "part-0.parquet").rename(tmp_path / "other.parquet")
    (tmp_path / "t" / "x").mkdir()
    name = name.format(tmp_path)
    _rename_in_log(tmp_path / "t", name)
    with pytest.raises(
        StorageError, match=r"Expected data files below the table .* CLONE"
    ) as error:
        FastParquetDataset(Delta(tmp_path / "t"))
    assert f"got `{unquote(name)}`" in str(error.value)
    assert str(error.value).endswith(f" - at {tmp_path}/t")
    _add_to_log(tmp_path / "t", {"commitInfo": {"operation": "CLONE"}})
    assert in_order(Delta(tmp_path / "t")) == [(1,), (2,)]


@pytest.mark.parametrize("name", ["s3://b/x.parquet", "http://127.0.0.1:9/x", "hf://datasets/a/b"])
def test_a_local_table_names_no_file_of_a_store(tmp_path, name):
    one_file(tmp_path / "t")
    _rename_in_log(tmp_path / "t", name)
    with pytest.raises(StorageError, match=f"Expected data files below the table .* got `{name}`"):
        FastParquetDataset(Delta(tmp_path / "t"))


@pytest.mark.parametrize("name", ["", "a\0b.parquet", "d/"])
def test_names_that_no_file_has(tmp_path, name):
    one_file(tmp_path / "t")
    (tmp_path / "t" / "d").mkdir()
    _rename_in_log(tmp_path / "t", name)
    with pytest.raises(StorageError, match=r"Expected paths of files|it is a directory"):
        FastParquetDataset(Delta(tmp_path / "t"))


def test_a_path_of_a_table_without_null_bytes():
    with pytest.raises(SourceNotFoundError, match=r"without null bytes, got 'a\\x00b'"):
        FastParquetDataset(Delta("a\0b"))


@pytest.mark.parametrize("prefix", ["../x/", "{}/x/", "file:", "..\\x\\"])
def test_a_deletion_vector_outside_of_the_table_is_refused(tmp_path, prefix):
    table = tmp_path / "t"
    one_file(table)
    (tmp_path / "x").mkdir()
    log = table / "_delta_log" / f"{0:020}.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    vector = actions[-1]["add"]["deletionVector"]
    vector["pathOrInlineDv"] = prefix.format(tmp_path) + vector["pathOrInlineDv"]
    log.write_text("\n".join(map(json.dumps, actions)))
    with pytest.raises(StorageError, match="Expected deletion vectors below the table, got"):
        in_order(Delta(table))


@pytest.mark.parametrize("inside", [True, False])
def test_deletion_vectors_of_a_checkpoint_with_whole_paths(tmp_path, inside):
    table = tmp_path / "t"
    table.mkdir()
    vector = deletion_vector(table, [1])
    (file,) = table.glob("deletion_vector_*")
    if not inside:
        file = file.rename(tmp_path / file.name)
    one_file(table, {**vector, "storageType": "p", "pathOrInlineDv": file.as_uri()})
    deltalake.DeltaTable(table).create_checkpoint()
    if inside:
        assert in_order(Delta(table)) == [(0,), (2,)]
        return
    with pytest.raises(StorageError, match=r"Expected deletion vectors below the table \("):
        in_order(Delta(table))


def one_file(table, vector=None):
    """A table of one file with three rows, of which the vector deletes the second."""
    table.mkdir(exist_ok=True)
    files = [(pa.table({"x": range(3)}), {}, vector or deletion_vector(table, [1]))]
    write_delta(table, [delta_field("x", "long")], files, vectors=True)


def _add_to_log(table, action):
    log = table / "_delta_log" / f"{0:020}.json"
    log.write_text(f"{log.read_text()}\n{json.dumps(action)}")


def _rename_in_log(table, file):
    log = table / "_delta_log" / f"{0:020}.json"
    log.write_text(log.read_text().replace('"part-0.parquet"', json.dumps(file)))


def _passes(filters, row):
    one = pa.table({"x": [row], "p": [row // 20]})
    return len(one.filter(expression_of(filters))) == 1


def test_deletion_vectors_are_read_once_for_a_version(tmp_path, monkeypatch):
    table = tmp_path / "t"
    table.mkdir()
    vector = deletion_vector(table, [2, 3])
    write_delta(
        table, [delta_field("x", "long")], [(pa.table({"x": range(9)}), {}, vector)], vectors=True
    )
    assert in_order(Delta(table)) == [(x,) for x in range(9) if x not in (2, 3)]
    for file in table.glob("deletion_vector_*"):
        file.unlink()
    assert in_order(Delta(table)) == [(x,) for x in range(9) if x not in (2, 3)]


def test_a_shuffled_epoch_and_workers_leave_deleted_rows_out(tmp_path):
    from torch.utils.data import DataLoader

    table = tmp_path / "t"
    table.mkdir()
    vector = deletion_vector(table, range(0, 100, 3))
    write_delta(
        table, [delta_field("x", "long")], [(pa.table({"x": range(100)}), {}, vector)], vectors=True
    )
    dataset = FastParquetDataset(Delta(table), batch_size=7, shuffle=True, uneven="keep")
    loader = DataLoader(dataset, batch_size=None, num_workers=2, timeout=60)
    rows = [row for batch in loader for row in batch["x"].tolist()]
    assert sorted(rows) == [x for x in range(100) if x % 3]


def test_a_vector_that_is_missing_or_too_long(tmp_path):
    for name, rows in (("long", [50]), ("gone", [1])):
        table = tmp_path / name
        table.mkdir()
        vector = deletion_vector(table, rows)
        write_delta(
            table, [delta_field("x", "long")], [(pa.table({"x": [1, 2]}), {}, vector)], vectors=True
        )
    next((tmp_path / "gone").glob("deletion_vector_*")).unlink()
    for name in ("long", "gone"):
        with pytest.raises(StorageError, match=r"Can't read the deletion vectors: .* - at /"):
            FastParquetDataset(Delta(tmp_path / name))


def test_a_fork_of_a_process_that_has_used_deltalake_says_what_to_do(tmp_path):
    deltalake.write_deltalake(tmp_path, pa.table({"x": [1]}))
    with ProcessPoolExecutor(1, mp_context=get_context("fork")) as child:
        opened = child.submit(in_order, Delta(tmp_path))
        with pytest.raises(StorageError, match=r'forked one: .*context="forkserver"\) - at /'):
            opened.result(60)
