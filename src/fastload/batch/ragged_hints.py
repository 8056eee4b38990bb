"""What to write instead of the operators and attributes of tensors that a `Ragged` lacks."""

from __future__ import annotations

__all__ = ["ATTRIBUTES", "NO_TENSOR", "OPERATORS"]

NO_TENSOR = (
    "a Ragged is no tensor. ragged.values is the tensor of all elements, ragged.to_padded() a "
    "rectangle; Pad, Fixed, Hash and Codes in columns= give tensors"
)

_CAST = (
    "cast the elements, Ragged(ragged.values.long(), ragged.offsets), or decode to the dtype: "
    "columns={name: torch.int64}"
)
_SHAPE = "len(ragged) is the number of rows, ragged.lengths the number of elements of each row"
_CASTS = ("half", "float", "double", "bfloat16", "long", "int", "short", "bool", "type", "astype")

ATTRIBUTES = {
    **dict.fromkeys(_CASTS, _CAST),
    **dict.fromkeys(("shape", "size", "dim", "ndim"), _SHAPE),
    **dict.fromkeys(("cuda", "cpu"), "write ragged.to(device)"),
    **dict.fromkeys(("numpy", "array"), "write ragged.to_padded().numpy() or ragged.tolist()"),
    **dict.fromkeys(("to_list", "to_pylist", "as_py"), "write ragged.tolist()"),
    **dict.fromkeys(("to_arrow", "to_pandas"), "call it on the Batch: batch.to_arrow()"),
    **dict.fromkeys(("pad", "to_dense", "to_tensor"), "write ragged.to_padded()"),
}

_BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor")
OPERATORS = (
    *_BINARY,
    *(f"r{name}" for name in _BINARY),
    *("lt", "le", "gt", "ge", "neg", "abs", "invert"),
)
"""Names of the special methods of operators, without underscores."""
