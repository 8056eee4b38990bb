"""The parameters of a dataset that decide the order of its rows and the cut into batches."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, get_args

__all__ = ["Options", "Uneven", "Window", "expect_at_least"]

Uneven = Literal["wrap", "drop", "pad", "keep"]


class Window(NamedTuple):
    """The shuffle windows of a dataset, as in `Options`.

    Attributes:
        rows: `shuffle_window`.
        slices: `window_slices`.
    """

    rows: int
    slices: int = 1


@dataclass(frozen=True, slots=True)
class Options:
    """Parameters of a dataset that decide the order of its rows and the cut into batches.

    Args:
        batch_size: rows of a batch.
        shuffle: deliver the rows of each epoch in an order of its own.
        shuffle_window: rows shuffled at once; matters with `shuffle` or `forms_in_windows`.
        window_slices: near-equal slices of the sequence with which windows of rows begin and end,
            beside `canonical_ranks`; 1 = none.
        seed: seed of the order; matters only with `shuffle`.
        drop_last: leave out a last batch of fewer than `batch_size` rows.
        uneven: what to do when ranks would get unequal numbers of rows.
        limit: rows of the sequence that make up an epoch, from `offset` on; None = all that follow.
        offset: rows at the beginning of the sequence that no epoch delivers.
        canonical_ranks: slices of the sequence of which each step takes as many rows, where
            `batch_size` counts the rows of a step over all ranks; None = no such slices.
        pack: the way of packing, as text; None = rows are not packed.
        budget: the limits of a batch by tokens, as text; None = batches have `batch_size` rows.
        tokens_of: the column of the files whose lists `pack` or `budget` counts; None = neither.
        forms_in_windows: batches are formed within windows, so that `shuffle_window` also matters
            without `shuffle`.
        weights: digest of the weights of rows; None = each row comes once.

    Raises:
        ValueError: a parameter is out of its range.
    """

    batch_size: int
    shuffle: bool = False
    shuffle_window: int = 2**19
    window_slices: int = 1
    seed: int = 0
    drop_last: bool = False
    uneven: Uneven = "wrap"
    limit: int | None = None
    offset: int = 0
    canonical_ranks: int | None = None
    pack: str | None = None
    budget: str | None = None
    tokens_of: str | None = None
    forms_in_windows: bool = False
    weights: str | None = None

    def __post_init__(self) -> None:
        expect_at_least(1, batch_size=self.batch_size, shuffle_window=self.shuffle_window)
        expect_at_least(1, window_slices=self.window_slices)
        expect_at_least(0, offset=self.offset)
        if self.limit is not None:
            expect_at_least(0, limit=self.limit)
        if self.uneven not in get_args(Uneven):
            known = ", ".join(repr(name) for name in get_args(Uneven))
            raise ValueError(f"Expected uneven to be one of {known}, got {self.uneven!r}")

    def limited(self, total_rows: int) -> int:
        """Return the rows of an epoch when the files have `total_rows` rows."""
        rows = max(0, total_rows - self.offset)
        return rows if self.limit is None else min(rows, self.limit)

    @property
    def window(self) -> Window:
        """The shuffle windows."""
        return Window(self.shuffle_window, self.window_slices)

    def in_windows(self, window: Window) -> Options:
        """Return the same with other shuffle windows."""
        return replace(self, shuffle_window=window.rows, window_slices=window.slices)

    def weighted(self, weights: str) -> Options:
        """Return the same with the digest of the weights of an epoch; "" = no weights."""
        if self.weights == (weights or None):
            return self
        return replace(self, weights=weights or None)


def expect_at_least(least: int, **values: int) -> None:
    """Raise a ValueError that names the first value smaller than `least`."""
    for name, value in values.items():
        if value < least:
            raise ValueError(f"Expected {name} to be at least {least}, got {value}")
