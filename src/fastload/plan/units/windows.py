"""Units that are formed within shuffle windows, from the lengths of the rows' lists. Pure.

Such units depend on the lengths and on the window's order alone, so that every rank knows the units
of all ranks.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from fastload.plan.intervals import Int64s, edges_of
from fastload.plan.permutation import stream_keys
from fastload.plan.sequence import WINDOW_STREAM, EpochSequence, ShuffleWindows
from fastload.plan.units.units import Units

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from numpy.typing import NDArray

    from fastload.plan.options import Options, Window
    from fastload.plan.permutation import Permute
    from fastload.plan.position import Position
    from fastload.plan.sequence import RowGroups

__all__ = ["FormingThread", "Lengths", "UnitsOfWindows", "WindowRows", "Windows"]

# Third part, after seed and epoch, of the names of the random streams that order the units of a
# window.
_UNIT_STREAM = 2
# Epochs whose units are kept: the running one, the next one, and the one of a loaded state.
_KEPT_EPOCHS = 3
# The units of windows are formed together as far as the windows have so many rows.
_ROWS_AT_ONCE = 1 << 18
# Most bytes of units that stay in memory between counting them and delivering them.
_KEPT_BYTES = 64 << 20
# So many rows take about a millisecond to form units of: too long between two batches.
_MANY_ROWS = 1 << 15

Formed = TypeVar("Formed", bound="tuple[NDArray[Any], ...]")
"""The units of successive windows, as arrays."""


class Lengths:
    """The lengths of the lists of a column, for the rows that stay.

    Args:
        row_groups: all row groups, in canonical order.
        values: number of elements of each row's list, row group after row group, (rows,).

    Attributes:
        row_groups: all row groups, in canonical order.
        values: number of elements of each row's list, (rows,).
    """

    def __init__(self, row_groups: RowGroups, values: NDArray[np.uint32]) -> None:
        self.row_groups = row_groups
        self.values = values
        self._begins = edges_of(row_groups.rows)

    def at(self, sequence: EpochSequence, start: int, stop: int) -> NDArray[np.uint32]:
        """Return the lengths at the positions [start, stop) of an epoch's sequence."""
        group, first, end = sequence.ranges(start, stop)
        begins = self._begins[group]
        spans = zip((begins + first).tolist(), (begins + end).tolist(), strict=True)
        parts = [self.values[a:b] for a, b in spans]
        return parts[0] if len(parts) == 1 else np.concatenate([self.values[:0], *parts])


class WindowRows(NamedTuple):
    """The rows of successive windows, as the core's functions take them.

    Attributes:
        lengths: lengths of the rows' lists, (n,).
        edges: edges of the windows among the rows, (windows + 1,), from 0 to n.
        first: the epoch delivers no rows before this place of the windows' orders, counted from
            the first window.
        stop: the epoch delivers no rows from this place of the windows' orders on.
        keys: keys of the orders of the windows' rows, (windows,), or None.
        unit_keys: keys of the orders of the windows' units, (windows,), or None.
    """

    lengths: NDArray[np.uint32]
    edges: Int64s
    first: int
    stop: int
    keys: NDArray[np.uint64] | None
    unit_keys: NDArray[np.uint64] | None


class Windows:
    """The shuffle windows of an epoch.

    Args:
        lengths: the lengths of the rows' lists.
        options: the dataset's parameters, with the seed of the epoch; `limit` counts rows.
        epoch: number of the epoch.
        permute: the permutation of n rows by a key, as `permutation`.

    Attributes:
        sequence: the row groups of the epoch.
        windows: the windows as ranges of positions.
        edges: edges of the windows in the sequence, (windows + 1,).
        first: position of the epoch's first row in the sequence.
        stop: the position after its last row.
        keys: keys of the orders of the windows' rows, (windows,); None without shuffle.
        unit_keys: keys of the orders of the windows' units, (windows,); None without shuffle.
        formed: what was formed of windows, by the first window: the window after the last one,
            and what `UnitsOfWindows` keeps of them.
    """

    def __init__(self, lengths: Lengths, options: Options, epoch: int, permute: Permute) -> None:
        self.sequence = EpochSequence.of(lengths.row_groups, options, epoch, permute)
        self.windows = ShuffleWindows(self.sequence.rows, options.shuffle_window)
        self.edges = self.windows.all_edges()
        self.first = min(options.offset, self.sequence.rows)
        self.stop = self.first + options.limited(self.sequence.rows)
        self._lengths = lengths
        self._permute = permute
        self.formed: dict[int, tuple[int, Any]] = {}
        self.keys = self.unit_keys = None
        if options.shuffle:
            self.keys, self.unit_keys = (
                stream_keys((options.seed, epoch, stream), np.arange(len(self)))
                for stream in (WINDOW_STREAM, _UNIT_STREAM)
            )

    def __len__(self) -> int:
        return len(self.edges) - 1

    def rows_of(self, start: int, stop: int) -> WindowRows:
        """Return the rows of the windows [start, stop)."""
        edges = self.edges[start : stop + 1]
        first, end = edges[[0, -1]].tolist()
        lengths = self._lengths.at(self.sequence, first, end)
        keys = None if self.keys is None else self.keys[start:stop]
        unit_keys = None if self.unit_keys is None else self.unit_keys[start:stop]
        rows = lengths, edges - first, self.first - first, self.stop - first
        return WindowRows(*rows, keys, unit_keys)

    def rows_in_order(self, window: int) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
        """Return the rows of a window that the epoch delivers, in order, and their lengths."""
        order, lengths = self.order_and_lengths(window)
        return order, lengths[order]

    def order_and_lengths(self, window: int) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
        """Return the rows that the epoch delivers, in order, and the lengths of all rows.

        Args:
            window: number of the window.
        """
        start, stop = self.edges[window : window + 2].tolist()
        if self.keys is None:
            order = np.arange(stop - start, dtype=np.uint32)
        else:
            order = self._permute(stop - start, int(self.keys[window]))
        order = order[max(0, self.first - start) : max(0, self.stop - start)]
        return order, self._lengths.at(self.sequence, start, stop)


class FormingThread(Protocol):
    """A thread that forms units before they are needed, as `BackgroundValue` does."""

    def begin(self, name: Hashable, compute: Callable[[], Any]) -> None:
        """Begin to compute the value of a name."""

    def take(self, name: Hashable) -> Any | None:
        """Wait for the value of a name and hand the value over; None = compute it yourself."""

    def close(self) -> None:
        """End the thread."""


class UnitsOfWindows(Units, Generic[Formed]):
    """Units that are formed within shuffle windows.

    Args:
        lengths: the lengths of the rows' lists.
        options: the dataset's parameters; `limit` counts rows.
        permute: the permutation of n rows by a key, as `permutation`.
        background: forms the units of the epoch that is expected next, by functions that should
            not hold the GIL; None = no thread does.
    """

    def __init__(
        self,
        lengths: Lengths,
        options: Options,
        permute: Permute,
        background: FormingThread | None = None,
    ) -> None:
        self._background = background
        self.options = replace(options, limit=None, offset=0)
        self._lengths = lengths
        self._rows = options
        self._permute = permute
        self._epochs: dict[tuple[int, int], tuple[Windows, Int64s]] = {}

    def use_window(self, window: Window) -> None:
        """Replace the shuffle windows of all epochs."""
        self.options = self.options.in_windows(window)
        self._rows = self._rows.in_windows(window)
        self._epochs = {}

    @property
    def varies(self) -> bool:
        """True if windows have other rows, or rows in another order, from epoch to epoch."""
        return self._rows.shuffle

    def foresee(self, at: Callable[[], Position]) -> None:
        """Begin to form the units of the epoch of a position on a thread, if rows are many."""
        if self._background is None or len(self._lengths.values) < _MANY_ROWS:
            return
        if self._rows.shuffle:
            position = at()
            name = (position.seed, position.epoch)
            if name not in self._epochs:
                self._background.begin((*name, self._rows), partial(self._found, name, self._rows))

    def close(self) -> None:
        """End the thread that forms units ahead. Idempotent."""
        if self._background is not None:
            self._background.close()

    def total(self, at: Position) -> int:
        """Return the number of units of an epoch."""
        return self._number(self._epoch(at.seed, at.epoch)[1])

    def _epoch(self, seed: int, epoch: int) -> tuple[Windows, Int64s]:
        """Return the windows of an epoch, and what `_edges` returns for them."""
        name = (seed, epoch) if self._rows.shuffle else (0, 0)
        if name not in self._epochs:
            if len(self._epochs) >= _KEPT_EPOCHS:
                self._epochs.pop(next(iter(self._epochs)))
            found = None if self._background is None else self._background.take((*name, self._rows))
            self._epochs[name] = found or self._found(name, self._rows)
        return self._epochs[name]

    def _found(self, name: tuple[int, int], options: Options) -> tuple[Windows, Int64s]:
        """Find the units of the epoch that has a seed and a number."""
        seed, epoch = name
        windows = Windows(self._lengths, replace(options, seed=seed), epoch, self._permute)
        return windows, self._edges(windows)

    def _formed(self, windows: Windows) -> Iterator[Formed]:
        """Yield what `_form` returns for all windows, some at a time, and keep what has room."""
        epochs = list(self._epochs.values())  # another thread may add an epoch
        bytes_kept = sum(_nbytes(some) for of, _ in epochs for _, some in of.formed.values())
        start = 0
        while start < len(windows):
            end = windows.edges[start] + _ROWS_AT_ONCE
            stop = max(start + 1, int(np.searchsorted(windows.edges, end, side="right")) - 1)
            some = self._form(windows, start, stop)
            yield some
            bytes_kept += _nbytes(some)
            if bytes_kept <= _KEPT_BYTES:
                windows.formed[start] = stop, some
            start = stop

    def _formed_with(self, windows: Windows, window: int) -> tuple[int, Formed]:
        """Return what was formed together with a window, and the first window of it."""
        first = max((first for first in windows.formed if first <= window), default=-1)
        if first >= 0 and window < windows.formed[first][0]:
            return first, windows.formed[first][1]
        return window, self._form(windows, window, window + 1)

    @abstractmethod
    def _form(self, windows: Windows, start: int, stop: int) -> Formed:
        """Form the units of the windows [start, stop)."""

    @abstractmethod
    def _edges(self, windows: Windows) -> Int64s:
        """Return the edges by which a share of units is found: see the classes."""

    @abstractmethod
    def _number(self, edges: Int64s) -> int:
        """Return the number of units of an epoch."""

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_epochs": {}}


def _nbytes(formed: tuple[NDArray[Any], ...]) -> int:
    return sum(array.nbytes for array in formed)
