"""Rows that the core finds by conditions are those that Arrow's own evaluation finds."""

import datetime
import decimal
import inspect
import tempfile

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fastload import SchemaError
from fastload.rows.conditions import RowConditions
from fastload.rows.filter_schema import FilterSchema
from fastload.rows.finder import CoreRowFinder
from fastload.rows.predicate import Predicate
from fastload.rows.value_sets import Keys, ValueSet
from fastload.source.source import Source

NAN, INF = float("nan"), float("inf")
FLOATS = [0.0, -0.0, 1.5, -1.5, 0.1, 5e-324, -1e-50, 1e-45, 3.4e38, 1e300, INF, -INF, NAN]
WORDS = ["", "a", "ab", "b", "é", "\U0001f40d", "x" * 40]
EDGES = {
    "b": (pa.bool_(), [False, True]),
    "i8": (pa.int8(), [-128, -1, 0, 5, 127]),
    "i16": (pa.int16(), [-(2**15), 3, 2**15 - 1]),
    "i32": (pa.int32(), [-(2**31), -7, 0, 2**31 - 1]),
    "i64": (pa.int64(), [-(2**63), -(2**53) - 1, -1, 0, 1, 2**53 + 1, 2**63 - 1]),
    "u8": (pa.uint8(), [0, 200, 255]),
    "u16": (pa.uint16(), [0, 60_000]),
    "u32": (pa.uint32(), [0, 2**31, 2**32 - 1]),
    "u64": (pa.uint64(), [0, 1, 2**63 - 1, 2**63, 2**64 - 1]),
    "f32": (pa.float32(), FLOATS),
    "f64": (pa.float64(), FLOATS),
    "day": (pa.date32(), [-800_000, 0, 19_000, 20_000]),
    "when": (pa.timestamp("us"), [-(2**60), 0, 10**15]),
    "zoned": (pa.timestamp("ms", "UTC"), [0, 10**12, 10**12 + 1]),
    "s": (pa.string(), WORDS),
    "large": (pa.large_string(), WORDS),
    "d": (pa.decimal128(7, 2), [decimal.Decimal(n) / 4 for n in (-6, 0, 1, 4, 300_000)]),
    "wide": (pa.decimal128(18, 0), [-(10**18) + 1, -1, 0, 10**18 - 1]),
    "fixed": (pa.binary(2), [b"ab", b"\x00\xff", b"zz"]),
    "raw": (pa.binary(), [word.encode() for word in WORDS] + [b"\x00\xff", b"\xff" * 9]),
}
BYTES = (pa.string(), pa.large_string(), pa.binary(), pa.binary(2))
BLOOM = "bloom_filter_options" in inspect.signature(pq.write_table).parameters
OPERATORS = [
    lambda a, b: a == b,
    lambda a, b: a != b,
    lambda a, b: a < b,
    lambda a, b: a <= b,
    lambda a, b: a > b,
    lambda a, b: a >= b,
]


def values_of(name):
    arrow, edges = EDGES[name]
    if pa.types.is_floating(arrow):
        return st.sampled_from(edges) | st.floats(width=32 if arrow == pa.float32() else 64)
    if pa.types.is_boolean(arrow) or pa.types.is_decimal(arrow) or arrow in BYTES:
        return st.sampled_from(edges)
    return st.sampled_from(edges) | st.integers(min(edges), max(edges))


@st.composite
def columns(draw, name):
    """A column of some rows: all over the place, in order, or few different values."""
    arrow, _ = EDGES[name]
    few = draw(st.lists(values_of(name), min_size=1, max_size=8))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    values = [few[i] for i in rng.integers(0, len(few), 400)]
    if draw(st.booleans()):
        values.sort(key=lambda v: (v != v, v))
    if name == "wide":
        values = [decimal.Decimal(v) for v in values]
    nulls = draw(st.sampled_from([0, 0, 0.1, 0.9, 1]))
    start = draw(st.integers(0, 400))
    gone = (rng.random(400) < nulls) & (np.arange(400) >= start)
    kept = [None if g else v for g, v in zip(gone, values, strict=True)]
    return pa.array(kept, arrow if not pa.types.is_floating(arrow) else pa.float64()).cast(
        arrow, safe=False
    )


@st.composite
def leaves(draw, names):
    name = draw(st.sampled_from(names))
    arrow, _ = EDGES[name]
    field = pc.field(name)
    kind = draw(st.sampled_from(["compare"] * 4 + ["in", "null", "valid", "nan", "bare"]))
    if kind == "null":
        return field.is_null(nan_is_null=draw(st.booleans()))
    if kind == "valid":
        return field.is_valid()
    if kind == "nan" and pa.types.is_floating(arrow):
        return pc.is_nan(field)
    if kind == "bare" and arrow == pa.bool_():
        return field
    if kind == "in":
        members = draw(st.lists(values_of(name) | st.none(), max_size=6))
        return field.isin(pa.array(members, arrow, safe=False))
    operator = draw(st.sampled_from(OPERATORS[:2] if arrow in BYTES else OPERATORS))
    if pa.types.is_floating(arrow) and draw(st.booleans()):
        return operator(field, draw(st.sampled_from(FLOATS) | st.integers(-3, 3)))
    if arrow == pa.int32() and draw(st.booleans()):
        return operator(field, draw(st.sampled_from([0.1, 1e300, -1e300])))
    value = pa.scalar(draw(values_of(name)), pa.float64() if name == "f32" else arrow)
    if draw(st.booleans()):
        return operator(pa_literal(value.cast(arrow, safe=False)), field)
    return operator(field, value.cast(arrow, safe=False))


def pa_literal(value):
    return pc.scalar(value)


def trees(names):
    return st.recursive(
        leaves(names),
        lambda parts: (
            st.tuples(parts, parts).map(lambda p: p[0] & p[1])
            | st.tuples(parts, parts).map(lambda p: p[0] | p[1])
            | parts.map(lambda p: ~p)
        ),
        max_leaves=6,
    )


def found_rows(directory, filters):
    """The rows of all files that the core finds; None if the filters are no conditions."""
    source = Source.open(directory)
    schema = FilterSchema.of(source)
    finder = CoreRowFinder.of(source, schema, Predicate(filters))
    if finder is None:
        return None
    rows = []
    first = 0
    found = finder.find(range(len(source.files)), skip=False)
    for file, (kept, _) in zip(source.files, found, strict=True):
        for group, count in enumerate(file.footer.row_group_rows):
            offset = kept.offsets[group]
            passes = np.full(count, kept.counts[group] > 0)
            if offset >= 0:
                bits = np.unpackbits(kept.bits[offset:], bitorder="little")
                passes = bits[:count].astype(bool)
            assert passes.sum() == kept.counts[group]
            rows.append(first + np.flatnonzero(passes))
            first += count
    return np.concatenate(rows).tolist()


@settings(max_examples=settings.default.max_examples // 2)
@given(st.data())
def test_conditions_find_what_arrow_finds(data):
    names = data.draw(st.lists(st.sampled_from(sorted(EDGES)), min_size=1, max_size=3, unique=True))
    table = pa.table({name: data.draw(columns(name)) for name in names})
    filters = data.draw(trees(names))
    bloom = data.draw(st.lists(st.sampled_from(names), unique=True)) if BLOOM else []
    more = {"bloom_filter_options": {n: {"ndv": 9} for n in bloom if n != "b"}} if BLOOM else {}
    numbered = table.append_column("n", pa.array(np.arange(table.num_rows)))
    want = numbered.filter(filters)["n"].to_pylist()
    with tempfile.TemporaryDirectory() as directory:
        pq.write_table(
            table,
            f"{directory}/a.parquet",
            row_group_size=data.draw(st.sampled_from([7, 150, 400])),
            data_page_size=data.draw(st.sampled_from([1, 200, 1 << 20])),
            write_batch_size=data.draw(st.sampled_from([8, 37])),
            dictionary_pagesize_limit=data.draw(st.sampled_from([20, 1 << 20])),
            use_dictionary=data.draw(st.booleans()),
            data_page_version=data.draw(st.sampled_from(["1.0", "2.0"])),
            write_page_index=data.draw(st.booleans()),
            write_statistics=data.draw(st.booleans()),
            compression=data.draw(st.sampled_from(["none", "snappy"])),
            store_decimal_as_integer=data.draw(st.booleans()),
            **more,
        )
        found = found_rows(directory, filters)
    assert found is None or found == want
    if not any(pa.types.is_floating(EDGES[name][0]) for name in names):
        assert found is not None


FILES_THAT_DIFFER = [
    {
        "a": pa.array([1, None, 3, 200], pa.int16()),
        "t": pa.array([1, 2, 3, None], pa.timestamp("s")),
    },
    {"a": pa.array([2.5, NAN, -1e9, None]), "t": pa.array([1500, 2000, 0, 1], pa.timestamp("ms"))},
    {"b": pa.array([5, 6], pa.uint8())},
]


@pytest.mark.parametrize(
    "filters",
    [
        pc.field("a") > 2,
        ~(pc.field("a") > 2),
        pc.field("a").is_null() | (pc.field("b") == 6),
        pc.field("t") <= pa.scalar(2000, pa.timestamp("ms")),
        pc.field("b") > 5,
        (pc.field("key") == 1) & ~(pc.field("a") < 0),
        (pc.field("key") >= 1) | (pc.field("a") == 200),
    ],
    ids=str,
)
def test_files_that_differ(tmp_path, filters):
    tables = []
    for key, columns_of_file in enumerate(FILES_THAT_DIFFER):
        table = pa.table(columns_of_file)
        (tmp_path / f"key={key}").mkdir()
        pq.write_table(table, tmp_path / f"key={key}" / "a.parquet", row_group_size=2)
        keys = pa.array([key] * table.num_rows, pa.int32())
        tables.append(table.append_column("key", keys))
    table = pa.concat_tables(tables, promote_options="permissive")
    table = table.append_column("n", pa.array(np.arange(table.num_rows)))
    assert found_rows(tmp_path, filters) == table.filter(filters)["n"].to_pylist()


SCHEMA = pa.schema([("a", pa.int64()), ("u", pa.uint64()), ("f", pa.float64()), ("s", pa.string())])


@pytest.mark.parametrize(
    "filters",
    [
        pc.field("s") >= "x",
        pc.field("a") < pc.field("f"),
        pc.field("a") + 1 < 5,
        pc.field("a") < 0.5,  # an integer that no float equals is an error for Arrow
        pc.field("u") < 5,  # so is one that no int64 equals
        pc.field("f").isin([1.0, NAN]),
        pc.is_in(pc.field("a"), pa.array([1, None]), skip_nulls=True) & (pc.field("s") > "a"),
        pc.field("missing") < 5,
        pc.scalar(True),
    ],
    ids=str,
)
def test_what_is_more_than_conditions_is_left_to_arrow(filters):
    assert RowConditions.of(filters, SCHEMA) is None


def test_conditions_on_a_column_become_one():
    a, f = pc.field("a"), pc.field("f")
    found = RowConditions.of((a >= 5) & (f < 1) & ~((a > 9) | (a == 7)), SCHEMA)
    assert found.names == ("a", "f")
    assert found.program == (0, 1, -1)
    assert [(i, ranges.tolist(), nulls) for i, ranges, nulls in found.tests[:1]] == [
        (0, [[5, 6], [8, 9]], False)
    ]
    found = RowConditions.of(a.is_null() | (a < datetime.date(1970, 1, 5).day), SCHEMA)
    assert [(ranges.tolist(), nulls) for _, ranges, nulls in found.tests] == [
        ([[-(2**63), 4]], True)
    ]


sets = st.lists(st.tuples(st.integers(-70, 70), st.integers(-70, 70)), max_size=5)


@given(sets, sets)
@example([(-(2**63), 5)], [(3, 2**63 - 1)])
def test_sets_are_sets(left, right):
    a, b = ValueSet.of(left), ValueSet.of(right)
    keys = range(-75, 75)
    for key in keys:
        in_left, in_right = (any(x <= key <= y for x, y in r) for r in (left, right))
        assert (key in a) == in_left
        assert (key in ~a) != in_left
        assert (key in a | b) == (in_left or in_right)
        assert (key in a & b) == (in_left and in_right)
    assert ~~a == a


def test_refusals_are_those_of_arrow():
    with pytest.raises(SchemaError, match="fit the columns' types"):
        FilterSchema(SCHEMA, "a.parquet", {}).predicate(pc.field("a") == "x", None)
    assert Keys().members([3, 4, 6]).ranges == ((3, 4), (6, 6))
