"""The values of columns that a file has no leaf for, as the bytes that the core copies."""

from __future__ import annotations

from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any

import torch

from fastload.schema.fill import encode_number

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastload.schema.leaves import SelectedLeaf

__all__ = ["encode_constant", "encode_constants"]

# No decimal of Parquet has as many digits.
_EXACT = Context(prec=100)


def encode_constants(
    leaf: SelectedLeaf, encode: Callable[[Any], bytes]
) -> tuple[bytes | None, ...]:
    """By file, what `encode` makes of its constant; None = null. () = there are but nulls.

    Raises what `encode` raises, naming the column.
    """
    if not leaf.constants:
        return ()
    # Thousands of files share a few values.
    encoded: dict[Any, bytes | None] = {None: None}
    try:
        for value in set(leaf.constants) - {None}:
            encoded[value] = encode(value)
    except ValueError as error:
        raise ValueError(f"{error} - at column `{leaf.name}`") from None
    return tuple([encoded[value] for value in leaf.constants])


def encode_constant(value: Any, leaf: SelectedLeaf, dtype: torch.dtype) -> bytes:
    """The bytes of one number as an element of `dtype`.

    Raises `ValueError` when it does not fit.
    """
    if isinstance(value, Decimal):
        unscaled = _EXACT.scaleb(value, leaf.type.arrow.scale)
        value = float(value) if dtype.is_floating_point else int(unscaled)
    if dtype == torch.bool:
        value = value != 0
    return encode_number(value, dtype, "value in the names of directories")
