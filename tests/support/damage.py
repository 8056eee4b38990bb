"""Parquet files with row groups that can't be read, and files with a wrong bit."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

COLUMNS = ["id", "text", "items"]
# Bytes that no reader accepts as the start of a page header.
_JUNK = b"\xff" * 16


def table_of(first, rows):
    """Return a table whose rows have their number in every column."""
    ids = np.arange(first, first + rows)
    return pa.table(
        {
            "id": ids,
            "text": pa.array([f"row {k}" for k in ids], pa.string()),
            "items": pa.array([[k, k] for k in ids.tolist()], pa.list_(pa.int64())),
        }
    )


def write_groups(path, groups, first=0, **options):
    """Write a file with row groups of the given numbers of rows; `id` counts from `first`."""
    schema = table_of(0, 0).schema
    with pq.ParquetWriter(path, schema, use_dictionary=False, **options) as writer:
        for rows in groups:
            # An empty row group has no page to damage.
            writer.write_table(table_of(first, rows), row_group_size=max(1, rows))
            first += rows
    return str(path)


def damage(path, row_group, column, at=0):
    """Overwrite the start of a page header: of the first page, or `at` bytes behind it."""
    metadata = pq.ParquetFile(path).metadata.row_group(row_group)
    chunk = metadata.column(COLUMNS.index(column))
    with open(path, "r+b") as file:
        file.seek(chunk.data_page_offset + at)
        file.write(_JUNK)
    with pytest.raises(OSError, match=r"."), pq.ParquetFile(path) as parquet:
        parquet.read_row_group(row_group, columns=[column])


def flip(path, at):
    """Flip a bit of the byte at an offset; a negative offset counts from the end."""
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
