"""What to write instead of attributes and operators that a `Batch` or a `Ragged` lacks."""

from __future__ import annotations

import torch

__all__ = [
    "COLLATED",
    "COMPARED",
    "NO_TENSOR",
    "OF_BATCH",
    "OF_RAGGED",
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
    "a Ragged is no tensor. ragged.values is the tensor of all elements, ragged.to_padded() a "
    "rectangle; Pad, Fixed, Hash and Codes in columns= give tensors"
)

_CAST_ONE = (
    "cast one output, batch[name].float(), or decode to the dtype: columns={name: torch.float32}"
)
_CAST = (
    "cast the elements, Ragged(ragged.values.long(), ragged.offsets), or decode to the dtype: "
    "columns={name: torch.int64}"
)
_SHAPE = "len(ragged) is the number of rows, ragged.lengths the number of elements of each row"
_OF_ONE_STRING = (
    "a Ragged of strings holds the strings of all rows, and ragged[i] is one str; for a function "
    "of one str, write per_row(fn, inputs=, outputs=)"
)
_CASTS = ("half", "float", "double", "bfloat16", "long", "int", "short", "bool", "type", "astype")

_SLICE = "write batch.slice(start, stop)"

OF_BATCH = {
    **dict.fromkeys(_CASTS, _CAST_ONE),
    **dict.fromkeys(("cuda", "cpu"), "write batch.to(device)"),
    **dict.fromkeys(("head", "row", "take", "iloc", "loc"), _SLICE),
    **dict.fromkeys(("shape", "size", "num_rows", "batch_size"), "write batch.rows"),
    **dict.fromkeys(("columns", "column_names", "names"), "write list(batch)"),
    **dict.fromkeys(("numpy", "array"), "write batch[name].numpy()"),
    **dict.fromkeys(("to_dict", "to_pydict"), "write batch.to_arrow().to_pydict()"),
    **dict.fromkeys(("to_list", "tolist", "to_pylist"), "write batch.to_arrow().to_pylist()"),
    "schema": "write dataset.schema, or batch.to_arrow().schema",
    "to_polars": "write polars.DataFrame(batch.to_arrow())",
    "to_table": "write pyarrow.table(batch.to_arrow())",
}
"""Attributes of tensors and of tables, for `Batch`."""

OF_RAGGED = {
    **dict.fromkeys(_CASTS, _CAST),
    **dict.fromkeys(("shape", "size", "dim", "ndim"), _SHAPE),
    **dict.fromkeys(("cuda", "cpu"), "write ragged.to(device)"),
    **dict.fromkeys(("numpy", "array"), "write ragged.to_padded().numpy() or ragged.tolist()"),
    **dict.fromkeys(("to_list", "to_pylist", "as_py"), "write ragged.tolist()"),
    **dict.fromkeys(("to_arrow", "to_pandas"), "call it on the Batch: batch.to_arrow()"),
    **dict.fromkeys(("pad", "to_dense", "to_tensor"), "write ragged.to_padded()"),
    **dict.fromkeys(("split", "strip", "lower", "upper", "replace", "str"), _OF_ONE_STRING),
    **dict.fromkeys(("encode", "decode", "startswith", "endswith", "join"), _OF_ONE_STRING),
}
"""Attributes of tensors, arrays and strings, for `Ragged`."""

_BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor")
OPERATORS = (
    *_BINARY,
    *(f"r{name}" for name in _BINARY),
    *("lt", "le", "gt", "ge", "neg", "abs", "invert"),
)
"""Names of the special methods of operators, without underscores."""


def refuse_dtype(device: object, non_blocking: object, advice: str) -> None:
    """Raise TypeError if an argument of a method `to` is a dtype.

    Args:
        device: the argument where a device is expected.
        non_blocking: the argument where a bool is expected.
        advice: how to cast, for the message.
    """
    for argument in (device, non_blocking):
        if isinstance(argument, torch.dtype):
            raise TypeError(f"Expected a device and no dtype, got {argument}: {advice}")
