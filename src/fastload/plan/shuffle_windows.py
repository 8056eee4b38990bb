"""The windows in which a shuffled epoch is permuted, as ranges of positions. Pure.

An epoch of N rows has N // `shuffle_window` windows of nearly equal sizes, one after the other. The
number of a window is part of the name of its permutation, so windows don't depend on ranks.

With canonical slices, windows begin and end where slices do, if the epoch has all rows and a slice
has as many rows as a window. No two slices then share a window, which each would have to read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from fastload.plan.intervals import Int64s
    from fastload.plan.options import Options

__all__ = ["WINDOW_STREAM", "ShuffleWindows", "windows_end_with_slices"]

# Third part, after seed and epoch, of the names of the random streams of windows.
WINDOW_STREAM = 1
# Edges of windows are computed as uint64 products of two numbers up to the window count.
_MOST_WINDOWS = 2**32 - 1


def windows_end_with_slices(options: Options) -> bool:
    """Return whether windows of rows begin and end where canonical slices do, if slices are long.

    Args:
        options: the parameters of the dataset.
    """
    whole = options.limit is None and not options.offset
    formed = options.pack is not None or options.budget is not None
    return options.canonical_ranks is not None and options.shuffle and whole and not formed


@dataclass(frozen=True, slots=True)
class ShuffleWindows:
    """The shuffle windows of an epoch.

    Args:
        rows: rows of the epoch's sequence.
        window: the least rows of a window, if the epoch has as many.
        slices: the slices with which windows begin and end; 1 = none.

    Raises:
        ValueError: the epoch would have more than 2**32 - 1 windows.
    """

    rows: int
    window: int
    slices: int = 1

    def __post_init__(self) -> None:
        if self.count > _MOST_WINDOWS:
            raise ValueError(
                f"Expected at most 2**32 - 1 shuffle windows, got {self.count}: "
                f"shuffle_window is {self.window} rows of {self.rows}"
            )

    @classmethod
    def of(cls, rows: int, options: Options) -> ShuffleWindows:
        """Return the windows of an epoch of rows.

        Args:
            rows: rows of the epoch's sequence.
            options: the parameters; `shuffle_window` counts rows of one slice.
        """
        slices = options.canonical_ranks or 1
        if not windows_end_with_slices(options) or rows // slices < options.shuffle_window:
            slices = 1
        return cls(rows, options.shuffle_window, slices)

    @property
    def count(self) -> int:
        """Number of the windows."""
        return self.slices * self._of_slice

    @property
    def _of_slice(self) -> int:
        """Number of the windows of each slice."""
        return max(1, self.rows // self.slices // self.window)

    def edges(self, number: Int64s) -> Int64s:
        """Return the positions at which windows begin, (n,).

        Args:
            number: numbers of the windows, (n,). The number after the last window gives the end of
                the last window.
        """
        of_slice, place = np.divmod(number, self._of_slice)
        # Windows of a slice have `whole` rows and perhaps one more. The first slices may be longer.
        base, more = divmod(self.rows, self.slices)
        whole, rest = divmod(base, self._of_slice)
        rests = np.where(of_slice < more, rest + 1, rest).astype(np.uint64)
        fraction = place.astype(np.uint64) * rests // np.uint64(self._of_slice)
        start = of_slice * base + np.minimum(of_slice, more)
        edges: Int64s = start + place * whole + fraction.astype(np.int64)
        return edges

    def all_edges(self) -> Int64s:
        """Return the positions at which all windows begin, and the end, (windows + 1,)."""
        return self.edges(np.arange(self.count + 1))

    def number_at(self, position: int) -> int:
        """Return the number of the window in which a position lies."""
        base, more = divmod(self.rows, self.slices)
        long = more * (base + 1)  # rows of the slices that are one row longer
        if position < long:
            of_slice, into = divmod(position, base + 1)
            rows = base + 1
        else:
            of_slice, into = divmod(position - long, base)
            of_slice, rows = of_slice + more, base
        # Window i of a slice begins at i * rows // count.
        return of_slice * self._of_slice + ((into + 1) * self._of_slice - 1) // rows
