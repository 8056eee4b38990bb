"""The numbers of pyarrow arrays in numpy and torch, by the table of types in the docs."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch

__all__ = ["cast", "is_binary", "is_text", "numbers_of"]

# Decimals with at most this many digits are exact as floats, and so are the powers of ten of their
# scales.
_EXACT_DIGITS = 15


def is_text(kind: Any) -> bool:
    """Return True if an Arrow type is a type of strings."""
    return kind in (pa.string(), pa.large_string(), pa.string_view())


def is_binary(kind: Any) -> bool:
    """Return True if an Arrow type is a type of bytes."""
    plain = kind in (pa.binary(), pa.large_binary(), pa.binary_view())
    return plain or bool(pa.types.is_fixed_size_binary(kind))


def numbers_of(array: Any, *, unscaled: bool = False) -> npt.NDArray[Any]:
    """Return the numbers of an array (N,); the number in place of a null is undefined.

    Args:
        array: a pyarrow array of numbers.
        unscaled: True for decimals as int64 without the decimal point, False for decimals as the
            nearest float64.
    """
    kind = array.type
    if isinstance(kind, pa.Bool8Type):
        array = array.storage
        return numbers_of(array).astype(np.bool_)
    if pa.types.is_null(kind):
        return np.full(len(array), np.nan, np.float32)
    if pa.types.is_decimal(kind):
        return _unscaled(array) if unscaled else _floats(array)
    if pa.types.is_date32(kind):
        array = array.view(pa.int32())
    elif pa.types.is_time32(kind):
        array = array.view(pa.int32()).cast(pa.int64())
    elif pa.types.is_temporal(kind):
        array = array.view(pa.int64())
    zero = False if pa.types.is_boolean(kind) else 0
    numbers: npt.NDArray[Any] = array.fill_null(zero).to_numpy(zero_copy_only=False)
    return numbers


def cast(numbers: npt.NDArray[Any], dtype: torch.dtype | None) -> torch.Tensor:
    """Return a tensor of the nearest numbers of a dtype; None = the numbers' own dtype."""
    if dtype == torch.float16:
        # numpy rounds once, torch's cast would round twice. numpy calls a signalling NaN invalid.
        with np.errstate(over="ignore", invalid="ignore"):
            return _tensor(numbers.astype(np.float16))
    if dtype == torch.bfloat16 and numbers.dtype.itemsize > 2:
        return _tensor(_odd_floats(numbers)).to(torch.bfloat16)
    tensor = _tensor(numbers)
    return tensor if dtype is None else tensor.to(dtype)


def _tensor(numbers: npt.NDArray[Any]) -> torch.Tensor:
    # The copy avoids torch's warning about Arrow's read-only memory.
    return torch.from_numpy(np.array(numbers))


def _odd_floats(numbers: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Return float32 numbers rounded to odd: a second rounding gives the same as a single one.

    Boldo and Melquiond, "When double rounding is odd" (2004).
    """
    with np.errstate(over="ignore", invalid="ignore"):
        wide = numbers.astype(np.longdouble)
        near = wide.astype(np.float32)
    inexact = np.isfinite(near) & (near != wide)
    bits = near.view(np.uint32)
    bits -= inexact & (np.abs(near) > np.abs(wide))
    bits |= inexact
    return near


def _floats(decimals: Any) -> npt.NDArray[np.float64]:
    """Return each decimal as the nearest float64; NaN for null."""
    kind = decimals.type
    if kind.precision <= _EXACT_DIGITS:
        words = kind.bit_width // 64
        # An empty array may have a buffer of any size.
        data = decimals.buffers()[1] if len(decimals) else b""
        low = np.frombuffer(data, np.int64 if words else np.int32)
        low = low[:: max(1, words)][decimals.offset : decimals.offset + len(decimals)]
        floats: npt.NDArray[np.float64] = low / 10.0**kind.scale
        return floats
    listed = [float("nan") if v is None else float(v) for v in decimals.to_pylist()]
    return np.array(listed, np.float64)


def _unscaled(decimals: Any) -> npt.NDArray[np.int64]:
    scale = decimals.type.scale
    listed = [0 if v is None else int(v.scaleb(scale)) for v in decimals.to_pylist()]
    return np.array(listed, np.int64)
