"""The exception classes: their bases, and how they read."""

from __future__ import annotations

import pickle

import pytest

from fastload import errors

BASES = {
    "CacheError": Exception,
    "ColumnNotFoundError": KeyError,
    "CorruptFileError": ValueError,
    "NullValueError": ValueError,
    "SchemaError": TypeError,
    "SourceChangedError": Exception,
    "SourceNotFoundError": FileNotFoundError,
    "StorageError": OSError,
    "UnsupportedTypeError": NotImplementedError,
}


def test_every_class_is_listed() -> None:
    assert sorted([*BASES, "FastloadError"]) == errors.__all__


@pytest.mark.parametrize("name", BASES)
def test_bases_and_message(name: str) -> None:
    cls = getattr(errors, name)
    error = cls("Expected X, got Y - at `part`")
    assert isinstance(error, errors.FastloadError)
    assert isinstance(error, BASES[name])
    assert str(error) == "Expected X, got Y - at `part`"
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is cls
    assert str(copy) == str(error)
    # As DataLoader makes the error of a worker.
    assert cls.message
    assert cls(message=str(error)).args == error.args
    assert error.message == str(error)
