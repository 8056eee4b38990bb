"""A dataset that lies both in a store and on disk, and a comparison of batches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from support.stores import GcsServer

FILES = 4
ROWS = 6_000  # of a file
GROUP_ROWS = 1_500
COLUMNS = 24


def write_files(directory) -> list:
    """Write files with columns c0, c1, ... of 12 KB a row group, and s, with gaps to skip."""
    random = np.random.default_rng(0)
    paths = []
    for number in range(FILES):
        rows = ROWS + number
        columns = {f"c{i}": random.integers(0, 1 << 62, rows) for i in range(COLUMNS)}
        columns["day"] = np.sort(random.integers(0, 1000, rows))
        columns["s"] = [f"word {i % 97}" for i in range(rows)]
        paths.append(directory / f"part-{number}.parquet")
        pq.write_table(
            pa.table(columns),
            paths[-1],
            row_group_size=GROUP_ROWS,
            compression="none",
            use_dictionary=["s"],
        )
    return paths


@contextmanager
def served(paths) -> Iterator[GcsServer]:
    """Serve the files below gs://bucket/train/."""
    with GcsServer() as server:
        for path in paths:
            server.put("bucket", f"train/{path.name}", path.read_bytes())
        yield server


def projected_bytes(paths, columns) -> int:
    """Return the bytes of the columns' chunks in all row groups."""
    total = 0
    for path in paths:
        metadata = pq.read_metadata(path)
        for group in range(metadata.num_row_groups):
            for i in range(metadata.num_columns):
                chunk = metadata.row_group(group).column(i)
                if chunk.path_in_schema in columns:
                    total += chunk.total_compressed_size
    return total


def assert_same(got, expected) -> None:
    for one, other in zip(got, expected, strict=True):
        assert one.keys() == other.keys()
        for name, value in one.items():
            if isinstance(value, torch.Tensor):
                assert torch.equal(value, other[name]), name
            else:
                assert value == other[name], name
