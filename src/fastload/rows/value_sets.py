"""Sets of the values of one column, as ranges of keys that the core compares.

A key is a number of 64 bits in the order of the values: integers and booleans are their own, those
of uint64 less 2**63; floats are in the order of IEEE 754's totalOrder, so that -0.0 comes right
before 0.0 = 0, and NaNs before and after all numbers. The key of a string, or of bytes, is its
place among those that the filters name, and -1 if they don't name it.
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
    """Values of one column.

    ranges: of their keys, first and last; in order, with other keys between them.
    """

    ranges: tuple[Range, ...]

    @classmethod
    def of(cls, ranges: Iterable[Range]) -> ValueSet:
        """The union of ranges, in any order, and of any numbers."""
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
        place = bisect_right(self.ranges, (key, _MOST))
        return place > 0 and key <= self.ranges[place - 1][1]

    @property
    def array(self) -> Int64s:
        """The ranges, int64 (n, 2)."""
        return np.array(self.ranges, np.int64).reshape(-1, 2)


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of one dtype.

    float_bytes: of a float; 0 = integers.
    offset: what keys are less than integers.
    """

    float_bytes: int = 0
    offset: int = 0

    @property
    def numbers(self) -> ValueSet:
        """All values but NaNs."""
        if not self.float_bytes:
            return ValueSet.of([(_LEAST, _MOST)])
        infinity = self._key(math.inf)
        return ValueSet.of([(-infinity - 1, infinity)])

    def members(self, values: Iterable[int]) -> ValueSet:
        """Return the set of these integers."""
        return ValueSet.of((value - self.offset, value - self.offset) for value in values)

    def compared(self, operator: str, value: float) -> ValueSet:
        """The values that stand in that relation to a number, as IEEE 754 has it.

        operator: "equal", "not_equal", "less", "less_equal", "greater" or "greater_equal".
        """
        if operator == "not_equal":
            return ~self.compared("equal", value)
        if math.isnan(value):
            return ValueSet(())
        # Of the values that equal the number the first, and the last; if there are none, the next
        # value above, and the one below.
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
            # A number below all integers, or above, is as good as the one next to them.
            return math.ceil(_clipped(value)) - self.offset
        key = self._key(self._rounded(value, math.inf))
        return -1 if key == 0 else key

    def _below(self, value: float) -> int:
        if not self.float_bytes:
            return math.floor(_clipped(value)) - self.offset
        key = self._key(self._rounded(value, -math.inf))
        return 0 if key == -1 else key

    def _rounded(self, value: float, towards: float) -> float:
        """The float next to a number, if it is none, in that direction."""
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
    """The keys of strings or of bytes: equality is all that they tell.

    kind: str or bytes.
    """

    float_bytes = 0
    numbers = ValueSet.of([(_LEAST, _MOST)])

    def __init__(self, kind: type[str | bytes]) -> None:
        self._kind = kind
        # A vocabulary holds at least one.
        self._places: dict[bytes, int] = {b"": 0}

    @property
    def words(self) -> tuple[Any, ...]:
        """What has been named so far, by key."""
        if self._kind is bytes:
            return tuple(self._places)
        return tuple(word.decode() for word in self._places)

    def members(self, values: Iterable[bytes]) -> ValueSet:
        """Return the set of these words. Raises `UnicodeDecodeError` if one is not UTF-8."""
        return ValueSet.of((key, key) for key in map(self._key, values))

    def compared(self, operator: str, value: bytes) -> ValueSet:
        """The words that stand in that relation to one: "equal" or "not_equal".

        Raises `ValueError` for other relations.
        """
        if operator not in ("equal", "not_equal"):
            raise ValueError(f"Expected equal or not_equal for strings, got {operator}")
        equal = self.members([value])
        return equal if operator == "equal" else ~equal

    def _key(self, word: bytes) -> int:
        if self._kind is str:
            word.decode()
        return self._places.setdefault(word, len(self._places))


def _clipped(value: float) -> float:
    return min(max(value, -(2**65)), 2**65)
