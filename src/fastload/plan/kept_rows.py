"""The rows of each file that filters and `split` keep, as a bit mask."""

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

    Attributes:
        counts: number of rows of each row group that stay, int64 (row groups,).
        offsets: byte offset in `bits` of the mask of each row group, int64 (row groups,);
            -1 if all rows of the row group stay, or none.
        bits: uint8 masks with one bit for each row, lowest bit of a byte first. Each mask is
            padded to whole words of 8 bytes.
        mapped: `bits` are mapped from a file of the cache instead of lying in memory of their
            own.
    """

    counts: Int64s
    offsets: Int64s
    bits: NDArray[np.uint8]
    mapped: bool = False

    def of_group(self, group: int, rows: int) -> NDArray[np.bool_]:
        """Return True for each row of a row group that stays, bool (rows,).

        Args:
            group: index of the row group.
            rows: number of rows of the row group.
        """
        offset = int(self.offsets[group])
        if offset < 0:
            return np.full(rows, self.counts[group] > 0)
        bits = self.bits[offset : offset + -(-rows // 8)]
        return np.unpackbits(bits, count=rows, bitorder="little").view(np.bool_)


def pack_rows(counts: Sequence[int], kept: Sequence[NDArray[np.uint8] | None]) -> FileRows:
    """Pack the masks of a file's row groups into one `FileRows`.

    Args:
        counts: number of rows of each row group that stay.
        kept: mask of each row group, with one bit for each row; None if all rows of the row
            group stay, or none.
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
