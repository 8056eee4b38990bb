"""What the walk over a footer finds, and what pyarrow does, in files of many writers."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fastload import FastParquetDataset
from fastload.errors import FastloadError, UnsupportedTypeError
from fastload.source.source import Source
from fastload.tools.cli.inspect import main as inspect
from support.thrift import crafted


@pytest.fixture
def files(data_dir):
    return sorted(p for p in data_dir.rglob("*.parquet*") if p.is_file() and p.suffix != ".md")


def opened(path):
    try:
        return Source.open(path).files[0].footer, pq.read_metadata(path)
    except (FastloadError, OSError):  # what neither reads is no matter of facts
        return None


def test_the_walk_finds_what_pyarrow_does(files):
    chunks = 0
    for path in files:
        found = opened(path)
        if found is None:
            continue
        footer, metadata = found
        assert footer.plain or "encrypt" in path.name or "bad_data" in path.parts, path
        assert footer.row_group_rows == [
            metadata.row_group(g).num_rows for g in range(metadata.num_row_groups)
        ]
        for leaf in range(metadata.num_columns):
            try:
                got = footer.leaf_chunks(leaf)
            except FastloadError:
                continue
            for g in range(metadata.num_row_groups):
                chunk = metadata.row_group(g).column(leaf)
                dictionary = chunk.dictionary_page_offset or chunk.data_page_offset
                assert got.offset[g] == min(chunk.data_page_offset, dictionary), path
                assert got.compressed_bytes[g] == chunk.total_compressed_size
                assert got.uncompressed_bytes[g] == chunk.total_uncompressed_size
                assert got.num_values[g] == chunk.num_values
                statistics = chunk.statistics
                told = statistics is not None and statistics.has_null_count
                if told and got.null_count[g] >= 0 and "bad_data" not in path.parts:
                    assert got.null_count[g] == statistics.null_count, path
                chunks += 1
    assert chunks > 1_000


def test_a_chunk_may_say_that_it_lies_in_no_other_file(tmp_path):
    def lie(metadata, path=b""):
        metadata[4][1][1][0][1][1][1][0][1] = (8, path)

    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": range(100)}), path)
    data = path.read_bytes()
    path.write_bytes(crafted(data, footer=lie))
    assert Source.open(path).files[0].footer.plain
    with FastParquetDataset(path, batch_size=100) as dataset:
        assert [batch["x"].tolist() for batch in dataset] == [list(range(100))]
    path.write_bytes(crafted(data, footer=lambda metadata: lie(metadata, b"b.parquet")))
    with pytest.raises(UnsupportedTypeError, match=r"in another file, `b.parquet` - at .*`x`"):
        FastParquetDataset(path)


def test_an_odd_footer_is_parsed_by_libparquet(tmp_path, capsys):
    path = tmp_path / "odd.parquet"
    pq.write_table(pa.table({"x": range(100), "y": range(100)}), path, row_group_size=30)
    data = path.read_bytes()
    length = int.from_bytes(data[-8:-4], "little")
    # A field of the footer that no version of the format has: number 100, an empty map.
    footer = data[-8 - length : -9] + b"\x0b\xc8\x01\x00" + b"\x00"
    path.write_bytes(data[: -8 - length] + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    with FastParquetDataset(path, batch_size=100, filters=[("y", ">=", 70)]) as dataset:
        assert [batch["x"].tolist() for batch in dataset] == [list(range(70, 100))]
    assert not Source.open(path).files[0].footer.plain
    inspect([str(path)])
    assert "footers that are odd, and take longer to open: of 1 file" in capsys.readouterr().out
