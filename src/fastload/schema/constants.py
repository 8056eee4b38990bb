"""The constant values of columns that files lack, as bytes that the core copies."""

from __future__ import annotations

from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any

import torch

from fastload.schema.fill import encode_number

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastload.schema.leaves import SelectedLeaf

__all__ = ["encode_constant", "encode_constants"]

# Precision above that of every Parquet decimal, so that scaling is exact.
_EXACT = Context(prec=100)


def encode_constants(
    leaf: SelectedLeaf, encode: Callable[[Any], bytes]
) -> tuple[bytes | None, ...]:
    """Encode the constant of each file.

    Args:
        leaf: the leaf column whose constants are encoded.
        encode: turns one constant into bytes.

    Returns:
        The encoded constant of each file, None for null; () if the constants are all null.

    Raises:
        ValueError: `encode` raised a ValueError; the message names the column.
    """
    if not leaf.constants:
        return ()
    # Thousands of files share a few values, so each value is encoded once.
    encoded: dict[Any, bytes | None] = {None: None}
    try:
        for value in set(leaf.constants) - {None}:
            encoded[value] = encode(value)
    except ValueError as error:
        raise ValueError(f"{error} - at column `{leaf.name}`") from None
    return tuple([encoded[value] for value in leaf.constants])


def encode_constant(value: Any, leaf: SelectedLeaf, dtype: torch.dtype) -> bytes:
    """Encode one number as an element of `dtype`.

    Raises:
        ValueError: the number does not fit `dtype`.
    """
    if isinstance(value, Decimal):
        unscaled = _EXACT.scaleb(value, leaf.type.arrow.scale)
        value = float(value) if dtype.is_floating_point else int(unscaled)
    if dtype == torch.bool:
        value = value != 0
    return encode_number(value, dtype, "value in the names of directories")
