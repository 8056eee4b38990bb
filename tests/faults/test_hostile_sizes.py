"""Memory that a few bytes of a file ask for: the file is refused before the memory is allocated."""

import contextlib
import io
import re
import resource
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from fastload import Column, CorruptFileError, FastParquetDataset, Fixed, UnsupportedTypeError
from support.thrift import crafted

MIB = 1 << 20
MOST = 2**31 - 1
CODECS = ["snappy", "zstd", "gzip", "lz4", "brotli"]


@contextlib.contextmanager
def room(extra_bytes):
    """Let the process have at most `extra_bytes` more address space than now."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    used = pages * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + extra_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def file_of(table, **options):
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


def numbers(codec, version="1.0", *, dictionary=False):
    table = pa.table({"n": np.arange(3000) % 700})
    options = {"compression": codec, "data_page_version": version, "use_dictionary": dictionary}
    return file_of(table, **options)


def read(path, columns=None, **options):
    options = {"batch_size": 100, "threads": 0, "memory_budget": "64MB", **options}
    with FastParquetDataset(path, columns=columns, **options) as dataset:
        return sum(batch.rows for batch in dataset)


def state(size, *, of):
    """Return a change of headers: page number `of` has `size` bytes after decompression."""

    def change(header, number):
        if number == of:
            header[2] = (header[2][0], size)

    return change


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("page", ["data", "dictionary"])
def test_size_of_a_page_beyond_its_chunk(tmp_path, codec, version, page):
    path = tmp_path / "pages.parquet"
    data = numbers(codec, version, dictionary=page == "dictionary")
    path.write_bytes(crafted(data))
    assert read(path) == 3000
    path.write_bytes(crafted(data, page=state(MOST, of=0)))
    if (codec, page) == ("snappy", "dictionary"):
        # The decoder takes the size from the compressed bytes, which state the size too.
        assert read(path) == 3000
        return
    with room(512 * MIB), pytest.raises(CorruptFileError, match="page of") as caught:
        read(path)
    assert f"at {path}, row group 0, column `n`" in str(caught.value)


@pytest.mark.parametrize("codec", ["gzip", "lz4", "zstd"])
def test_size_of_a_page_beyond_its_codec(tmp_path, codec):
    """The footer tells the same lie, but so few bytes never become so many."""

    def lie(metadata):
        chunk = metadata[4][1][1][0][1][1][1][0][3][1]
        chunk[6] = (chunk[6][0], MOST)

    path = tmp_path / "pages.parquet"
    path.write_bytes(crafted(numbers(codec), page=state(MOST, of=0), footer=lie))
    with room(512 * MIB), pytest.raises(CorruptFileError, match="compressed bytes can have"):
        read(path)


@pytest.mark.parametrize("codec", CODECS)
def test_pages_that_are_larger_than_the_footer_says_by_little(tmp_path, codec):
    """A writer that counts in another way is read as pyarrow reads its files."""

    def forget(metadata):
        chunk = metadata[4][1][1][0][1][1][1][0][3][1]
        chunk[6] = (chunk[6][0], 0)

    path = tmp_path / "pages.parquet"
    path.write_bytes(crafted(numbers(codec), footer=forget))
    assert pq.read_table(path).num_rows == read(path) == 3000


@pytest.mark.parametrize("on_error", ["raise", "skip"])
@pytest.mark.parametrize(
    "selection",
    [
        {"filters": [("n", ">", 3)]},
        {"filters": pc.bit_wise_and(pc.field("n"), 1) == 1},
        {"split": (None, 0, 0.5)},
        {"split": ("n", 0, 0.5)},
    ],
)
@pytest.mark.parametrize("rows", [2**31, 2**62])
def test_a_selection_of_more_rows_than_a_row_group_may_have(tmp_path, rows, selection, on_error):
    """So many rows are no damage: on_error="skip" leaves none of them out."""

    def claim(metadata):
        group = metadata[4][1][1][0]
        chunk = group[1][1][1][0][3][1]
        for struct, field in ((metadata, 3), (group, 3), (chunk, 5)):
            struct[field] = (struct[field][0], rows)

    path = tmp_path / "rows.parquet"
    path.write_bytes(crafted(file_of(pa.table({"n": range(3000)})), footer=claim))
    expected = f"Expected at most {MOST} rows in a row group, got {rows} - at {path}, row group 0"
    with room(512 * MIB), pytest.raises(UnsupportedTypeError, match=re.escape(expected)):
        FastParquetDataset(path, on_error=on_error, **selection)


def restated(data, value_type):
    """Return the file with the schema of a list of `value_type` in column `v`."""
    other = file_of(pa.schema({"v": pa.list_(value_type)}).empty_table())
    schema = pq.ParquetFile(io.BytesIO(other)).metadata.metadata[b"ARROW:schema"]

    def restate(metadata):
        for entry in metadata[5][1][1]:
            if entry[1][1] == b"ARROW:schema":
                entry[2] = (entry[2][0], schema)

    return crafted(data, footer=restate)


def lists_of(values, items):
    """Return a file of rows of `items` values each."""
    offsets = pa.array(range(0, len(values) + 1, items), pa.int32())
    table = pa.table({"v": pa.ListArray.from_arrays(offsets, values)})
    return file_of(table, compression="none")


def null_vectors(items, rows):
    """Return a file of rows of `items` nulls, each a vector of 4096 floats by the schema."""
    nulls = pa.nulls(rows * items, pa.list_(pa.float32(), 1))
    return restated(lists_of(nulls, items), pa.list_(pa.float32(), 4096))


FILLED = {"v": Column("v", fill=0.0)}


@pytest.mark.parametrize("shuffle", [False, True])
def test_null_vectors(tmp_path, shuffle):
    """A null takes a few bits of the file, and 16 KiB of memory: 160 MB for each row."""
    path = tmp_path / "vectors.parquet"
    path.write_bytes(null_vectors(10_000, rows=100))
    with room(512 * MIB), pytest.raises(ValueError, match="raise memory_budget") as caught:
        read(path, FILLED, shuffle=shuffle, batch_size=10, shuffle_window=50)
    assert caught.type is ValueError
    assert f"at {path}, row group 0, column `v" in str(caught.value)
    assert "row 0" in str(caught.value)


@pytest.mark.parametrize("shuffle", [False, True])
def test_null_vectors_that_fit(tmp_path, shuffle):
    """Each window gives its memory back: all rows together exceed the budget."""
    path = tmp_path / "vectors.parquet"
    path.write_bytes(null_vectors(2, rows=4000))
    assert 4000 * 2 * 16384 > 64e6
    options = {"batch_size": 10, "shuffle_window": 500, "memory_budget": "64MB"}
    assert read(path, FILLED, shuffle=shuffle, **options) == 4000


def test_null_lists_in_a_vector(tmp_path):
    """Null lists in an item share the item's size, however many the levels say."""
    nulls = 30_000_000
    path = tmp_path / "vectors.parquet"
    inner = pa.list_(pa.float32(), 1)
    item = pa.FixedSizeListArray.from_arrays(pa.nulls(nulls, inner), nulls)
    path.write_bytes(restated(lists_of(item, 1), pa.list_(inner, 4)))
    del item
    pa.default_memory_pool().release_unused()
    with room(256 * MIB), pytest.raises(CorruptFileError, match="Expected lists of 4 elements"):
        read(path, FILLED, memory_budget="4GB", batch_size=1)


def test_a_take_of_more_bytes_than_int64_counts(tmp_path):
    """A file without the column has a vector of any size for each row."""
    few, without = tmp_path / "few.parquet", tmp_path / "without.parquet"
    few.write_bytes(lists_of(pa.array([1.0, 2.0]), 1))
    without.write_bytes(file_of(pa.table({"n": [1]})))
    columns = {str(i): Fixed("v", MOST) for i in range(64)}
    options = {"nulls": "zero", "memory_budget": 2**62, "batch_size": 1, "threads": 1}
    dataset = FastParquetDataset([few, without], columns=columns, **options)
    with dataset, pytest.raises(MemoryError, match="bytes for a batch"):
        dataset.take(np.full(2**23 + 8, 2))
