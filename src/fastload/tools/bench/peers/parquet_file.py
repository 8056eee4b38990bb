"""Parquet files that pyarrow opens, on local disk or in an object store."""

from __future__ import annotations

import os

import pyarrow.parquet as pq


def is_remote(path: str) -> bool:
    """Return True if `path` is the URL of an object store."""
    return "://" in path


def open_parquet(path: str) -> pq.ParquetFile:
    """Open a local file, or a file of an object store through fsspec.

    The column chunks of one read are requested from a store together.
    """
    if not is_remote(path):
        return pq.ParquetFile(path)
    # With any server but Google's, gcsfs would try gRPC for minutes.
    os.environ.setdefault("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")
    import fsspec

    return pq.ParquetFile(fsspec.open(path, cache_type="none").open(), pre_buffer=True)
