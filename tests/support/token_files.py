"""Small files of documents: lists of tokens, each token a number of its own."""

import itertools

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq


def documents_of(lengths, start=0):
    """Return lists of the given lengths, whose tokens count on from `start`."""
    ends = start + np.cumsum([0, *lengths])
    return [list(range(int(a), int(b))) for a, b in itertools.pairwise(ends)]


def write_documents(path, lengths, group_rows=100, start=0, **options):
    """Write `id`, `t` (tokens) and `l` (labels: minus the tokens); return the documents.

    Args:
        path: the file.
        lengths: tokens of each document.
        group_rows: rows of a row group; or the rows of each row group.
        start: number of the first token.
        options: options of the writer.
    """
    documents = documents_of(lengths, start)
    table = pa.table(
        {
            "id": pa.array(range(len(documents)), pa.int64()),
            "t": pa.array(documents, pa.list_(pa.int64())),
            "l": pa.array([[-t for t in tokens] for tokens in documents], pa.list_(pa.int64())),
        }
    )
    if isinstance(group_rows, int):
        pq.write_table(table, path, row_group_size=group_rows, **options)
        return documents
    with pq.ParquetWriter(path, table.schema, **options) as writer:
        row = 0
        for rows in group_rows:
            writer.write_table(table.slice(row, rows))
            row += rows
    return documents
