"""filters=: row groups whose Bloom filters hold no value of a filter are not read."""

import datetime
import decimal
import inspect

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from fastload import IO, FastParquetDataset
from fastload.errors import CorruptFileError
from support.stored_dataset import served
from support.thrift import build, parse

if "bloom_filter_options" not in inspect.signature(pq.write_table).parameters:
    pytest.skip("this pyarrow writes no Bloom filters", allow_module_level=True)

GROUPS, ROWS = 6, 500
DAY = datetime.date(2000, 1, 1)
NUMBERS = np.random.default_rng(0).permutation(GROUPS * ROWS)
ZONED = datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc)


def values(arrow):
    """Different values of a type, in no order, so that bounds of row groups tell nothing."""
    if pa.types.is_string(arrow) or pa.types.is_large_string(arrow):
        made = [f"user {n}é" for n in NUMBERS]
    elif pa.types.is_decimal(arrow):
        made = [(int(n) - 1000) * decimal.Decimal("0.01") for n in NUMBERS]
    elif pa.types.is_date(arrow):
        made = [DAY + datetime.timedelta(days=int(n) * 3) for n in NUMBERS]
    elif pa.types.is_timestamp(arrow):
        made = [ZONED + datetime.timedelta(seconds=int(n)) for n in NUMBERS]
        made = made if arrow.tz else [one.replace(tzinfo=None) for one in made]
    elif pa.types.is_integer(arrow):
        first = {pa.uint64(): 2**63, pa.uint32(): 2**31, pa.uint16(): 0}.get(arrow, -1000)
        made = [int(n) + first for n in NUMBERS]
    elif pa.types.is_floating(arrow):
        made = [(int(n) + 1) / 4 for n in NUMBERS]
    else:
        made = [int(n).to_bytes(4, "big") for n in NUMBERS]
    return pa.array(made, arrow)


TYPES = [
    pa.int16(),
    pa.int32(),
    pa.int64(),
    pa.uint16(),
    pa.uint32(),
    pa.uint64(),
    pa.float32(),
    pa.float64(),
    pa.string(),
    pa.large_string(),
    pa.binary(),
    pa.binary(4),
    pa.decimal128(7, 2),
    pa.decimal128(17, 2),
    pa.date32(),
    pa.timestamp("s"),
    pa.timestamp("ms", "UTC"),
    pa.timestamp("us"),
    pa.timestamp("ns"),
]


def write(path, columns, bloom=("x",), *, ndv=ROWS, **options):
    """Write a file whose columns `bloom` have Bloom filters and no statistics."""
    table = columns if isinstance(columns, pa.Table) else pa.table(columns)
    if "n" not in table.column_names:
        table = table.append_column("n", pa.array(np.arange(table.num_rows)))
    more = {"row_group_size": ROWS, "write_statistics": ["n"], "compression": "none"} | options
    filters = {name: {"ndv": ndv, "fpp": 1e-6} for name in bloom}
    pq.write_table(table, path, bloom_filter_options=filters, **more)
    return table


def damage(path, column, but=()):
    """Overwrite the pages of a column in all row groups but some."""
    metadata = pq.read_metadata(path)
    data = bytearray(path.read_bytes())
    for group in set(range(metadata.num_row_groups)) - set(but):
        chunk = metadata.row_group(group).column(metadata.schema.names.index(column))
        start = chunk.dictionary_page_offset or chunk.data_page_offset
        data[start : start + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
    path.write_bytes(data)


def rows_of(path, filters, **options):
    with FastParquetDataset(path, columns=["n"], filters=filters, **options) as dataset:
        return [n for batch in dataset for n in batch["n"].tolist()]


@pytest.mark.parametrize("dictionary", [False, True])
@pytest.mark.parametrize("arrow", TYPES, ids=str)
def test_only_row_groups_with_the_values_are_read(tmp_path, arrow, dictionary):
    column = values(arrow)
    path = tmp_path / "a.parquet"
    # Bounds tell that stored integers of 32 bits are inside their type of 16.
    statistics = ["x", "n"] if arrow in (pa.int16(), pa.uint16()) else ["n"]
    for as_integers in (False, True):
        table = write(
            path,
            {"x": column},
            use_dictionary=dictionary,
            write_statistics=statistics,
            store_decimal_as_integer=as_integers,
        )
        damage(path, "x", but=[1, 4])
        first, second = ROWS + 7, 4 * ROWS + 499
        field = pc.field("x")
        members = pa.array([column[first].as_py(), column[second].as_py()], arrow)
        for filters, found in [
            (field == column[first], [first]),
            ((field == column[second]) | (field == column[first]), [first, second]),
            ((field == column[first]) & (pc.field("n") >= 0), [first]),
            ((field == column[first]) & (pc.field("n") * 2 >= 0), [first]),
            ([("x", "==", column[first])], [first]),
        ]:
            if not isinstance(filters, list):
                assert table.filter(filters)["n"].to_pylist() == found
            assert rows_of(path, filters) == found
        split = rows_of(path, field == column[first], split=(None, 0.0, 1.0))
        assert split == [first]
        if not pa.types.is_floating(arrow):
            assert rows_of(path, field.isin(members)) == [first, second]
        if not pa.types.is_floating(arrow) and arrow != pa.uint64():
            assert rows_of(path, [("x", "in", members.to_pylist())]) == [first, second]
        # Every row group may have other values, or nulls.
        with pytest.raises(CorruptFileError):
            rows_of(path, field != column[first])
        if "x" not in statistics:
            with pytest.raises(CorruptFileError):
                rows_of(path, (field == column[first]) | field.is_null())


def test_without_bloom_filters_every_row_group_is_read(tmp_path):
    path = tmp_path / "a.parquet"
    write(path, {"x": values(pa.string())}, bloom=())
    damage(path, "x", but=[1])
    with pytest.raises(CorruptFileError):
        rows_of(path, [("x", "==", f"user {NUMBERS[ROWS]}é")])


def test_bloom_filters_of_several_columns(tmp_path):
    path = tmp_path / "a.parquet"
    s, i = values(pa.string()), values(pa.int64())
    table = write(path, {"s": s, "i": i}, bloom=("s", "i"))
    damage(path, "s", but=[2])
    s_value, i_value = pc.field("s") == s[2 * ROWS], pc.field("i") == i[2 * ROWS]
    absent = pc.field("i") == i[0]
    for filters, found in [
        (s_value & i_value, [2 * ROWS]),
        (s_value & absent, []),
        (s_value & (i_value | absent), [2 * ROWS]),
        (~(~s_value | ~i_value), [2 * ROWS]),
    ]:
        assert table.filter(filters)["n"].to_pylist() == found
        assert rows_of(path, filters) == found
    write(path, {"s": s, "i": i}, bloom=("s", "i"))
    assert rows_of(path, s_value | absent) == [0, 2 * ROWS]


def test_a_part_of_filters_that_pyarrow_evaluates_prunes(tmp_path):
    path = tmp_path / "a.parquet"
    words = values(pa.string())
    table = write(path, {"x": words, "y": np.arange(GROUPS * ROWS) % 7})
    word = pc.field("x") == words[3 * ROWS + 1]
    odd = pc.field("y") + 1 > 0
    damage(path, "x", but=[3])
    for filters in (word & odd, odd & (pc.field("x") > "") & word, ~(~word | ~odd)):
        found = rows_of(path, filters)
        assert found == table.filter(filters)["n"].to_pylist() == [3 * ROWS + 1]
    with pytest.raises(CorruptFileError):
        rows_of(path, word | ~odd)


def test_nulls_are_found(tmp_path):
    path = tmp_path / "a.parquet"
    column = values(pa.int64())
    with_nulls = pa.array([None if i % 100 == 3 else v for i, v in enumerate(column.to_pylist())])
    table = write(path, {"x": with_nulls})
    field = pc.field("x")
    for filters in [
        (field == with_nulls[5]) | field.is_null(),
        field.isin(pa.array([with_nulls[5].as_py(), None])),
        ~(field == with_nulls[5]),
    ]:
        assert rows_of(path, filters) == table.filter(filters)["n"].to_pylist()


@pytest.mark.parametrize("arrow", [pa.float32(), pa.float64()])
def test_zeros_and_nans_are_found(tmp_path, arrow):
    path = tmp_path / "a.parquet"
    table = write(path, {"x": pa.array([0.0, -0.0, float("nan"), 1.0], arrow)}, row_group_size=1)
    field = pc.field("x")
    for value in (0.0, -0.0, float("nan"), 1.0):
        for filters in (field == value, ~(field != value), (field == value) & (field + 0 < 9)):
            assert rows_of(path, filters) == table.filter(filters)["n"].to_pylist()
    for filters in (field.isin([0.0]), field.isin([-0.0, 1.0]), pc.is_nan(field)):
        assert rows_of(path, filters) == table.filter(filters)["n"].to_pylist()


@pytest.mark.parametrize(
    "types",
    [
        (pa.int32(), pa.int64()),
        (pa.uint32(), pa.int64()),
        (pa.int16(), pa.int32()),
        (pa.int32(), pa.float64()),
        (pa.float32(), pa.float64()),
        (pa.timestamp("ms"), pa.timestamp("us")),
        (pa.decimal128(9, 2), pa.decimal128(12, 4)),
        (pa.string(), pa.large_string()),
        (pa.binary(4), pa.binary()),
    ],
    ids=str,
)
def test_files_of_different_types(tmp_path, types):
    tables = []
    for index, arrow in enumerate(types):
        columns = {"x": values(arrow), "n": np.arange(GROUPS * ROWS) + index * GROUPS * ROWS}
        tables.append(write(tmp_path / f"{index}.parquet", columns))
    table = pa.concat_tables(tables, promote_options="permissive")
    column = table["x"]
    for row in (1, GROUPS * ROWS - 1, GROUPS * ROWS + 5):
        filters = pc.field("x") == column[row]
        found = rows_of(tmp_path, filters)
        assert found == table.filter(filters)["n"].to_pylist()
        assert row in found


def test_integers_outside_their_type_are_found(tmp_path):
    # Arrow truncates a stored 300 of an INT_8 column, which the Bloom filter has as 300.
    path = tmp_path / "a.parquet"
    write(path, {"x": pa.array([300, 1, 2, 300], pa.int32())}, store_schema=False)
    edit_footer(path, lambda footer: footer[2][1][1][1].update({6: (5, 15)}))
    table = pq.read_table(path)
    assert table["x"].type == pa.int8()
    assert rows_of(path, pc.field("x") == 44) == [0, 3]


def edit_footer(path, edit):
    data = path.read_bytes()
    length = int.from_bytes(data[-8:-4], "little")
    footer, _ = parse(data, len(data) - 8 - length)
    edit(footer)
    tail = build(footer)
    path.write_bytes(data[: -8 - length] + tail + len(tail).to_bytes(4, "little") + b"PAR1")


def chunks_of(footer):
    return [group[1][1][1][0][3][1] for group in footer[4][1][1]]


OFFSET, LENGTH = 14, 15  # ids of fields of ColumnMetaData


def test_old_writers_leave_the_length_out(tmp_path):
    path = tmp_path / "a.parquet"
    column = values(pa.string())
    write(path, {"x": column})
    edit_footer(path, lambda footer: [chunk.pop(LENGTH) for chunk in chunks_of(footer)])
    assert pq.read_metadata(path).row_group(0).column(0).bloom_filter_length is None
    damage(path, "x", but=[1])
    assert rows_of(path, [("x", "==", column[ROWS].as_py())]) == [ROWS]


HEADER_BYTES = 16


@pytest.mark.parametrize("sized", [True, False])
@pytest.mark.parametrize("at", range(HEADER_BYTES))
def test_damaged_headers_are_ignored(tmp_path, at, sized):
    path = tmp_path / "a.parquet"
    column = values(pa.string())
    write(path, {"x": column})
    if not sized:
        edit_footer(path, lambda footer: [chunk.pop(LENGTH) for chunk in chunks_of(footer)])
    metadata = pq.read_metadata(path)
    data = bytearray(path.read_bytes())
    for group in range(GROUPS):
        offset = metadata.row_group(group).column(0).bloom_filter_offset
        header, end = parse(data, offset)
        assert end - offset == HEADER_BYTES
        assert set(header) == {1, 2, 3, 4}
        data[offset + at] ^= 0x24
    path.write_bytes(data)
    for row in (0, 3 * ROWS + 8):
        assert rows_of(path, [("x", "==", column[row].as_py())]) == [row]


@pytest.mark.parametrize(
    ("offset", "length"),
    [
        (1 << 60, None),
        (-5, 1041),
        (4, None),
        (None, 0),
        (None, -1),
        (None, 1 << 30),
        (None, 33),
        (1 << 60, 1041),
        (4, 1041),
    ],
)
def test_places_that_hold_no_bloom_filter_are_ignored(tmp_path, offset, length):
    path = tmp_path / "a.parquet"
    column = values(pa.string())
    write(path, {"x": column})

    def edit(footer):
        for chunk in chunks_of(footer):
            if offset is not None:
                chunk[OFFSET] = (6, offset)
            chunk.pop(LENGTH)
            if length is not None:
                chunk[LENGTH] = (5, length)

    edit_footer(path, edit)
    for row in (0, 3 * ROWS + 8):
        assert rows_of(path, [("x", "==", column[row].as_py())]) == [row]


@pytest.mark.parametrize("name", ["i", "s", "f"])
def test_duckdb(tmp_path, name):
    duckdb = pytest.importorskip("duckdb")
    # Even numbers, then odd ones: bounds tell nothing. DuckDB's least row group has 2,048 rows.
    numbers = np.random.default_rng(1).integers(0, 50, 3000) * 2 + (np.arange(3000) >= 2048)
    few = pa.table({"i": numbers, "s": [f"w{n}" for n in numbers], "f": numbers / 2 + 1})
    few = few.append_column("n", pa.array(np.arange(3000)))
    path = tmp_path / "a.parquet"
    duckdb.sql(f"copy few to '{path}' (format parquet, row_group_size 2048)")
    metadata = pq.read_metadata(path)
    assert metadata.num_row_groups == 2
    table = pq.read_table(path)
    names = metadata.schema.names
    chunk = metadata.row_group(1).column(names.index(name))
    assert chunk.bloom_filter_offset is not None
    column = table[name].to_pylist()
    filters = pc.field(name) == column[0]
    want = table.filter(filters)["n"].to_pylist()
    for row in range(0, 3000, 500):
        each = pc.field(name) == column[row]
        assert rows_of(path, each) == table.filter(each)["n"].to_pylist()
    damage(path, name, but=[0])
    assert rows_of(path, filters) == want


@pytest.mark.parametrize("transport", ["fsspec", "native"])
@pytest.mark.parametrize("sized", [True, False])
def test_a_store_is_asked_for_few_bytes(tmp_path, monkeypatch, transport, sized):
    monkeypatch.setenv("FASTLOAD_CACHE_DIR", str(tmp_path / "cache"))
    rows = 20_000
    numbers = np.random.default_rng(0).permutation(GROUPS * rows)
    path = tmp_path / "a.parquet"
    columns = {"x": [f"user number {n}" for n in numbers], "n": np.arange(GROUPS * rows)}
    write(path, columns, row_group_size=rows, ndv=rows, use_dictionary=False)
    if not sized:
        edit_footer(path, lambda footer: [chunk.pop(LENGTH) for chunk in chunks_of(footer)])
    metadata = pq.read_metadata(path)

    def pages_of(group):
        chunk = metadata.row_group(group).column(0)
        start = chunk.data_page_offset
        return start, start + chunk.total_compressed_size

    with served([path]) as server:
        filters = [("x", "in", [f"user number {n}" for n in numbers[[rows, 2 * rows - 1]]])]
        found = rows_of(
            "gs://bucket/train/a.parquet",
            filters,
            io=IO(transport=transport),
            storage_options=server.options,
        )
        asked = [request.range.removeprefix("bytes=") for request in server.media_requests()]
    assert found == [rows, 2 * rows - 1]
    read = set()
    for text in asked:
        start, stop = (int(number) for number in text.split("-"))
        read |= {g for g in range(GROUPS) if start < pages_of(g)[1] and stop >= pages_of(g)[0]}
    assert read == {1}
