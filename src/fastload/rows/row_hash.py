"""Stable hashes of rows, by which `split` selects rows.

A row's hash is a chain over its columns: h = 0, and for each column in turn
h = XXH64(bytes of the value, seed=h). The bytes of a value are:

- for a string or binary value, its own bytes;
- for an integer, bool, date, time, timestamp or duration, the 8 bytes of the stored integer as
  int64, little-endian;
- for a float, the 8 bytes of the equal float64, where all zeros count as one, and all NaNs;
- for a null, no bytes, and the seed is h + 1.

So the hash of one column of strings or integers is the hash of `Hash` before the modulo.

Without columns, a row's hash is XXH64(row number as int64, seed=XXH64(file name as UTF-8)). The row
number counts from the start of the file. The file name is the path below the given directory, or
the path from the first wildcard of a glob on, or the name of a file that was given by itself.
Unlike the index of a file, such a path stays the same when files are added.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fastload.runtime.native import core

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["can_hash", "hash_columns", "hash_numbers"]

Hashes = NDArray[np.uint64]


def can_hash(arrow: Any) -> bool:
    """Return True if values of an Arrow type have a hash."""
    if pa.types.is_dictionary(arrow):
        return can_hash(arrow.value_type)
    return _is_integer(arrow) or _is_bytes(arrow) or _is_float(arrow) or pa.types.is_null(arrow)


def hash_columns(arrays: Sequence[Any]) -> Hashes:
    """Return the hash of each row, uint64 (rows,).

    Args:
        arrays: the columns, at least one, as Arrow arrays of one length.
    """
    hashes = np.zeros(len(arrays[0]), np.uint64)
    for array in arrays:
        hashes = _chain(array, hashes)
    return hashes


def hash_numbers(name: str, first: int, rows: int) -> Hashes:
    """Return the hash of each row of a part of a file, uint64 (rows,).

    Args:
        name: the name of the file.
        first: the number of the first row.
        rows: the number of rows.
    """
    seed = core.xxhash64(name.encode("utf-8", "surrogateescape"))
    numbers = np.arange(first, first + rows, dtype=np.int64)
    return core.xxhash64_integers(numbers, np.full(rows, seed, np.uint64))


def _chain(array: Any, seeds: Hashes) -> Hashes:
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    nulls = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
    if pa.types.is_null(array.type):
        return _hash_nulls(seeds)
    hashes = (
        core.xxhash64_bytes(*_bytes(array), seeds)
        if _is_bytes(array.type)
        else core.xxhash64_integers(_integers(array), seeds)
    )
    if nulls is not None:
        hashes[nulls] = _hash_nulls(seeds[nulls])
    return hashes


def _hash_nulls(seeds: Hashes) -> Hashes:
    nothing = np.zeros(0, np.uint8)
    return core.xxhash64_bytes(nothing, np.zeros(len(seeds) + 1, np.int64), seeds + np.uint64(1))


def _bytes(array: Any) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    array = array.cast(pa.large_binary())
    _, offsets, values = array.buffers()
    if values is None:
        return np.zeros(0, np.uint8), np.zeros(len(array) + 1, np.int64)
    at = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
    return np.frombuffer(values, np.uint8), at


def _integers(array: Any) -> NDArray[np.int64]:
    if _is_float(array.type):
        floats = array.to_numpy(zero_copy_only=False).astype(np.float64)
        floats[np.isnan(floats)] = np.nan
        bits: NDArray[np.int64] = (floats + 0.0).view(np.int64)
        return bits
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.int8())
    elif pa.types.is_temporal(array.type):
        array = array.view(pa.int32() if array.type.bit_width == 32 else pa.int64())
    numbers: NDArray[Any] = array.fill_null(0).to_numpy(zero_copy_only=False)
    # What does not fit int64 keeps its 64 bits.
    return numbers.astype(np.int64, casting="unsafe")


def _is_integer(arrow: Any) -> bool:
    types = pa.types
    interval = types.is_interval(arrow)
    return (
        types.is_integer(arrow)
        or types.is_boolean(arrow)
        or (types.is_temporal(arrow) and not interval)
    )


def _is_float(arrow: Any) -> bool:
    return bool(pa.types.is_floating(arrow))


def _is_bytes(arrow: Any) -> bool:
    types = pa.types
    kinds = (
        types.is_string,
        types.is_large_string,
        types.is_binary,
        types.is_large_binary,
        types.is_fixed_size_binary,
        types.is_string_view,
        types.is_binary_view,
    )
    return any(kind(arrow) for kind in kinds)
