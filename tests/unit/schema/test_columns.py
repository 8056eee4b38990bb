"""Specs check their arguments when they are built."""

from __future__ import annotations

import dataclasses
import pickle
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from fastload.schema.columns import DTYPES, Codes, Column, Hash, Pad, Stack, column_name
from fastload.schema.packs import Pack


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
        ({"name": "a", "dtype": 64}, TypeError, r"torch\.int64, got 64"),
        ({"name": "a", "dtype": torch.complex64}, ValueError, r"one of bool, .* got torch\.comp"),
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
        ({"names": ["a", "b", "a"]}, ValueError, "Column `a` is used twice"),
        ({"names": ["a"], "dtype": "integer"}, ValueError, "one of bool, .* got integer"),
        ({"names": ["a"], "dtype": None}, TypeError, "got None: leave dtype= out for torch.float3"),
        ({"names": ["a"], "fill": "x"}, TypeError, r"number or a mapping .* write fill=\{'a': 0\}"),
        ({"names": ["a"], "fill": [1]}, TypeError, r"number or a mapping .* write fill=\{'a': 0\}"),
        (
            {"names": ["a"], "fill": {"a": "x"}},
            TypeError,
            "fill for 'a' of Stack .* float, got 'x'",
        ),
        ({"names": ["a"], "fill": {"a": None}}, TypeError, "got None: leave 'a' out"),
        ({"names": ["a"], "fill": {"b": 1}}, ValueError, "columns among a, got one for 'b'"),
        ({"names": [Column("a", fill=1)]}, TypeError, "write the name, .* fill= as a mapping"),
        ({"names": ["a"], "valid": True}, TypeError, 'no parameter .* pass nulls="mask" to'),
        ({"columns": ["a"]}, TypeError, "Stack has no parameter 'columns': its parameters"),
        ({}, TypeError, r"^Stack needs names, got none: write Stack\(names\)$"),
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
    assert stack.dtype == torch.float32
    assert hash(stack) == hash(Stack(("a", "b")))


def test_stack_keeps_its_own_fills() -> None:
    fills: dict[str, float] = {"a": 1, "s": 2, "s.b": 3}
    stack = Stack(["a", "b", "s", "s.b"], fill=fills)
    assert stack != Stack(["a", "b", "s", "s.b"])
    assert hash(stack) == hash(pickle.loads(pickle.dumps(stack)))
    fills.clear()
    found = {name: stack.fill_of(name) for name in ("a", "b", "s.a", "s.b", "s.c.d")}
    assert found == {"a": 1, "b": None, "s.a": 2, "s.b": 3, "s.c.d": 2}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: Codes("c"),
            r"^Codes needs vocabulary, got none: write Codes\(name, vocabulary\)$",
        ),
        (lambda: Hash("c"), r"^Hash needs buckets, got none: write Hash\(name, buckets\)$"),
        (lambda: Pad("c"), r"^Pad needs length, got none: write Pad\(name, length\)$"),
        (lambda: Pack(length=8), r"^Pack needs column, got none: write Pack\(column, length\)$"),
        (Codes, "^Codes needs name and vocabulary, got none: write Codes"),
        (lambda: Hash("c", 3, valid=True), "Hash has no parameter 'valid': its parameters are"),
        (lambda: Codes("c", ["a"], fill=3), "Codes has no parameter 'fill': its parameters are"),
        (lambda: Stack("a", "b", "c", "d"), r"by position, got 4 arguments: .* Stack\(\[\"f1\", "),
        (lambda: Pack("a", 8, ["b"]), r"takes column, length by position, got 3 arguments: write"),
        (lambda: Hash("c", 3, name="d"), "'name' twice, by position and by name: write it once"),
    ],
)
def test_specs_say_which_arguments_they_need(call: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        call()


@pytest.mark.parametrize(
    ("fill", "message"),
    [
        (
            Decimal("1.5"),
            r"an int, float, str or bytes, got Decimal\('1.5'\): write float\(Decimal\('1.5'\)\)$",
        ),
        (np.int64(3), r"got .*3\)?: write int\(.*3\)+$"),
        (np.float32(0.5), r"got .*0.5\)?: write float\(.*0.5\)+$"),
        (1j, "an int, float, str or bytes, got 1j$"),
        ([1], r"an int, float, str or bytes, got \[1\]$"),
    ],
)
def test_column_refuses_a_fill(fill: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        Column("a", fill=fill)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"name": 3}, TypeError, "column name of Hash to be a str, got 3"),
        ({"buckets": 0}, ValueError, r"buckets of Hash in \[1, 9223372036854775807\], got 0"),
        ({"buckets": 2**63}, ValueError, "buckets of Hash"),
        ({"buckets": 10.0}, TypeError, "buckets of Hash to be an int, got 10.0"),
        ({"buckets": True}, TypeError, "got True"),
        ({"seed": -1}, ValueError, "seed of Hash"),
        ({"seed": 2**64}, ValueError, "seed of Hash"),
        ({"fill": 1.5}, TypeError, "fill of Hash to be int, str or bytes, got 1.5"),
    ],
)
def test_hash_refuses(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Hash(**{"name": "a", "buckets": 10, **arguments})


@pytest.mark.parametrize(
    ("vocabulary", "error", "message"),
    [
        ("abc", TypeError, "a list of str, bytes or int, got str"),
        ({"a": 1}, TypeError, r"got dict: write sorted\(vocabulary, key=vocabulary\.get\),"),
        ({"a", "b"}, TypeError, r"got set: write sorted\(vocabulary\),"),
        (iter("ab"), TypeError, r"write list\(vocabulary\),"),
        (np.array([1, 2]), TypeError, r"got ndarray: write vocabulary\.tolist\(\),"),
        (pa.array([1, 2]), TypeError, r"got Int64Array: write vocabulary\.tolist\(\),"),
        (list(np.array([1, 2])), TypeError, r"1\)? of type int64: write array\.tolist\(\)$"),
        (list(pa.array([1, 2])), TypeError, r"of type Int64Scalar: write array\.to_pylist\(\)$"),
        ([], ValueError, "at least one value, got none"),
        ([1.5], TypeError, "to hold str, bytes or int, got 1.5"),
        ([True, False], TypeError, "got True"),
        (["a", b"a"], TypeError, "of one kind, got 'a' and b'a'"),
        ([1, True], TypeError, "of one kind, got 1 and True"),
        (["a", "b", "a"], ValueError, "Value 'a' is used twice"),
        (
            ["a", None],
            TypeError,
            r"got None: leave None out, because nulls get unknown=, or put None fi",
        ),
        ([None], ValueError, "at least one value, got none"),
        ([None, None, "a"], TypeError, "got None: leave None out"),
        ([None, "a"], ValueError, "unknown=0 of Codes with None as the first value, got -1"),
        (
            ["a", float("nan")],
            TypeError,
            r"got nan: leave nan out, because nulls get unknown=, or put None fi",
        ),
        ([2**64], ValueError, "values of vocabulary of Codes in .* got 18446744073709551616"),
    ],
)
def test_codes_refuses(vocabulary: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Codes("a", vocabulary)


@pytest.mark.parametrize(
    ("vocabulary", "unknown", "message"),
    [
        (
            ["DE", "FR"],
            0,
            r"got 0, the code of 'DE': .* \[None, 'DE', \.\.\.\], with unknown=0, or",
        ),
        (["", "FR"], 1, "got 1, the code of 'FR': .* or pass unknown=-1 or unknown=2$"),
        ([0, 7], 0, "got 0, the code of 0: put None first"),
        ([None, "FR"], 1, "Expected unknown=0 .* got 1: nulls and unknown values have the code"),
    ],
)
def test_codes_refuses_the_code_of_a_value_as_unknown(
    vocabulary: Any, unknown: int, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Codes("a", vocabulary, unknown)


@pytest.mark.parametrize("first", [None, "", b""])
def test_codes_takes_unknown_as_the_first_of_all(first: Any) -> None:
    word = b"DE" if first == b"" else "DE"
    assert Codes("a", [first, word], unknown=0).vocabulary == (first, word)
    assert Codes("a", ["DE"], unknown=1).unknown == 1


def test_codes_keeps_its_own_vocabulary() -> None:
    words = ["b", "a"]
    codes = Codes("x", words, unknown=2)
    words.append("c")
    assert codes.vocabulary == ("b", "a")
    assert hash(codes) == hash(Codes("x", ("b", "a"), 2))
    assert repr(codes) == "Codes(name='x', unknown=2)"
    with pytest.raises(TypeError, match="unknown of Codes to be an int, got None"):
        Codes("x", ["a"], None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"name": 3}, TypeError, "a name, Column, Hash or Codes as the column of Pad, got 3"),
        ({"name": Stack(["a"])}, TypeError, "a name, Column, Hash or Codes .* got Stack"),
        ({"length": 0}, ValueError, "length of Pad in"),
        ({"length": "3"}, TypeError, "length of Pad to be an int, got '3'"),
        ({"value": None}, TypeError, "value of Pad to be an int or float, got None"),
        ({"value": "x"}, TypeError, "value of Pad to be an int or float, got 'x'"),
        ({"dtype": object}, TypeError, "torch.dtype"),
        ({"side": "top"}, ValueError, "'right' or 'left', got 'top'"),
        ({"keep": "all"}, ValueError, "'first' or 'last', got 'all'"),
        ({"mask": 1}, TypeError, "mask of Pad to be a bool, got 1"),
        (
            {"name": Hash("a", 5), "dtype": torch.int32},
            ValueError,
            "no dtype of Pad beside that of its Hash, got torch.int32",
        ),
    ],
)
def test_pad_refuses(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Pad(**{"name": "a", "length": 4, **arguments})


def test_pad_composes() -> None:
    assert Pad("a", 4, dtype=torch.int8).elements == Column("a", torch.int8)
    for inner in (Column("a", fill=1), Hash("a", 5), Codes("a", [1])):
        assert Pad(inner, 4).elements is inner
        assert column_name(Pad(inner, 4)) == column_name(inner) == "a"


def test_pads_are_of_outputs_that_are_packed() -> None:
    assert Pack("t", 8, along=["labels"], pad={"labels": -100}).pad_of("t") == 0
    with pytest.raises(ValueError, match="pad of Pack for t and labels, got one for 'label'"):
        Pack("t", 8, along=["labels"], pad={"label": -100})
