"""Column and Stack check their arguments when they are built."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch

from fastload.columns import DTYPES, Column, Stack


def test_column_defaults() -> None:
    column = Column("a.b")
    assert (column.name, column.dtype, column.fill, column.valid) == ("a.b", None, None, False)
    with pytest.raises(dataclasses.FrozenInstanceError):
        column.name = "c"  # type: ignore[misc]


@pytest.mark.parametrize("dtype", DTYPES)
def test_all_supported_dtypes_are_accepted(dtype: torch.dtype) -> None:
    assert Column("a", dtype=dtype).dtype is dtype
    assert Stack(["a"], dtype=dtype).dtype is dtype


@pytest.mark.parametrize("fill", [True, 0, -1.5, "", b"x"])
def test_fill_may_be_any_scalar(fill: Any) -> None:
    assert Column("a", fill=fill).fill == fill


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"name": 3}, TypeError, "column name of Column to be a str, got 3"),
        ({"name": ""}, ValueError, "got an empty str"),
        ({"name": "a", "dtype": "int64"}, TypeError, r"torch\.int64, got 'int64'"),
        ({"name": "a", "dtype": torch.complex64}, ValueError, r"one of bool, .* got torch\.comp"),
        ({"name": "a", "fill": [0]}, TypeError, r"a number, str or bytes, got \[0\]"),
        ({"name": "a", "valid": 1}, TypeError, "valid of Column to be a bool, got 1"),
    ],
)
def test_column_refuses(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Column(**arguments)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"names": "abc"}, TypeError, "a list of column names, got 'abc'"),
        ({"names": []}, ValueError, "at least one column, got none"),
        ({"names": ["a", 1]}, TypeError, "to be a str, got 1"),
        ({"names": ["a", "b", "a"]}, ValueError, "got `a` twice"),
        ({"names": ["a"], "dtype": int}, TypeError, "torch.dtype"),
        ({"names": ["a"], "fill": "x"}, TypeError, "a number, got 'x'"),
    ],
)
def test_stack_refuses(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Stack(**arguments)


def test_stack_keeps_its_own_names() -> None:
    names = ["a", "b"]
    stack = Stack(names)
    names.append("")
    assert stack.names == ("a", "b")
    assert hash(stack) == hash(Stack(("a", "b")))
