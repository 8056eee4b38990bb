"""Files whose schemas differ give what pyarrow reads through its permissive unification."""

import tempfile
from decimal import Context, Decimal

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from parquet_cases import EXAMPLES

from fastload import Column, FastParquetDataset, SchemaError
from fastload.schema.projection import plan_columns
from fastload.source.source import Source
from support.same_rows import assert_same_rows

NUMBERS = [
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64()),
    *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    *(pa.float16(), pa.float32(), pa.float64()),
    *(pa.decimal128(9, 2), pa.decimal128(18, 4), pa.decimal256(50, 3)),
]
WIDE = Context(prec=90)
UNITS = ("s", "ms", "us", "ns")
FAMILIES = [
    [pa.null(), *NUMBERS],
    [pa.null(), *(pa.timestamp(unit) for unit in UNITS), pa.timestamp("us", "UTC")],
    [pa.null(), *(pa.duration(unit) for unit in UNITS)],
    [pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")],
    [
        *(pa.null(), pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())),
        *(pa.binary(), pa.large_binary(), pa.binary(2), pa.binary(3)),
    ],
    [pa.null(), pa.bool_(), pa.int8(), pa.string(), pa.date32(), pa.timestamp("ms")],
]
STRUCT_FIELDS = ("u", "v")
NULLS = pa.list_(pa.null())
SHAPES = ["flat", "flat", "flat", "struct", "list", "list of list"]


# How a small number becomes a value of a type; promotion never fails on any of these.
MAKERS = [
    (pa.types.is_decimal, lambda n, arrow: Decimal(n).scaleb(-arrow.scale)),
    (pa.types.is_boolean, lambda n, arrow: n % 2 == 1),
    (pa.types.is_fixed_size_binary, lambda n, arrow: bytes([n]) * arrow.byte_width),
    (pa.types.is_string, lambda n, arrow: "é" * (n % 3)),
    (pa.types.is_large_string, lambda n, arrow: "é" * (n % 3)),
    (pa.types.is_binary, lambda n, arrow: b"\xff" * (n % 3)),
    (pa.types.is_large_binary, lambda n, arrow: b"\xff" * (n % 3)),
    (pa.types.is_floating, lambda n, arrow: n / 4),
    (pa.types.is_timestamp, lambda n, arrow: n * 1000),
    (lambda arrow: True, lambda n, arrow: n),
]


def small(rng, arrow, rows):
    """`rows` small values of that type, and some nulls."""
    if pa.types.is_null(arrow):
        return pa.nulls(rows)
    if pa.types.is_dictionary(arrow):
        return small(rng, arrow.value_type, rows).dictionary_encode().cast(arrow)
    make = next(make for matches, make in MAKERS if matches(arrow))
    values = [make(n, arrow) for n in rng.integers(0, 100, rows).tolist()]
    mask = rng.random(rows) < rng.choice([0, 0.3, 1])
    if pa.types.is_temporal(arrow):
        stored = pa.int32() if arrow.bit_width == 32 else pa.int64()
        return pa.array(values, stored, mask=mask).view(arrow)
    return pa.array(values, arrow, mask=mask)


def lists(rng, values, rows):
    """`rows` lists of those values: of a fixed size or of any, empty and null."""
    if len(values) == 2 * rows and rng.integers(3) == 0:
        return pa.FixedSizeListArray.from_arrays(values, 2)
    cuts = np.sort(rng.integers(0, len(values) + 1, max(0, rows - 1)))
    offsets = np.concatenate([[0], cuts, [len(values)]])[: rows + 1].astype(np.int32)
    mask = pa.array(rng.random(rows) < 0.2) if rows else None
    if not rows:
        return pa.array([], pa.list_(values.type))
    return pa.ListArray.from_arrays(pa.array(offsets), values, mask=mask)


@st.composite
def columns(draw, rng, shape, family, rows):
    """A column of a table, of that shape and of types of that family."""
    types = st.sampled_from(family)
    if shape != "flat" and draw(st.integers(0, 7)) == 0:
        return pa.nulls(rows)
    if shape == "flat":
        return small(rng, draw(types), rows)
    if shape == "struct":
        fields = draw(st.lists(st.sampled_from(STRUCT_FIELDS), min_size=1, unique=True))
        children = [small(rng, draw(types), rows) for _ in fields]
        mask = pa.array(rng.random(rows) < 0.2)
        return pa.StructArray.from_arrays(children, fields, mask=mask)
    if shape == "list of list" and draw(st.integers(0, 5)) == 0:
        # Without a fixed size, which the lists of another file would not have.
        return pa.array([None if n < 0 else [None] * n for n in rng.integers(-1, 4, rows)], NULLS)
    values = small(rng, draw(types), 2 * rows)
    if shape == "list of list":
        return lists(rng, lists(rng, values, rows), rows)
    return lists(rng, values, rows)


@st.composite
def tables(draw):
    """Two or three tables that share some columns, of types of one family each."""
    names = draw(st.lists(st.sampled_from("abcde"), min_size=1, max_size=4, unique=True))
    families = {name: draw(st.sampled_from(FAMILIES)) for name in names}
    shapes = {name: draw(st.sampled_from(SHAPES)) for name in names}
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    found = []
    for _ in range(draw(st.integers(2, 3))):
        rows = draw(st.sampled_from([0, 1, 7, 40]))
        kept = draw(st.permutations(names))[: draw(st.integers(1, len(names)))]
        arrays = [draw(columns(rng, shapes[name], families[name], rows)) for name in kept]
        found.append(pa.table(arrays, kept))
    return found


def plain(arrow):
    """The type without what is not of the values: a dictionary."""
    if pa.types.is_dictionary(arrow):
        return arrow.value_type
    if pa.types.is_struct(arrow):
        return pa.struct([pa.field(f.name, plain(f.type)) for f in arrow])
    if pa.types.is_fixed_size_list(arrow):
        return pa.list_(plain(arrow.value_type), arrow.list_size)
    if pa.types.is_list(arrow):
        return pa.list_(plain(arrow.value_type))
    return arrow


def unify(paths):
    """The schema of all files; None where pyarrow knows none."""
    schemas = [pq.read_schema(path) for path in paths]
    plains = [pa.schema([pa.field(f.name, plain(f.type)) for f in s]) for s in schemas]
    try:
        return pa.unify_schemas(plains, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return None


def read(paths, unified):
    """All rows as pyarrow reads them; decimals by their own values, which its casts miss."""
    tables = [pq.read_table(path, partitioning=None) for path in paths]
    columns = {}
    for field in unified:
        parts = [table[field.name] for table in tables if field.name in table.column_names]
        if any("decimal" in str(part.type) for part in parts):
            listed = [
                value
                for table in tables
                for value in (
                    table[field.name].to_pylist()
                    if field.name in table.column_names
                    else [None] * table.num_rows
                )
            ]
            values = [cast(value, field.type) for value in listed]
            columns[field.name] = pa.array(values, field.type)
        else:
            schema = pa.schema([field])
            columns[field.name] = ds.dataset(paths, schema=schema).to_table()[field.name]
    return pa.table(columns)


def cast(value, arrow):
    """Numbers of Python, in lists and structs too, as what a type takes."""
    if isinstance(value, list):
        return [cast(item, arrow.value_type) for item in value]
    if isinstance(value, dict):
        return {name: cast(value.get(name), arrow.field(name).type) for name in value}
    if value is None:
        return None
    if pa.types.is_decimal(arrow):
        return Decimal(value).quantize(Decimal(1).scaleb(-arrow.scale), context=WIDE)
    return float(value)


@EXAMPLES
@given(tables=tables(), shuffle=st.booleans(), threads=st.sampled_from([0, 3]))
def test_files_are_read_as_their_unified_schema(tables, shuffle, threads):
    with tempfile.TemporaryDirectory() as directory:
        paths = []
        for number, table in enumerate(tables):
            paths.append(f"{directory}/{number}.parquet")
            pq.write_table(table, paths[-1], row_group_size=9)
        unified = unify(paths)
        source = Source.open(paths)
        if unified is None:
            with pytest.raises(SchemaError, match=r"\.parquet and .*\.parquet"):
                plan_columns(source, check_nulls=False)
            return
        want = read(paths, unified)
        names = plan_columns(source, check_nulls=False).schema
        asked = {name: Column(name, valid=True) for name in names}
        with FastParquetDataset(
            paths, columns=asked, batch_size=50, shuffle=shuffle, threads=threads
        ) as dataset:
            assert_same_rows(dataset, want, asked, ordered=not shuffle)
