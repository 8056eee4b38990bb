"""Collation of single rows' values into one output."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import torch

from fastload.batch.packing import is_plain
from fastload.batch.ragged import Ragged, ragged_of
from fastload.steps.outputs import tensor_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["Layout", "RefusedRowError", "RowValues", "rows_of"]

Layout: TypeAlias = Literal["dense", "ragged"] | None
"""Layout of an output: "dense" (a tensor), "ragged" (a Ragged), None = by the values' shapes."""

_NUMBERS = (bool, int, float)
# Smaller values are faster to collate all at once.
_LARGE_BYTES = 4096
_ONE_SHAPE = (
    " (values may differ in the first dimension only: make all of one shape, or return flat "
    "values, value.reshape(-1), and their shapes as another output)"
)
_NO_DICT = (
    " (the function returns the value itself, or for several names in outputs= a tuple of values "
    "in their order)"
)
_INT64 = range(-(1 << 63), 1 << 63)


class RefusedRowError(Exception):
    """Raised for a row's value that does not fit an output.

    Args:
        row: the index of the row among the values.
        message: the expected value and the actual one.

    Attributes:
        row: the index of the row among the values.
    """

    def __init__(self, row: int, message: str) -> None:
        super().__init__(message)
        self.row = row

    def of(self, output: str) -> RefusedRowError:
        """Return the error with the name of the output added to the message."""
        return RefusedRowError(self.row, f"{self} in output `{output}`")


class RowValues:
    """The values of one output, which any thread may set row by row.

    Large tensors of one shape are copied into the output's tensor at once, so that the memory of
    each value is free for the next value.

    Args:
        rows: the number of rows.
        layout: the layout of the output.
    """

    def __init__(self, rows: int, layout: Layout) -> None:
        self._layout = layout
        self._values: list[Any] = [None] * rows
        self._tensor: torch.Tensor | None = None
        self._array: NDArray[Any] = np.empty(0)  # a view of the tensor, once an array was copied
        self._copied = bytearray(rows)  # 1 = the row's value is in the tensor
        self._lock = threading.Lock()

    def put(self, row: int, value: Any) -> None:
        """Set the value of a row.

        Raises:
            RefusedRowError: the value can't become a tensor.
        """
        if not isinstance(value, (torch.Tensor, np.ndarray)) or self._layout == "ragged":
            self._values[row] = value
            return
        if isinstance(value, np.ndarray) and _is_like(value, self._array):
            self._array[row] = value
            self._copied[row] = 1
            return
        tensor = _tensor(row, value)
        assert tensor is not None
        target = self._target(row, tensor) if _is_large(tensor) else None
        if target is None:
            self._values[row] = tensor
            return
        target.copy_(tensor)
        self._copied[row] = 1
        if isinstance(value, np.ndarray):
            assert self._tensor is not None
            self._array = self._tensor.numpy()

    def column(self) -> torch.Tensor | Ragged:
        """Return the output with all values.

        Raises:
            RefusedRowError: a value differs from the first one in type, dtype or shape.
        """
        if self._tensor is not None:
            if all(self._copied):
                return self._tensor
            for row in np.flatnonzero(self._copied):
                self._values[row] = self._tensor[row]
        return column_of(self._values, self._layout)

    def _target(self, row: int, tensor: torch.Tensor) -> torch.Tensor | None:
        """Return the row's part of the output's tensor; None for another shape or dtype."""
        if self._tensor is None:
            with self._lock:
                if self._tensor is None:
                    self._tensor = tensor.new_empty((len(self._values), *tensor.shape))
        whole = self._tensor
        alike = tensor.shape == whole.shape[1:] and tensor.dtype == whole.dtype
        return whole[row] if alike else None


def rows_of(column: torch.Tensor | Ragged | NDArray[np.uint64]) -> Sequence[Any]:
    """Return the value of each row: a number of (B,), a tensor of (B, ...), or a Ragged's item."""
    if not isinstance(column, Ragged) and column.ndim == 1:
        numbers: list[Any] = column.tolist()
        return numbers
    return list(column)


def column_of(values: Sequence[Any], layout: Layout) -> torch.Tensor | Ragged:
    """Collate B values, at least one, into an output (B, ...).

    Args:
        values: values of one type: bool, int, float, str, bytes, or tensors, arrays and lists of
            one dtype. torch.tensor converts numbers and lists.
        layout: the layout of the output.

    Raises:
        RefusedRowError: a value differs from the first one in type, dtype or shape.
    """
    kind = type(values[0])
    if kind in (str, bytes, *_NUMBERS):
        for row, value in enumerate(values):
            if type(value) is not kind:
                raise _refused(row, kind.__name__, type(value).__name__)
        if layout == ("ragged" if kind in _NUMBERS else "dense"):
            raise _refused(0, f"a value for a {layout} output", kind.__name__)
        return _numbers(values) if kind in _NUMBERS else _texts(values, kind)
    return _stacked([_tensor(row, value) for row, value in enumerate(values)], layout)


def _is_like(value: NDArray[Any], rows: NDArray[Any]) -> bool:
    return value.shape == rows.shape[1:] and value.dtype == rows.dtype and bool(rows.size)


def _is_large(tensor: torch.Tensor) -> bool:
    return is_plain(tensor) and tensor.nbytes >= _LARGE_BYTES


def _numbers(values: Sequence[Any]) -> torch.Tensor:
    for row, value in enumerate(values):
        if type(value) is int and value not in _INT64:
            raise _refused(row, "an int of 64 bits", str(value))
    return torch.tensor(values, device="cpu")


def _texts(values: Sequence[Any], kind: type) -> Ragged:
    parts = values
    if kind is str:
        parts = [_encoded(row, value) for row, value in enumerate(values)]
    data = bytearray().join(parts)
    nothing = torch.empty(0, dtype=torch.uint8, device="cpu")
    flat = torch.frombuffer(data, dtype=torch.uint8) if data else nothing
    return ragged_of(flat, _offsets(map(len, parts)), "str" if kind is str else "bytes")


def _encoded(row: int, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise _refused(row, "a str that UTF-8 can hold", repr(text)) from None


def _stacked(tensors: list[torch.Tensor | None], layout: Layout) -> torch.Tensor | Ragged:
    nothing = torch.empty(0, device="cpu")
    known = next((tensor for tensor in tensors if tensor is not None), nothing)
    # An empty list of lists is an empty list too.
    empty = (0, *known.shape[1:])
    rows = [known.new_empty(empty) if tensor is None else tensor for tensor in tensors]
    alike = True
    for row, tensor in enumerate(rows):
        if tensor.dtype != known.dtype:
            raise _refused(row, str(known.dtype), str(tensor.dtype))
        if tensor.shape != known.shape:
            alike = False
            if layout == "dense":
                raise _refused(row, f"the shape {tuple(known.shape)}", f"{tuple(tensor.shape)}")
            if tensor.dim() != known.dim() or tensor.shape[1:] != known.shape[1:]:
                other = ", ".join(["any", *map(str, known.shape[1:])])
                raise _refused(row, f"the shape ({other})", f"{tuple(tensor.shape)}{_ONE_SHAPE}")
    if layout == "ragged" and not known.dim():
        raise _refused(0, "a value for a ragged output", "a tensor without dimensions")
    if alike and layout != "ragged":
        return torch.stack(rows)
    return ragged_of(torch.cat(rows), _offsets(map(len, rows)), None)


def _tensor(row: int, value: Any) -> torch.Tensor | None:
    """Convert a value to a tensor; return None for an empty list, which has no dtype."""
    if isinstance(value, torch.Tensor):
        return value
    try:
        if isinstance(value, (list, tuple)):
            if any(isinstance(part, np.ndarray) for part in value):
                return tensor_of(np.array(value))  # torch warns that it is slow at this
            return torch.tensor(value, device="cpu") if len(value) else None
        if hasattr(value, "__array__") or hasattr(value, "__array_interface__"):
            return tensor_of(np.asarray(value))
    except (TypeError, ValueError, RuntimeError) as error:
        kind = type(value).__name__
        raise _refused(
            row, "a value that can become a tensor", f"{kind} ({error}){_hint_of(value)}"
        ) from error
    raise _refused(
        row,
        "a number, str, bytes, tensor, array or list",
        f"{type(value).__name__}{_NO_DICT if isinstance(value, Mapping) else ''}",
    )


def _hint_of(value: object) -> str:
    """Return what to return instead of a value that can't become a tensor."""
    if isinstance(value, tuple):
        return ' (for several outputs, name them: outputs=["a", "b"])'
    if isinstance(value, list) and any(isinstance(part, torch.Tensor) for part in value):
        return " (write torch.stack(values), or torch.cat(values) and their lengths as an output)"
    if isinstance(value, list) and any(isinstance(part, (str, bytes)) for part in value):
        return " (a row has one str or bytes, and no list of them: join them, or keep the column)"
    return ""


def _offsets(lengths: Any) -> torch.Tensor:
    return torch.tensor([0, *lengths], dtype=torch.int64, device="cpu").cumsum(0)


def _refused(row: int, expected: str, got: str) -> RefusedRowError:
    return RefusedRowError(row, f"Expected {expected}, got {got}")
