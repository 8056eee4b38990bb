"""Random histories of tables: the rows of a version, as deltalake and pyiceberg read them."""

from __future__ import annotations

import tempfile
from collections import Counter
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastload import Delta, Iceberg
from support.lakehouse import (
    commit_deletes,
    each_pass,
    equality_deletes,
    iceberg_catalog,
    iceberg_data_files,
    loaded,
    needs,
    position_deletes,
    rows_of,
)

HISTORIES = settings.default.max_examples // 5  # a history takes longer
NUMBERS = count()
TYPES = {
    "long": pa.int64(),
    "int": pa.int32(),
    "double": pa.float64(),
    "string": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "bool": pa.bool_(),
}
# Columns of partitions; values of floats are not written exactly by all writers.
DELTA_STEPS = [
    "append", "append", "delete", "update", "add", "compact", "overwrite", "checkpoint",
]  # fmt: skip
KEYS = ["long", "int", "string", "date", "bool"]


def values(draw, kind, count):
    """Draw values of a column, some of them null."""
    small = st.integers(0, 5)
    made = {
        "string": small.map(lambda n: f"v {n}/=%"),
        "double": small.map(lambda n: n / 4),
        "bool": st.booleans(),
    }.get(kind, small)
    drawn = draw(st.lists(st.none() | made, min_size=count, max_size=count))
    stored = {"date": pa.int32(), "timestamp": pa.int64()}.get(kind, TYPES[kind])
    return pa.array(drawn, stored).cast(TYPES[kind])


def rows(draw, schema):
    """Draw rows for the columns of an Arrow schema."""
    kinds = {arrow: kind for kind, arrow in TYPES.items()}
    count = draw(st.integers(1, 8))
    columns = [values(draw, kinds[field.type], count) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def conditions(draw, schema):
    """Draw filters for columns of an Arrow schema: one that the core evaluates, or another one."""
    field = draw(st.sampled_from([f for f in schema if f.type in (pa.int64(), pa.int32())]))
    bound = draw(st.integers(-1, 6))
    column = pc.field(field.name)
    return draw(
        st.sampled_from([
            column > bound,
            column == bound,
            column.is_null(),
            (column * 2 >= bound) | column.is_null(),
            column.isin([bound, 0]),
        ])
    )  # fmt: skip


def check(draw, source, expected):
    """Compare fastload's rows of a source with those that the library read."""
    # Rows that deletes leave may stay in memory from the first pass on.
    assert list(map(Counter, each_pass(source, 2))) == [rows_of(expected)] * 2
    filters = conditions(draw, expected.schema)
    assert loaded(source, filters=filters) == rows_of(expected.filter(filters))


def names_of(draw):
    return draw(st.lists(st.sampled_from("abcdefgh"), min_size=4, max_size=4, unique=True))


# Delta ----------------------------------------------------------------------------------------


@settings(max_examples=HISTORIES)
@given(data=st.data())
def test_histories_of_delta(data):
    deltalake = needs("deltalake")
    draw = data.draw
    names = names_of(draw)
    kinds = ["long", *(draw(st.sampled_from(sorted(TYPES))) for _ in names[1:])]
    schema = pa.schema([(n, TYPES[kind]) for n, kind in zip(names, kinds, strict=True)])
    keys = [n for n, kind in zip(names, kinds, strict=True) if kind in KEYS][1:3]
    partitions = draw(st.sampled_from([None, keys or None]))
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "table"
        for _ in range(draw(st.integers(1, 6))):
            table = deltalake.DeltaTable(path) if path.exists() else None
            steps = ["append"] if table is None else DELTA_STEPS
            step = draw(st.sampled_from(steps))
            bound = draw(st.integers(-1, 5))
            if step == "append":
                written = rows(draw, schema)
                deltalake.write_deltalake(path, written, mode="append", partition_by=partitions)
            elif step == "add":
                schema = schema.append(
                    pa.field(f"x{len(schema)}", draw(st.sampled_from(list(TYPES.values()))))
                )
                written = rows(draw, schema)
                deltalake.write_deltalake(
                    path, written, mode="append", schema_mode="merge", partition_by=partitions
                )
            elif step == "overwrite":
                deltalake.write_deltalake(
                    path, rows(draw, schema), mode="overwrite", partition_by=partitions
                )
            elif step == "delete":
                table.delete(f"{names[0]} = {bound}")
            elif step == "update":
                table.update(predicate=f"{names[0]} > {bound}", updates={names[0]: "1"})
            elif step == "compact":
                table.optimize.compact()
            else:
                table.create_checkpoint()
        last = deltalake.DeltaTable(path).version()
        for version in dict.fromkeys([last, draw(st.integers(0, last))]):
            table = deltalake.DeltaTable(path, version=version)
            if not table.file_uris():
                continue
            check(draw, Delta(path, version), table.to_pyarrow_table())


# Iceberg --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def catalog(tmp_path_factory):
    needs("pyiceberg")
    return iceberg_catalog(tmp_path_factory.mktemp("iceberg"))


def empty_table(catalog, schema):
    """Make a table of a name of its own."""
    name = f"db.t{next(NUMBERS)}"
    return name, catalog.create_table(name, schema, properties={"format-version": "2"})


@pytest.mark.filterwarnings("ignore:Delete operation did not match any records")
@settings(max_examples=HISTORIES)
@given(data=st.data())
def test_histories_of_iceberg(catalog, data):
    draw = data.draw
    names = names_of(draw)
    kinds = ["long", "int", *(draw(st.sampled_from(sorted(TYPES))) for _ in names[2:])]
    schema = pa.schema([(n, TYPES[kind]) for n, kind in zip(names, kinds, strict=True)])
    name, table = empty_table(catalog, schema)
    table.append(rows(draw, schema))
    for _ in range(draw(st.integers(1, 6))):
        _iceberg_step(draw, table)
    numbers = [snapshot.snapshot_id for snapshot in table.snapshots()]
    for number in dict.fromkeys([numbers[-1], draw(st.sampled_from(numbers))]):
        if any(True for _ in table.scan(snapshot_id=number).plan_files()):
            expected = table.scan(snapshot_id=number).to_arrow()
            check(draw, Iceberg(name, number, catalog), expected)


def _plain(field):
    text = pa.types.is_large_string(field.type)
    return pa.field(field.name, pa.string() if text else field.type)


def _iceberg_step(draw, table):  # noqa: C901 - a step of each kind
    from pyiceberg.types import LongType, StringType

    present = pa.schema([_plain(field) for field in table.schema().as_arrow()])
    longs = [f.name for f in present if f.type == pa.int64()]
    bound = draw(st.integers(-1, 5))
    steps = ["append", "append", "delete", "rename", "add", "drop", "widen", "partition",
             "overwrite", "positions"]  # fmt: skip
    step = draw(st.sampled_from(steps))
    if step in ("append", "overwrite"):
        getattr(table, step)(rows(draw, present))
    elif step == "delete":
        table.delete(f"{longs[0]} = {bound}")
    elif step == "rename":
        with table.update_schema() as update:
            name = draw(st.sampled_from(present.names))
            update.rename_column(name, f"{name}r")
    elif step == "add":
        with table.update_schema() as update:
            name = draw(st.sampled_from("abcdefgh"))
            if name not in present.names:
                update.add_column(name, draw(st.sampled_from([LongType(), StringType()])))
    elif step == "drop":
        used = {field.source_id for spec in table.specs().values() for field in spec.fields}
        loose = [
            name
            for name in present.names
            if table.schema().find_field(name).field_id not in used and name != longs[0]
        ]
        if loose:
            with table.update_schema() as update:
                update.delete_column(draw(st.sampled_from(loose)))
    elif step == "widen":
        ints = [f.name for f in present if f.type == pa.int32()]
        if ints:
            with table.update_schema() as update:
                update.update_column(draw(st.sampled_from(ints)), LongType())
    elif step == "partition":
        wanted = [f.name for f in present if f.type in (pa.int64(), pa.string(), pa.date32())]
        with table.update_spec() as update:
            for field in table.spec().fields:
                update.remove_field(field.name)
            if draw(st.booleans()):
                update.add_identity(draw(st.sampled_from(wanted)))
    else:
        entries = iceberg_data_files(table)
        if entries:
            file = draw(st.sampled_from(entries)).data_file
            at = draw(st.integers(0, file.record_count - 1))
            where = {"partition": file.partition, "spec_id": file.spec_id}
            commit_deletes(table, position_deletes(table, [(file.file_path, at)], **where))


@settings(max_examples=HISTORIES)
@given(data=st.data())
def test_histories_with_equality_deletes(catalog, data):
    """pyiceberg does not read equality deletes, so the test keeps the rows that are left."""
    draw = data.draw
    schema = pa.schema([("a", pa.int64()), ("b", pa.string()), ("c", pa.int32())])
    name, table = empty_table(catalog, schema)
    left = []
    for number in range(draw(st.integers(1, 6))):
        if number == 0 or draw(st.booleans()):
            written = rows(draw, schema)
            table.append(written)
            left += written.to_pylist()
        else:
            columns = draw(st.lists(st.sampled_from("abc"), min_size=1, unique=True))
            keys = rows(draw, pa.schema([schema.field(name) for name in columns]))
            commit_deletes(table, equality_deletes(table, keys))
            gone = keys.to_pylist()
            left = [row for row in left if {n: row[n] for n in columns} not in gone]
    check(draw, Iceberg(name, catalog=catalog), pa.Table.from_pylist(left, schema))
