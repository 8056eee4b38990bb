"""Every exception class of fastload.

Each class is a `FastloadError` and, where one fits, also the builtin exception that a caller
would expect. A wrong parameter raises a plain `ValueError` or `TypeError`. Messages end with the
location of the error, as far as it is known:
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
    """Base class of all errors that fastload defines."""

    def __init__(self, *args: object, message: str | None = None) -> None:
        # DataLoader makes the error of a worker anew, by `message=` if the class has an attribute
        # of this name. Otherwise DataLoader leaves the error in a cycle with the loader's iterator,
        # whose workers then live until Python's garbage collector runs.
        super().__init__(*(args if message is None else (message,)))

    @property
    def message(self) -> str:
        """The text of the error."""
        return str(self)


class CorruptFileError(FastloadError, ValueError):
    """A file is not Parquet, or its bytes violate the format."""

    # The index of the file in the dataset, and that of the row group; None = not known.
    _row_group: tuple[int, int] | None = None


class SchemaError(FastloadError, TypeError):
    """Files disagree on a column, or a column can't be converted to the requested type."""


class ColumnNotFoundError(FastloadError, KeyError):
    """No file has a requested column; the message names the columns with similar names."""

    def __str__(self) -> str:
        # KeyError shows the repr of its argument, which would put quotes around a sentence.
        return str(self.args[0]) if len(self.args) == 1 else super().__str__()


class SourceNotFoundError(FastloadError, FileNotFoundError):
    """A file does not exist, a directory holds no files, or a glob matches none."""


class UnsupportedTypeError(FastloadError, NotImplementedError):
    """A file or table is legal, but fastload can't read it yet, such as encrypted columns."""


class SourceChangedError(FastloadError):
    """A file has changed since its footer was read, or a saved state belongs to other data."""


class StorageError(FastloadError, OSError):
    """The operating system or an object store refused a read, or broke it off."""


class NullValueError(FastloadError, ValueError):
    """A column has a null and no value to replace it: pass `fill=` or `valid=True`."""


class CacheError(FastloadError):
    """A cache directory can't be used."""


def note(error: BaseException, text: str) -> None:
    """Add a line to the traceback of an error; without effect before Python 3.11."""
    if hasattr(error, "add_note"):
        error.add_note(text)
