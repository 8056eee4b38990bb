"""Small Parquet files with row numbers, and the row numbers of delivered batches."""

import os
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq


def sample_table(rows, seed=0):
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "id": np.arange(rows),
            "label": rng.integers(0, 2, rows).astype(np.int8),
            "price": rng.random(rows, np.float32),
            "name": pa.array([f"row {k}" for k in range(rows)], pa.string()),
        }
    )


def write_sample(path, rows, group_rows=100, **options):
    pq.write_table(sample_table(rows), path, row_group_size=group_rows, **options)
    return str(path)


@contextmanager
def away(path):
    """Rename a file inside the with block, so that nothing can open it."""
    os.rename(path, f"{path}.away")
    try:
        yield
    finally:
        os.rename(f"{path}.away", path)


def ids_of(batches):
    """Return the ids of all rows of the batches, in order, as a list of int."""
    return [row for batch in batches for row in batch["id"].tolist()]


def write_files(directory, files):
    """Write files with the given rows in each row group, numbered in `id`; return the paths."""
    schema = pa.schema([("id", pa.int64())])
    paths, row = [], 0
    for number, groups in enumerate(files):
        paths.append(f"{directory}/part-{number:03d}.parquet")
        with pq.ParquetWriter(paths[-1], schema) as writer:
            for rows in groups:
                writer.write_table(pa.table({"id": range(row, row + rows)}, schema))
                row += rows
    return paths
