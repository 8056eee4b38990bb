"""Every exception class of fastload.

Each is a `FastloadError` and, where one fits, the builtin that a caller would expect. A wrong
parameter is a plain `ValueError` or `TypeError`. Messages name the place they know:
"Expected X, got Y - at part-003.parquet, row group 7, column `price`".
"""

from __future__ import annotations

__all__ = [
    "CacheError",
    "ColumnNotFoundError",
    "CorruptFileError",
    "FastloadError",
    "NullValueError",
    "SchemaError",
    "SourceChangedError",
    "SourceNotFoundError",
    "StorageError",
    "UnsupportedTypeError",
]


class FastloadError(Exception):
    """Base of all errors that fastload defines."""


class CorruptFileError(FastloadError, ValueError):
    """A file is not Parquet, or its bytes are not what the format asks for."""


class SchemaError(FastloadError, TypeError):
    """Files disagree on a column, or a column can't become what was asked for."""


class ColumnNotFoundError(FastloadError, KeyError):
    """A column that was asked for is in none of the files; the message names the nearest."""

    def __str__(self) -> str:
        # KeyError shows the repr of its argument, which would put quotes around a sentence.
        return str(self.args[0]) if len(self.args) == 1 else super().__str__()


class SourceNotFoundError(FastloadError, FileNotFoundError):
    """No such file, a directory without files, or a glob without a match."""


class UnsupportedTypeError(FastloadError, NotImplementedError):
    """Legal Parquet that fastload can't read yet, such as encrypted columns."""


class SourceChangedError(FastloadError):
    """A file is no longer the one whose footer was read, or a state belongs to other data."""


class StorageError(FastloadError, OSError):
    """The operating system or an object store refused or broke off a read."""


class NullValueError(FastloadError, ValueError):
    """A null in a column that has no value for it: give `fill=` or `valid=True`."""


class CacheError(FastloadError):
    """A cache directory can't be used."""
