"""Test of rows by filters and a split."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fastload.rows.row_hash import hash_columns, hash_numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from fastload.rows.filter_schema import FilterSchema
    from fastload.rows.predicate import Predicate

__all__ = ["RowTest"]

_MOST = 2**64 - 1


class RowTest:
    """Tests rows by a predicate.

    Args:
        schema: the columns of all files.
        predicate: the filters and the split.

    Attributes:
        expressions: the Expressions, by name, whose values `of_arrays` takes; {} if the predicate
            names no column.
    """

    def __init__(self, schema: FilterSchema, predicate: Predicate) -> None:
        self._filters, self._split = predicate.filters, predicate.split
        self.expressions: dict[str, Any] = {}
        if self._filters is not None:
            self.expressions["keep"] = self._filters
        for number, name in enumerate((self._split and self._split.columns) or ()):
            self.expressions[str(number)] = schema.column(name)

    def of_arrays(self, arrays: Sequence[Any]) -> NDArray[np.bool_]:
        """Return True for each row that passes, by the values of columns.

        A split by row numbers is not tested here; see `of_numbers`.

        Args:
            arrays: the values of `expressions`, as Arrow arrays.
        """
        arrays = list(arrays)
        kept = np.ones(len(arrays[0]), np.bool_)
        if self._filters is not None:
            kept &= _bools(arrays.pop(0))
        if arrays:
            kept &= self._in_range(hash_columns(arrays))
        return kept

    def of_numbers(self, name: str, first: int, rows: int) -> NDArray[np.bool_]:
        """Return True for each row that passes a split by row numbers; all without such a split.

        Args:
            name: the name of the file.
            first: the number of the first row.
            rows: the number of rows.
        """
        if self._split is None or self._split.columns is not None:
            return np.ones(rows, np.bool_)
        return self._in_range(hash_numbers(name, first, rows))

    def _in_range(self, hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
        assert self._split is not None
        low, high = self._split.bounds
        kept = np.ones(len(hashes), np.bool_) if low == 0 else hashes >= np.uint64(min(low, _MOST))
        if low > _MOST:
            kept[:] = False
        if high <= _MOST:
            kept &= hashes < np.uint64(high)
        return kept


def _bools(array: Any) -> NDArray[np.bool_]:
    """Convert an Arrow array of bool to numpy, with False for nulls."""
    if array.null_count:
        array = array.fill_null(False)
    # unpackbits is three times as fast as Arrow's to_numpy.
    bits = np.frombuffer(array.buffers()[1], np.uint8)
    stop = array.offset + len(array)
    unpacked = np.unpackbits(bits, count=stop, bitorder="little")
    return unpacked[array.offset :].view(np.bool_)
