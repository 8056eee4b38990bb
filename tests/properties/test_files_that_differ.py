"""Files whose schemas differ give what pyarrow reads through its permissive unification."""

import tempfile
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arrow_values import Values, assert_holds, values_of
from fastload import Column, FastParquetDataset, SchemaError
from fastload.schema import plan_columns
from fastload.source import Source

NUMBERS = [
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64()),
    *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    *(pa.float16(), pa.float32(), pa.float64()),
    *(pa.decimal128(9, 2), pa.decimal128(18, 4), pa.decimal256(50, 3)),
]
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


def plain(arrow):
    """The type without what is not of the values: a dictionary."""
    if pa.types.is_dictionary(arrow):
        return arrow.value_type
    if pa.types.is_struct(arrow):
        return pa.struct([pa.field(f.name, plain(f.type)) for f in arrow])
    return arrow


@st.composite
def tables(draw):
    """Two or three tables that share some columns, of types of one family each."""
    names = draw(st.lists(st.sampled_from("abcde"), min_size=1, max_size=4, unique=True))
    families = {name: draw(st.sampled_from(FAMILIES)) for name in names}
    nested = {name: draw(st.sampled_from([False, False, False, True])) for name in names}
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    found = []
    for _ in range(draw(st.integers(2, 3))):
        rows = draw(st.sampled_from([0, 1, 7, 40]))
        kept = draw(st.permutations(names))[: draw(st.integers(1, len(names)))]
        columns = {}
        for name in kept:
            types = st.sampled_from(families[name])
            if not nested[name]:
                columns[name] = small(rng, draw(types), rows)
                continue
            fields = draw(st.lists(st.sampled_from(STRUCT_FIELDS), min_size=1, unique=True))
            children = [small(rng, draw(types), rows) for _ in fields]
            mask = pa.array(rng.random(rows) < 0.2)
            columns[name] = pa.StructArray.from_arrays(children, fields, mask=mask)
        found.append(pa.table(columns))
    return found


def unify(paths):
    """The schema of all files; None where pyarrow knows none."""
    schemas = [pq.read_schema(path) for path in paths]
    plains = [pa.schema([pa.field(f.name, plain(f.type)) for f in s]) for s in schemas]
    try:
        return pa.unify_schemas(plains, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return None


def read(paths, unified):
    """All rows of the leaves as pyarrow reads them; those with decimals by their own values."""
    tables = [pq.read_table(path, partitioning=None).flatten() for path in paths]
    leaves = unified.empty_table().flatten().schema
    decimals = {
        field.name for table in tables for field in table.schema if pa.types.is_decimal(field.type)
    }
    try:
        table = ds.dataset(paths, schema=unified).to_table().flatten()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        # It casts no decimals to halves, and integers to wide decimals only.
        assert decimals
        table = None
    names = [leaf.name for leaf in leaves if table is not None or leaf.name in decimals]
    return {
        name: floats(tables, name, leaves.field(name).type)
        if name in decimals
        else values_of(table[name])
        for name in names
    }


def floats(tables, name, arrow):
    """A leaf of which some files have decimals: correctly rounded, which pyarrow's casts miss."""
    listed = []
    for table in tables:
        there = name in table.column_names
        listed += table[name].to_pylist() if there else [None] * table.num_rows
    valid = np.array([value is not None for value in listed], bool)
    kind = np.float64 if pa.types.is_decimal(arrow) else arrow.to_pandas_dtype()
    return Values(np.array([float(value or 0) for value in listed]).astype(kind), valid)


@settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
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
        leaves = unified.empty_table().flatten().column_names
        assert list(plan_columns(source, check_nulls=False).schema) == leaves
        columns = {name: Column(name, valid=True) for name in want}
        with FastParquetDataset(
            paths, columns=columns, batch_size=50, shuffle=shuffle, threads=threads, provenance=True
        ) as dataset:
            starts = np.concatenate([[0], np.cumsum([table.num_rows for table in tables])])
            for batch in dataset:
                rows = starts[batch["__file__"].numpy()] + batch["__row__"].numpy()
                for name, values in want.items():
                    assert_holds(batch[name], values, rows, fill=_nothing(values), place=name)
                    assert (batch[f"{name}__valid"].numpy() == values.valid[rows]).all(), name


def _nothing(values):
    return None if values.kind else 0
