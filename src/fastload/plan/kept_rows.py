"""Which rows of the files stay, and how many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from fastload.plan.intervals import Int64s

__all__ = ["FileRows", "pack_rows"]

# The core reads words of 64 bits.
_WORD_BYTES = 8


@dataclass(frozen=True, slots=True, eq=False)
class FileRows:
    """The rows of one file that stay.

    counts: int64 (row groups,), how many of each.
    offsets: int64 (row groups,), where the bits of each begin; -1 = all stay, or none.
    bits: uint8, a bit a row, the lowest of a byte first; whole words of 8 bytes.
    mapped: `bits` lie in a file of the cache, not in memory of their own.
    """

    counts: Int64s
    offsets: Int64s
    bits: NDArray[np.uint8]
    mapped: bool = False


def pack_rows(counts: Sequence[int], kept: Sequence[NDArray[np.uint8] | None]) -> FileRows:
    """The rows of one file.

    counts: of each row group, how many rows stay.
    kept: of each row group, a bit a row; None = all stay, or none.
    """
    offsets = np.full(len(counts), -1, np.int64)
    parts = []
    at = 0
    for index, bits in enumerate(kept):
        if bits is None:
            continue
        offsets[index] = at
        padded = np.zeros(-(-len(bits) // _WORD_BYTES) * _WORD_BYTES, np.uint8)
        padded[: len(bits)] = bits
        parts.append(padded)
        at += len(padded)
    all_bits = np.concatenate([np.zeros(0, np.uint8), *parts])
    return FileRows(np.asarray(counts, np.int64), offsets, all_bits)
