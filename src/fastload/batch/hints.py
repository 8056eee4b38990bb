"""What to write instead of attributes and operators that a `Batch` or a `Ragged` lacks."""

from __future__ import annotations

import torch

__all__ = [
    "COLLATED",
    "COMPARED",
    "NO_TENSOR",
    "OF_BATCH",
    "OPERATORS",
    "ROWS",
    "ROWS_BY_MASK",
    "refuse_dtype",
]

ROWS = "batch.slice(start, stop) takes rows, and {n: batch[n] for n in names} some outputs"

COLLATED = (
    "; DataLoader(ds, batch_size=None) needs no collate_fn, and default_collate takes a list of "
    "rows"
)

ROWS_BY_MASK = (
    "to take rows by a mask or by numbers, write "
    "Batch({n: v[rows] for n, v in batch.items()}), with `rows` a 1-D tensor"
)

COMPARED = (
    "ragged == other is one bool for all rows together. A bool for each row is "
    "torch.tensor([row == value for row in ragged]); Codes in columns= gives strings as integers, "
    "which torch compares"
)

NO_TENSOR = (
    "a Ragged is no tensor. ragged.values is the tensor of all elements, ragged.lengths the number "
    "of elements of each row, ragged.to_padded() a rectangle, ragged.tolist() lists; Pad, Fixed, "
    "Hash, Codes and Image in columns= give tensors, and columns={name: torch.int64} casts"
)

OF_BATCH = (
    "a Batch is a dict of its outputs: write batch[name].float() to cast one, batch.to(device), "
    "batch.slice(start, stop), batch.rows, list(batch) or batch.to_arrow()"
)

_BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor")
OPERATORS = (
    *_BINARY,
    *(f"r{name}" for name in _BINARY),
    *("lt", "le", "gt", "ge", "neg", "abs", "invert"),
)
"""Names of the special methods of operators, without underscores."""


def refuse_dtype(device: object, non_blocking: object) -> None:
    """Raise TypeError if an argument of a method `to` is a dtype.

    Args:
        device: the argument where a device is expected.
        non_blocking: the argument where a bool is expected.
    """
    for argument in (device, non_blocking):
        if isinstance(argument, torch.dtype):
            raise TypeError(
                f"Expected a device and no dtype, got {argument}: cast one output, "
                "batch[name].float(), or decode to the dtype, columns={name: torch.float32}"
            )
