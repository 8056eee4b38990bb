"""What a column of the files becomes in a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

__all__ = ["DTYPES", "Column", "Fill", "Stack"]

Fill = bool | int | float | str | bytes
"""What to put in place of a null."""

DTYPES: dict[torch.dtype, str] = {
    torch.bool: "bool",
    torch.uint8: "uint8",
    torch.int8: "int8",
    torch.uint16: "uint16",
    torch.int16: "int16",
    torch.uint32: "uint32",
    torch.int32: "int32",
    torch.uint64: "uint64",
    torch.int64: "int64",
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
    torch.float32: "float32",
    torch.float64: "float64",
}
"""The dtypes that the core writes, and its names for them."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column, cast while it is decoded.

    A fixed-width column becomes a tensor of shape (B,), strings and binary a `Ragged` of B
    byte strings.

    name: the column in the files; "a.b" is the field `b` of the struct `a`.
    dtype: of the tensor; None = the stored one. A value that does not fit raises `ValueError`
        while iterating. With an integer dtype a decimal column gives its unscaled values.
    fill: what nulls become, of the column's kind: a number, or str or bytes. None: NaN in a
        float tensor, otherwise nulls raise `NullValueError`.
    valid: adds `<output>__valid`, a bool tensor of shape (B,), True where the value is not
        null. Nulls are then 0 (or empty) unless `fill` says otherwise.

    Raises `TypeError` or `ValueError` when an argument is not what it should be.
    """

    name: str
    dtype: torch.dtype | None = None
    fill: Fill | None = None
    valid: bool = False

    def __post_init__(self) -> None:
        _check_name("Column", self.name)
        _check_dtype("Column", self.dtype)
        _check_fill("Column", self.fill, text=True)
        if not isinstance(self.valid, bool):
            raise TypeError(f"Expected valid of Column to be a bool, got {self.valid!r}")


@dataclass(frozen=True, slots=True)
class Stack:
    """Several numeric columns as one row-major tensor of shape (B, F), F = len(names).

    names: the columns in the files, in order; "a.b" is the field `b` of the struct `a`.
    dtype: of the tensor; None = what torch promotes the columns' own dtypes to.
    fill: the number that nulls of any of the columns become. None: NaN in a float tensor,
        otherwise nulls raise `NullValueError`.

    Raises `TypeError` or `ValueError` when an argument is not what it should be.
    """

    names: Sequence[str]
    dtype: torch.dtype | None = None
    fill: bool | int | float | None = None

    def __post_init__(self) -> None:
        if isinstance(self.names, str) or not isinstance(self.names, Sequence):
            raise TypeError(
                f"Expected names of Stack to be a list of column names, got {self.names!r}"
            )
        if not self.names:
            raise ValueError("Expected names of Stack to hold at least one column, got none")
        for name in self.names:
            _check_name("Stack", name)
        repeated = [name for i, name in enumerate(self.names) if name in self.names[:i]]
        if repeated:
            raise ValueError(f"Expected each column of Stack once, got `{repeated[0]}` twice")
        _check_dtype("Stack", self.dtype)
        _check_fill("Stack", self.fill, text=False)
        # A tuple, so that what was checked can't change and the spec can be hashed.
        object.__setattr__(self, "names", tuple(self.names))


def _check_name(owner: str, name: object) -> None:
    if not isinstance(name, str):
        raise TypeError(f"Expected a column name of {owner} to be a str, got {name!r}")
    if not name:
        raise ValueError(f"Expected a column name of {owner}, got an empty str")


def _check_dtype(owner: str, dtype: object) -> None:
    if dtype is None:
        return
    if not isinstance(dtype, torch.dtype):
        raise TypeError(
            f"Expected dtype of {owner} to be a torch.dtype such as torch.int64, got {dtype!r}"
        )
    if dtype not in DTYPES:
        raise ValueError(
            f"Expected dtype of {owner} to be one of {', '.join(DTYPES.values())}, got {dtype}"
        )


def _check_fill(owner: str, fill: object, *, text: bool) -> None:
    if fill is None or isinstance(fill, (bool, int, float)):
        return
    if text and isinstance(fill, (str, bytes)):
        return
    wanted = "a number, str or bytes" if text else "a number"
    raise TypeError(f"Expected fill of {owner} to be {wanted}, got {fill!r}")
