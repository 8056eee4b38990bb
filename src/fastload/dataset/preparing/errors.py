"""The error of rows that can't be prepared."""

from fastload.errors import FastloadError

__all__ = ["UnpreparableError"]


class UnpreparableError(FastloadError, ValueError):
    """Raised for rows that can't be written as Parquet files, or not where they were to be."""
