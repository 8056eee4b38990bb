"""The values of columns that a file has no leaf for, as the bytes that the core copies."""

from __future__ import annotations

from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any

import torch

from fastload.columns import DTYPES
from fastload.fill import encode_bytes, encode_number

if TYPE_CHECKING:
    from fastload.file_leaves import SelectedLeaf

__all__ = ["encode_constants"]

# No decimal of Parquet has as many digits.
_EXACT = Context(prec=100)


def encode_constants(leaf: SelectedLeaf, dtype: torch.dtype) -> tuple[bytes | None, ...]:
    """By file, one element of `dtype`, or the whole value for bytes; None = null.

    () = there are none but nulls. Raises `ValueError` for a value that does not fit `dtype`.
    """
    if not leaf.constants:
        return ()
    # Thousands of files share a few values.
    encoded = {value: _encode(leaf, value, dtype) for value in set(leaf.constants)}
    return tuple([encoded[value] for value in leaf.constants])


def _encode(leaf: SelectedLeaf, value: Any, dtype: torch.dtype) -> bytes | None:
    if value is None:
        return None
    if leaf.type.kind in ("str", "bytes"):
        return encode_bytes(value, "str" if isinstance(value, str) else "bytes")
    if isinstance(value, Decimal):
        unscaled = _EXACT.scaleb(value, leaf.type.arrow.scale)
        value = float(value) if dtype.is_floating_point else int(unscaled)
    if dtype == torch.bool:
        value = value != 0
    try:
        return encode_number(value, dtype)
    except ValueError:
        raise ValueError(
            f"Expected a value that fits {DTYPES[dtype]}, got {value!r} in the directories' names "
            f"- at column `{leaf.name}`"
        ) from None
