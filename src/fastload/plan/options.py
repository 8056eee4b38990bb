"""The parameters of a dataset that decide its order and its batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

__all__ = ["Options", "Uneven", "expect_at_least"]

Uneven = Literal["wrap", "drop", "pad", "keep"]


@dataclass(frozen=True, slots=True)
class Options:
    """Parameters that decide the order of rows and how batches are cut.

    `batch_size` and `shuffle_window` are in rows; `limit` is in rows of the sequence, None for
    all of them; `shuffle_window` and `seed` matter only with `shuffle`.

    Raises:
        ValueError: a parameter is out of its range.
    """

    batch_size: int
    shuffle: bool = False
    shuffle_window: int = 2**19
    seed: int = 0
    drop_last: bool = False
    uneven: Uneven = "wrap"
    limit: int | None = None

    def __post_init__(self) -> None:
        expect_at_least(1, batch_size=self.batch_size, shuffle_window=self.shuffle_window)
        if self.limit is not None:
            expect_at_least(0, limit=self.limit)
        if self.uneven not in get_args(Uneven):
            known = ", ".join(repr(name) for name in get_args(Uneven))
            raise ValueError(f"Expected uneven to be one of {known}, got {self.uneven!r}")

    def limited(self, total_rows: int) -> int:
        """Rows of the epoch out of `total_rows` in the files."""
        return total_rows if self.limit is None else min(total_rows, self.limit)


def expect_at_least(least: int, **values: int) -> None:
    """Refuses a smaller value with a ValueError that names it."""
    for name, value in values.items():
        if value < least:
            raise ValueError(f"Expected {name} to be at least {least}, got {value}")
