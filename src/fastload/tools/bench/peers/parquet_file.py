"""Files as pyarrow opens them, here or in a store."""

from __future__ import annotations

import os

import pyarrow.parquet as pq


def is_remote(path: str) -> bool:
    """Return whether it is the URL of a store."""
    return "://" in path


def open_parquet(path: str) -> pq.ParquetFile:
    """The file; that of a store through fsspec, the chunks of a read asked for together."""
    if not is_remote(path):
        return pq.ParquetFile(path)
    # Against any server but the real one, gcsfs would try gRPC for minutes.
    os.environ.setdefault("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")
    import fsspec

    return pq.ParquetFile(fsspec.open(path, cache_type="none").open(), pre_buffer=True)
