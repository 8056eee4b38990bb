"""filters=: pages without a row that stays are neither read nor decoded."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from fastload import IO, FastParquetDataset, NullValueError
from fastload.errors import CorruptFileError
from support.thrift import build, parse


def test_pages_without_a_row_that_stays_are_not_decoded(tmp_path):
    rows = 40_000
    table = pa.table({"key": np.arange(rows), "value": np.arange(rows) * 3})
    path = tmp_path / "a.parquet"
    pq.write_table(
        table,
        path,
        use_dictionary=False,
        compression="none",
        data_page_size=4000,
        write_page_checksum=True,
        write_statistics=["key"],
    )
    filters = (pc.field("key") >= 20_000) & (pc.field("key") < 20_100)
    dataset = FastParquetDataset(path, columns=["value"], filters=filters)
    # Bytes of pages that hold none of those rows.
    chunk = pq.read_metadata(path).row_group(0).column(1)
    data = bytearray(path.read_bytes())
    for share in (0.25, 0.75):
        at = chunk.data_page_offset + int(chunk.total_compressed_size * share)
        data[at : at + 8] = b"\xff" * 8
    damaged = tmp_path / "damaged.parquet"
    damaged.write_bytes(data)
    dataset = FastParquetDataset(
        damaged, columns=["value"], filters=filters, io=IO(verify_crc=True)
    )
    assert [v for b in dataset for v in b["value"].tolist()] == [
        3 * k for k in range(20_000, 20_100)
    ]
    with pytest.raises(CorruptFileError):
        list(FastParquetDataset(damaged, columns=["value"], io=IO(verify_crc=True)))


def indexed_file(path, rows=400_000, **options):
    number = np.arange(rows)
    offsets = np.concatenate([[0], np.cumsum(number % 7)])
    lists = pa.ListArray.from_arrays(offsets, np.arange(offsets[-1]))
    table = pa.table(
        {
            "number": number,
            "category": number % 1000 * 10**9,
            "text": pa.array([f"text {n % 5000}" for n in number]),
            "nullable": pa.array(number, mask=(number % 1000 == 123) & (number > 300_000)),
            "lists": lists,
            "deep": pa.ListArray.from_arrays(np.arange(rows + 1), lists),
        }
    )
    pq.write_table(
        table,
        path,
        use_dictionary=["category"],
        compression="none",
        data_page_size=20_000,
        write_page_index=True,
        **options,
    )
    return path


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("column", ["number", "category", "text", "lists", "deep"])
def test_bytes_of_pages_without_a_row_that_stays_are_not_read(tmp_path, column, version, shuffle):
    path = indexed_file(tmp_path / "a.parquet", data_page_version=version)
    number = pc.field("number")
    filters = (
        ((number >= 100_000) & (number < 102_000))
        | ((number >= 301_500) & (number < 302_000))
        | (number == 399_999)
    )
    columns = ["number", column] if column != "number" else ["number"]
    dataset = FastParquetDataset(
        path, columns=columns, filters=filters, batch_size=500, shuffle=shuffle
    )
    kept = [*range(100_000, 102_000), *range(301_500, 302_000), 399_999]
    rows = [
        row
        for batch in dataset
        for row in zip(batch["number"].tolist(), batch[column].tolist(), strict=True)
    ]
    values = pq.read_table(path, columns=[column])[column].take(kept).to_pylist()
    assert sorted(rows) == list(zip(kept, values, strict=True))
    group = pq.read_metadata(path).row_group(0)
    names = pq.read_schema(path).names
    whole = sum(group.column(names.index(name)).total_compressed_size for name in columns)
    assert dataset.stats().read.bytes < 0.3 * whole


def test_a_null_behind_pages_that_are_not_read_is_named(tmp_path):
    path = indexed_file(tmp_path / "a.parquet")
    number = pc.field("number")
    filters = (number < 10) | ((number > 350_000) & (number < 350_124) & (number != 350_050))
    dataset = FastParquetDataset(path, columns=["nullable"], filters=filters)
    with pytest.raises(NullValueError, match="row 350123"):
        list(dataset)
    filters &= number != 350_123
    dataset = FastParquetDataset(path, columns=["nullable"], filters=filters, batch_size=500)
    assert [v for b in dataset for v in b["nullable"].tolist()] == [
        *range(10),
        *range(350_001, 350_050),
        *range(350_051, 350_123),
    ]


PAGE = 100  # rows
I32, I64 = 5, 6  # types of the compact protocol


def file_with_index(path, change, statistics=()):
    """Write 400 rows, of which the first 200 are null, with another column index or statistics."""
    numbers = np.arange(4 * PAGE)
    x = pa.array(numbers, mask=numbers < 2 * PAGE)
    pq.write_table(
        pa.table({"x": x, "number": numbers}),
        path,
        use_dictionary=False,
        compression="none",
        write_page_index=True,
        max_rows_per_page=PAGE,
    )
    data = path.read_bytes()
    metadata, _ = parse(data, len(data) - 8 - int.from_bytes(data[-8:-4], "little"))
    chunk = metadata[4][1][1][0][1][1][1][0]
    index, _ = parse(data, chunk[6][1])
    change(index)
    chunk[3][1][12][1].update(statistics)
    added = build(index)
    chunk[6], chunk[7] = (I64, len(data)), (I32, len(added))
    tail = build(metadata)
    path.write_bytes(data + added + tail + len(tail).to_bytes(4, "little") + b"PAR1")
    return path


def say(field, page, value, *, counts=True):
    """Return a change of one page in a list of the column index, which may lose its counts."""

    def change(index):
        index[field][1][1][page] = value
        if not counts:
            del index[NULL_COUNTS]

    return change


def shorten(field):
    def change(index):
        index[field][1][1].pop()

    return change


VALUES = [*range(2 * PAGE, 4 * PAGE)]
FILTERS = [
    (("x", "==", 250), [250]),
    (("x", ">=", 0), VALUES),
    (("x", "!=", 7), VALUES),
    (("x", "in", [250, 399]), [250, 399]),
    (("x", "<", 203), VALUES[:3]),
    (pc.field("x").is_null(), [*range(2 * PAGE)]),
    (pc.field("x").is_valid(), VALUES),
]
NULL_PAGES, MINIMA, MAXIMA, NULL_COUNTS = 1, 2, 3, 5
CONTRADICTIONS = {
    "a page of values is null": say(NULL_PAGES, 2, True),
    "a page of values is null, and nulls are not counted": say(NULL_PAGES, 2, True, counts=False),
    "a null page has values": say(NULL_PAGES, 1, False),
    "a null page has a least value": say(MINIMA, 0, bytes(8)),
    "a null page has a greatest value": say(MAXIMA, 0, bytes(8)),
    "negative counts": say(NULL_COUNTS, 0, -1),
    "more nulls than rows": say(NULL_COUNTS, 2, PAGE + 1),
    "as many nulls as rows": say(NULL_COUNTS, 2, PAGE),
    "fewer nulls than rows of a null page": say(NULL_COUNTS, 0, PAGE - 1),
    "a least value of another width": say(MINIMA, 2, b"12"),
    "no least value": say(MINIMA, 2, b""),
    "fewer pages": shorten(NULL_PAGES),
    "fewer counts": shorten(NULL_COUNTS),
}


@pytest.mark.parametrize("change", CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_a_page_index_that_contradicts_itself_is_ignored(tmp_path, change):
    path = file_with_index(tmp_path / "a.parquet", change)
    for filters, expected in FILTERS:
        assert numbers_of(path, filters) == expected


def numbers_of(path, filters):
    dataset = FastParquetDataset(path, columns=["number"], filters=filters)
    return [n for batch in dataset for n in batch["number"].tolist()]


def test_a_page_index_that_agrees_with_itself_and_the_statistics_is_believed(tmp_path):
    """An index that lies about page 2 in all of its parts shows that null pages are left out."""

    def lie(index):
        for field, value in ((NULL_PAGES, True), (MINIMA, b""), (MAXIMA, b""), (NULL_COUNTS, PAGE)):
            say(field, 2, value)(index)

    path = file_with_index(tmp_path / "a.parquet", lie, {3: (I64, 3 * PAGE)})
    assert numbers_of(path, ("x", ">=", 250)) == VALUES[PAGE:]


@pytest.mark.parametrize("nulls", [-1, 4 * PAGE, 4 * PAGE + 1, 2 * PAGE - 1])
def test_statistics_that_contradict_themselves_or_the_index_are_ignored(tmp_path, nulls):
    path = file_with_index(tmp_path / "a.parquet", lambda _: None, {3: (I64, nulls)})
    for filters, expected in FILTERS:
        assert numbers_of(path, filters) == expected


def test_nulls_that_are_decoded_are_nulls_whatever_statistics_say(tmp_path):
    path = file_with_index(tmp_path / "a.parquet", shorten(NULL_PAGES), {3: (I64, 0)})
    assert numbers_of(path, ("x", "<", 203)) == VALUES[:3]


def test_an_index_that_contradicts_the_statistics_is_ignored(tmp_path):
    def count_none(index):
        index[NULL_PAGES][1][1][:] = [False] * 4
        index[NULL_COUNTS][1][1][:] = [0] * 4
        for bounds in (MINIMA, MAXIMA):
            index[bounds][1][1][:2] = [bytes(8)] * 2

    path = file_with_index(tmp_path / "a.parquet", count_none)
    for filters, expected in FILTERS:
        assert numbers_of(path, filters) == expected
