"""Spread of several numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from fastload.plan.intervals import Int64s

__all__ = ["Spread"]


@dataclass(frozen=True, slots=True)
class Spread:
    """The least, the median and the greatest of several numbers."""

    least: int
    median: int
    most: int

    @classmethod
    def of(cls, numbers: Int64s) -> Spread:
        """Return the spread of the numbers; all 0 without numbers."""
        if not len(numbers):
            return cls(0, 0, 0)
        return cls(int(numbers.min()), int(np.median(numbers)), int(numbers.max()))
