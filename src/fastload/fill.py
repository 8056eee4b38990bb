"""What is written in place of a null, as the bytes that the core copies."""

from __future__ import annotations

import math
import sys
from typing import Literal

import numpy as np
import torch

from fastload.columns import DTYPES, Fill

__all__ = ["encode_bytes", "encode_number"]


def encode_number(fill: Fill, dtype: torch.dtype) -> bytes:
    """The bytes of one element of `dtype`, in native order.

    Raises `TypeError` when `fill` is no number, `ValueError` when it does not fit.
    """
    if not isinstance(fill, (bool, int, float)):
        raise TypeError(f"Expected a number as fill, got {fill!r}")
    if dtype.is_floating_point:
        return _encode_float(fill, dtype)
    if isinstance(fill, float):
        if not fill.is_integer():
            raise _misfit(fill, dtype)
        fill = int(fill)
    if dtype == torch.bool:
        if fill not in (0, 1):
            raise _misfit(fill, dtype)
        return bytes([fill])
    limits = torch.iinfo(dtype)
    if not limits.min <= fill <= limits.max:
        raise _misfit(fill, dtype)
    return int(fill).to_bytes(dtype.itemsize, sys.byteorder, signed=limits.min < 0)


def encode_bytes(fill: Fill, kind: Literal["str", "bytes"]) -> bytes:
    """The bytes of one value of a column of str or of bytes.

    Raises `TypeError` when `fill` is of another kind.
    """
    if kind == "str" and isinstance(fill, str):
        return fill.encode()
    if kind == "bytes" and isinstance(fill, bytes):
        return fill
    raise TypeError(f"Expected {kind} as fill, got {fill!r}")


def _encode_float(fill: float, dtype: torch.dtype) -> bytes:
    try:
        value = float(fill)
    except OverflowError:
        raise _misfit(fill, dtype) from None
    element = torch.tensor(value, dtype=torch.float64).to(dtype)
    if math.isfinite(value) and not bool(torch.isfinite(element)):
        raise _misfit(fill, dtype)
    # NumPy has no bfloat16, but bytes are bytes.
    return np.asarray(element.reshape(1).view(torch.uint8)).tobytes()


def _misfit(fill: Fill, dtype: torch.dtype) -> ValueError:
    return ValueError(f"Expected a fill that fits {DTYPES[dtype]}, got {fill!r}")
