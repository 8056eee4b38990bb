"""Values as bytes that the core copies: fills of nulls, and constants where files lack a column."""

from __future__ import annotations

import math
import sys
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch

from fastload.runtime.native import core
from fastload.schema.columns import DTYPES, Fill

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastload.schema.leaves import SelectedLeaf

__all__ = [
    "encode_bytes",
    "encode_constant",
    "encode_constants",
    "encode_hash",
    "encode_number",
    "encode_text",
]

# Precision above that of every Parquet decimal, so that scaling is exact.
_EXACT = Context(prec=100)


def encode_number(fill: Fill, dtype: torch.dtype, what: str = "fill") -> bytes:
    """Encode a number as one element of `dtype`, in native byte order.

    Args:
        fill: the number.
        dtype: dtype of the element.
        what: what error messages call the number.

    Raises:
        TypeError: `fill` is not a number.
        ValueError: `fill` does not fit `dtype`.
    """
    if not isinstance(fill, (bool, int, float)):
        raise TypeError(f"Expected a number as {what}, got {fill!r}")
    if dtype.is_floating_point:
        return _encode_float(fill, dtype, what)
    if isinstance(fill, float):
        if not fill.is_integer():
            raise _misfit(fill, dtype, what)
        fill = int(fill)
    if dtype == torch.bool:
        if fill not in (0, 1):
            raise _misfit(fill, dtype, what)
        return bytes([fill])
    limits = torch.iinfo(dtype)
    if not limits.min <= fill <= limits.max:
        raise _misfit(fill, dtype, what)
    return int(fill).to_bytes(dtype.itemsize, sys.byteorder, signed=limits.min < 0)


def encode_bytes(fill: Fill, kind: Literal["str", "bytes"]) -> bytes:
    """Encode one value of a column of str or of bytes.

    Raises:
        TypeError: `fill` is not of the column's kind.
        ValueError: `fill` has a lone surrogate.
    """
    if kind == "str" and isinstance(fill, str):
        return encode_text(fill)
    if kind == "bytes" and isinstance(fill, bytes):
        return fill
    raise TypeError(f"Expected {kind} as fill, got {fill!r}")


def encode_text(text: str) -> bytes:
    """Encode a str in UTF-8.

    Raises:
        ValueError: the str has a lone surrogate, which no column of str holds.
    """
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"Expected a str that UTF-8 can encode, got {text!r}") from None


def encode_hash(
    fill: Fill, kind: Literal["str", "bytes", "int"] | None, buckets: int, seed: int
) -> bytes:
    """Encode the bucket of `fill`, computed as `Hash` documents, as an int64.

    Args:
        fill: the value to hash.
        kind: kind of the column's values; None accepts every kind.
        buckets: number of buckets.
        seed: seed of the hash.

    Raises:
        TypeError: `fill` is not of the column's kind.
        ValueError: `fill` does not fit 64 bits, or has a lone surrogate.
    """
    if kind not in (None, type(fill).__name__):
        raise TypeError(f"Expected {kind} as fill, got {fill!r}")
    if isinstance(fill, str):
        data = encode_text(fill)
    elif isinstance(fill, bytes):
        data = fill
    elif isinstance(fill, int) and -(2**63) <= fill < 2**64:
        data = (fill % 2**64).to_bytes(8, "little")
    else:
        raise ValueError(f"Expected a fill of 64 bits, got {fill!r}")
    return encode_number(core.xxhash64(data, seed) % buckets, torch.int64)


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
    # Thousands of files share a few objects, so each object is encoded once. Objects are told apart
    # by identity: 0.0 equals -0.0, but has other bits.
    values = {id(value): value for value in leaf.constants}
    try:
        encoded = {key: None if v is None else encode(v) for key, v in values.items()}
    except ValueError as error:
        raise ValueError(f"{error} - at column `{leaf.name}`") from None
    return tuple([encoded[id(value)] for value in leaf.constants])


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


def _encode_float(fill: float, dtype: torch.dtype, what: str) -> bytes:
    try:
        value = float(fill)
    except OverflowError:
        raise _misfit(fill, dtype, what) from None
    element = torch.tensor(value, dtype=torch.float64, device="cpu").to(dtype)
    if math.isfinite(value) and not bool(torch.isfinite(element)):
        raise _misfit(fill, dtype, what)
    # NumPy has no bfloat16, so the element is viewed as bytes first.
    return np.asarray(element.reshape(1).view(torch.uint8)).tobytes()


def _misfit(fill: Fill, dtype: torch.dtype, what: str) -> ValueError:
    return ValueError(f"Expected a {what} that fits {DTYPES[dtype]}, got {fill!r}")
