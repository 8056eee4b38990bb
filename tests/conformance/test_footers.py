"""What the walk over a footer finds, and what pyarrow does, in files of many writers."""

import pyarrow.parquet as pq
import pytest

from fastload.errors import FastloadError
from fastload.source.source import Source


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
        assert footer.plain, path
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
