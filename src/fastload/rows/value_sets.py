"""Sets of the values of one column, as ranges of keys that the core compares.

A key is an integer of 64 bits, and keys are in the order of the values. Integers and booleans are
their own keys; the key of a uint64 is the value minus 2**63. The keys of floats are in the order of
IEEE 754's totalOrder: -0.0 comes right before 0.0, whose key is 0, and NaNs come before and after
all numbers. The key of a string, or of bytes, is its index among the words that the filters
mention, or -1 if the filters don't mention it.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fastload.plan.intervals import Int64s

__all__ = ["Keys", "ValueSet", "WordKeys"]

_LEAST, _MOST = -(2**63), 2**63 - 1

Range = tuple[int, int]  # first and last key


@dataclass(frozen=True, slots=True)
class ValueSet:
    """A set of values of one column.

    Attributes:
        ranges: the first and the last key of each range, in order; ranges don't touch.
    """

    ranges: tuple[Range, ...]

    @classmethod
    def of(cls, ranges: Iterable[Range]) -> ValueSet:
        """Return the union of ranges.

        Args:
            ranges: the first and the last number of each range, in any order. Numbers may exceed
                64 bits.
        """
        found: list[Range] = []
        for first, last in sorted(ranges):
            first, last = max(first, _LEAST), min(last, _MOST)
            if first > last:
                continue
            if found and first <= found[-1][1] + 1:
                found[-1] = (found[-1][0], max(last, found[-1][1]))
            else:
                found.append((first, last))
        return cls(tuple(found))

    def __or__(self, other: ValueSet) -> ValueSet:
        return ValueSet.of(self.ranges + other.ranges)

    def __and__(self, other: ValueSet) -> ValueSet:
        return ~(~self | ~other)

    def __invert__(self) -> ValueSet:
        edges = ((0, _LEAST - 1), *self.ranges, (_MOST + 1, 0))
        return ValueSet.of((a[1] + 1, b[0] - 1) for a, b in pairwise(edges))

    def __contains__(self, key: int) -> bool:
        index = bisect_right(self.ranges, (key, _MOST))
        return index > 0 and key <= self.ranges[index - 1][1]

    @property
    def array(self) -> Int64s:
        """Ranges as an array, int64 (n, 2)."""
        return np.array(self.ranges, np.int64).reshape(-1, 2)


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of the values of one dtype.

    Attributes:
        float_bytes: the bytes of a float; 0 = integers.
        offset: a number to subtract from an integer to get its key.
    """

    float_bytes: int = 0
    offset: int = 0

    @property
    def numbers(self) -> ValueSet:
        """Set of all values except NaNs."""
        if not self.float_bytes:
            return ValueSet.of([(_LEAST, _MOST)])
        infinity = self._key(math.inf)
        return ValueSet.of([(-infinity - 1, infinity)])

    def members(self, values: Iterable[int]) -> ValueSet:
        """Return a set of integers."""
        return ValueSet.of((value - self.offset, value - self.offset) for value in values)

    def compared(self, operator: str, value: float) -> ValueSet:
        """Return the set of values for which a comparison with a number is true, by IEEE 754.

        Args:
            operator: "equal", "not_equal", "less", "less_equal", "greater" or "greater_equal".
            value: the number on the right of the operator.
        """
        if operator == "not_equal":
            return ~self.compared("equal", value)
        if math.isnan(value):
            return ValueSet(())
        # The first and the last key of the values that equal the number. If no value equals the
        # number: the keys of the next value above, and of the next value below.
        first, last = self._above(value), self._below(value)
        found = {
            "equal": (first, last),
            "less": (_LEAST, first - 1),
            "less_equal": (_LEAST, last),
            "greater": (last + 1, _MOST),
            "greater_equal": (first, _MOST),
        }[operator]
        return ValueSet.of([found]) & self.numbers

    def _above(self, value: float) -> int:
        if not self.float_bytes:
            # All numbers far below (or above) the integers of 64 bits compare alike.
            return math.ceil(_clipped(value)) - self.offset
        key = self._key(self._rounded(value, math.inf))
        return -1 if key == 0 else key

    def _below(self, value: float) -> int:
        if not self.float_bytes:
            return math.floor(_clipped(value)) - self.offset
        key = self._key(self._rounded(value, -math.inf))
        return 0 if key == -1 else key

    def _rounded(self, value: float, towards: float) -> float:
        """Round a number to the column's floats, in the direction of `towards`."""
        if self.float_bytes == 8:
            return float(value)
        with np.errstate(over="ignore"):
            near = np.float32(value)
        if float(near) < value < towards or float(near) > value > towards:
            near = np.nextafter(near, np.float32(towards))
        return float(near)

    def _key(self, value: float) -> int:
        if self.float_bytes == 8:
            bits, most = int(np.float64(value).view(np.int64)), 2**63 - 1
        else:
            bits, most = int(np.float32(value).view(np.int32)), 2**31 - 1
        return bits if bits >= 0 else bits ^ most


class WordKeys:
    """The keys of strings or of bytes, which can only be compared for equality.

    Args:
        kind: str or bytes.
    """

    float_bytes = 0
    numbers = ValueSet.of([(_LEAST, _MOST)])

    def __init__(self, kind: type[str | bytes]) -> None:
        self._kind = kind
        # A vocabulary has to hold at least one word.
        self._indices: dict[bytes, int] = {b"": 0}

    @property
    def words(self) -> tuple[Any, ...]:
        """Words that were mentioned so far, in the order of their keys."""
        if self._kind is bytes:
            return tuple(self._indices)
        return tuple(word.decode() for word in self._indices)

    def members(self, values: Iterable[bytes]) -> ValueSet:
        """Return a set of words. Raise UnicodeDecodeError if a string is not UTF-8."""
        return ValueSet.of((key, key) for key in map(self._key, values))

    def compared(self, operator: str, value: bytes) -> ValueSet:
        """Return the set of words for which a comparison with a word is true.

        Args:
            operator: "equal" or "not_equal".
            value: the word.

        Raises:
            ValueError: `operator` is another one.
        """
        if operator not in ("equal", "not_equal"):
            raise ValueError(f"Expected equal or not_equal for strings, got {operator}")
        equal = self.members([value])
        return equal if operator == "equal" else ~equal

    def _key(self, word: bytes) -> int:
        if self._kind is str:
            word.decode()
        return self._indices.setdefault(word, len(self._indices))


def _clipped(value: float) -> float:
    return min(max(value, -(2**65)), 2**65)
