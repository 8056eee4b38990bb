"""Checks of the outputs that a step returns, and their way into the batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from fastload.batch.ragged import Ragged
from fastload.schema.fields import Field

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fastload.batch.batch import Batch
    from fastload.steps.block import Block, Views

__all__ = ["field_of", "merge", "tensor_of"]


def merge(
    batch: Batch,
    block: Block,
    returned: object,
    rows: int,
    label: str,
    views: Views | None = None,
    *,
    resizes: bool = False,
) -> None:
    """Check the outputs that a step returned, and put them into the batch.

    Arrays become tensors. Outputs that the step removed from the block are removed from the batch.

    Args:
        batch: the batch that the block was made from.
        block: the step's argument, with the step's changes; either `batch` itself or arrays.
        returned: the step's result: a mapping of outputs to add or replace, or the block.
        rows: the number of rows of the batch before the step.
        label: the name of the step, for messages.
        views: the views that the block's arrays belong to.
        resizes: the step may return another number of rows. Only the outputs that it returns are
            left then.

    Raises:
        TypeError: the step returned no mapping, or a value that can't be an output.
        ValueError: an output has another number of rows, or no output is left.
    """
    if not isinstance(returned, Mapping):
        raise TypeError(
            f"Expected {label} to return the block or a mapping of outputs, got "
            f"{type(returned).__name__}"
        )
    other = _rows_of_first(returned) if resizes else None
    if other is not None and other != rows:
        block, rows = dict(returned), other
    elif returned is not block:
        block.update(returned)
    outputs = {name: _checked(name, value, rows, label, views) for name, value in block.items()}
    if not outputs:
        raise ValueError(f"Expected {label} to leave an output, got none")
    batch.clear()
    batch.update(outputs)


def _checked(
    name: object, value: Any, rows: int, label: str, views: Views | None
) -> torch.Tensor | Ragged:
    """Return an output as a tensor or Ragged of so many rows; arguments as for `merge`."""
    if not isinstance(name, str):
        raise TypeError(f"Expected {label} to name outputs by str, got {name!r}")
    if views is not None:
        value = views.restored(name, value)
    if isinstance(value, np.ndarray):
        value = _tensor_of_output(value, name, label)
    elif not isinstance(value, (torch.Tensor, Ragged)):
        raise _no_column(type(value).__name__, name, label)
    got = "a tensor without dimensions" if _is_scalar(value) else len(value)
    if got != rows:
        raise ValueError(
            f"Expected {rows} rows in output `{name}` of {label}, got {got} (steps that change the "
            "number of rows need cache=, and change the number of the first 16 rows, or "
            "fastload.prepare)"
        )
    checked: torch.Tensor | Ragged = value
    return checked


def _rows_of_first(returned: Mapping[str, Any]) -> int | None:
    """Return the number of rows of the first output returned; None if it has none."""
    first = next(iter(returned.values()), None)
    if isinstance(first, np.ndarray):
        return len(first) if first.ndim else None
    if isinstance(first, (torch.Tensor, Ragged)):
        return None if _is_scalar(first) else len(first)
    return None


def tensor_of(array: NDArray[Any]) -> torch.Tensor:
    """Return a tensor of the array's values, which shares the array's memory if writeable.

    Raises:
        TypeError: torch has no such dtype.
    """
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    # torch warns about arrays that are not writeable, and has no negative strides.
    if not array.flags.writeable or any(stride < 0 for stride in array.strides):
        array = array.copy()
    return torch.from_numpy(array)


def field_of(value: torch.Tensor | Ragged) -> Field:
    """Return the field of an output that holds `value`."""
    if isinstance(value, torch.Tensor):
        return Field(value.dtype, tuple(value.shape[1:]))
    inner = value
    while isinstance(inner.values, Ragged):
        inner = inner.values
    shape = tuple(inner.values.shape[1:])
    return Field(value.dtype, shape, ragged=True, kind=inner.kind, depth=value.depth)


def _tensor_of_output(array: NDArray[Any], name: str, label: str) -> torch.Tensor:
    try:
        return tensor_of(array)
    except TypeError:
        raise _no_column(f"an array of {array.dtype}", name, label) from None


def _is_scalar(value: torch.Tensor | Ragged) -> bool:
    return isinstance(value, torch.Tensor) and not value.dim()


def _no_column(got: str, name: str, label: str) -> TypeError:
    return TypeError(
        f"Expected a tensor, Ragged or numpy array in output `{name}` of {label}, got {got} (write "
        "np.array(values) for numbers; for strings and for lists of several lengths, a function of "
        "one row in per_row(fn, inputs=, outputs=) may return str or a list)"
    )
