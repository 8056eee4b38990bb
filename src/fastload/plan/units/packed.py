"""Units that are packed rows: segments of documents. Pure.

A document is a row whose list of tokens has some length. A packed row holds segments: runs of the
tokens of documents, one after another, then padding. Within a shuffle window, documents come in
the window's order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from fastload.plan.intervals import Int64s, cut, edges_of
from fastload.plan.read_plan import PADDING, ReadPlan
from fastload.plan.units.windows import Lengths, UnitsOfWindows, Windows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fastload.plan.options import Options, Window
    from fastload.plan.permutation import Permute
    from fastload.plan.position import Position
    from fastload.plan.rank_split import Share
    from fastload.plan.units.windows import FormingThread, WindowRows

__all__ = ["PackedUnits", "Packer", "Packing"]

Segments = NDArray[np.uint32]
"""Segments, (n, 4): row in the window, first token, number of tokens, tokens of the document."""


class PackedWindows(NamedTuple):
    """The packed rows of successive windows.

    Attributes:
        segments: the segments of all packed rows, with padding.
        edges: edges of the packed rows among the segments, (packed rows + 1,).
        window_rows: edges of the windows among the packed rows, (windows + 1,).
    """

    segments: Segments
    edges: Int64s
    window_rows: Int64s


class PackWindows(Protocol):
    """A function that packs the documents of successive windows by best fit."""

    def __call__(
        self, rows: WindowRows, kept: NDArray[np.uint32], length: int
    ) -> tuple[Segments, Int64s, Int64s]:
        """Pack the documents of each window by itself.

        A document longer than a packed row is cut every `length` tokens first. Then documents are
        placed from the longest to the shortest, equal ones in their order. A document goes to the
        packed row with the least room that suffices, of equal ones to the latest that came to this
        room; if no packed row has room, to a new one.

        Packed rows come in a balanced order that the key of the window's units names, where their
        work is the sum of the squares of their documents' tokens: see `BalancedOrder` in the core.
        Without keys, packed rows come in the order of their first documents.

        Args:
            rows: the rows of the windows.
            kept: tokens of each row of the windows that are packed, (n,).
            length: tokens of a packed row.

        Returns:
            The attributes of PackedWindows.
        """


class SplitWindow(Protocol):
    """A function that cuts the stream of a window's documents."""

    def __call__(
        self,
        rows: NDArray[np.uint32],
        kept: NDArray[np.uint32],
        lengths: NDArray[np.uint32],
        length: int,
        first: int,
        start: int,
        stop: int,
    ) -> Segments:
        """Return the segments of a range of the stream that a window's documents make.

        The stream is cut where documents end, and every `length` tokens of the epoch's stream.

        Args:
            rows: rows of the documents in the window, in order, (n,).
            kept: tokens of each row of the window that are packed.
            lengths: tokens of each row of the window.
            length: tokens of a packed row.
            first: number of the window's first token in the stream of the epoch.
            start: the first token of the range, counted in the window.
            stop: the token after the last one of the range.
        """


class Packer(NamedTuple):
    """The functions that pack documents: those of the core, or their definitions."""

    pack_windows: PackWindows
    split_window: SplitWindow


@dataclass(frozen=True, slots=True)
class Packing:
    """The way in which documents are packed.

    Attributes:
        length: tokens of a packed row.
        fit: "best" (whole documents, best fit) or "split" (one stream, cut every `length`).
        long: what becomes of a document longer than `length`.
    """

    length: int
    fit: Literal["best", "split"] = "best"
    long: Literal["split", "truncate", "drop", "raise"] = "split"

    def kept(self, lengths: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """Return how many tokens of each document are packed, (n,)."""
        if self.long == "truncate":
            return np.minimum(lengths, np.uint32(self.length))
        if self.long == "drop":
            return np.where(lengths > self.length, np.uint32(0), lengths)
        return lengths


class _Part(NamedTuple):
    """Packed rows of one window.

    Attributes:
        lane: number of the lane that delivers the rows.
        window: number of the window.
        segments: the segments of the rows.
    """

    lane: int
    window: int
    segments: Segments


class PackedUnits(UnitsOfWindows[PackedWindows]):
    """Units that are packed rows.

    Args:
        lengths: the lengths of the documents.
        options: the dataset's parameters; `limit` counts documents, `batch_size` packed rows.
        packing: the way of packing.
        permute: the permutation of n rows by a key, as `permutation`.
        packer: the functions that pack documents.
        background: as for `UnitsOfWindows`.
    """

    def __init__(
        self,
        lengths: Lengths,
        options: Options,
        packing: Packing,
        permute: Permute,
        packer: Packer,
        background: FormingThread | None = None,
    ) -> None:
        super().__init__(lengths, options, permute, background)
        self._packing = packing
        self._packer = packer
        # Long documents by the epoch's seed and number, of the epoch that was asked for last.
        self._long: tuple[tuple[int, int], int] | None = None

    def use_window(self, window: Window) -> None:
        """Replace the shuffle windows of all epochs."""
        super().use_window(window)
        self._long = None

    @property
    def varies(self) -> bool:
        """True if epochs may have different numbers of packed rows."""
        cut = self._rows.limit is not None or self._rows.offset > 0
        # The tokens of all documents fill as many rows in any order.
        return super().varies and (self._packing.fit == "best" or cut)

    def foresee(self, at: Callable[[], Position]) -> None:
        """Begin to pack the documents of an epoch on a thread; a stream is not packed ahead."""
        if self._packing.fit == "best":
            super().foresee(at)

    def long_documents(self, seed: int, epoch: int) -> int:
        """Return the number of documents of an epoch that are longer than a packed row.

        The number is found once for an epoch, or for all epochs that have the same documents.
        """
        whole = self._rows.limit is None and not self._rows.offset
        name = (0, 0) if whole else (seed, epoch)
        if self._long is None or self._long[0] != name:
            if whole:
                lengths = [self._lengths.values]
            else:
                windows, _ = self._epoch(seed, epoch)
                lengths = [self._lengths_in(windows, window) for window in range(len(windows))]
            self._long = name, sum(int((some > self._packing.length).sum()) for some in lengths)
        return self._long[1]

    def read_plan(self, at: Position, mine: Share, *, stripe_rows: int, ramp: bool) -> ReadPlan:
        """Plan the packed rows of a share; `stripe_rows` and `ramp` have no effect."""
        return self.lanes_plan(at, [mine], stripe_rows=stripe_rows, ramp=ramp)

    def lanes_plan(
        self, at: Position, shares: Sequence[Share], *, stripe_rows: int, ramp: bool
    ) -> ReadPlan:
        """Plan the packed rows of several shares side by side, each as a lane."""
        del stripe_rows, ramp
        windows, edges = self._epoch(at.seed, at.epoch)
        parts = self._parts(windows, edges, [share.intervals for share in shares])
        before = edges_of(np.array([len(part.segments) for part in parts], np.int64))
        tokens = np.zeros(before[-1] + 1, np.int64)
        for part, start, stop in zip(parts, before, before[1:], strict=False):
            tokens[start + 1 : stop + 1] = part.segments[:, 2]
        np.cumsum(tokens, out=tokens)
        lane = np.array([part.lane for part in parts], np.int64)
        lane_edges = before[np.searchsorted(lane, np.arange(len(shares) + 1))]
        segment_counts = self._segments_of_batches(tokens, lane_edges)
        # Parts of one window of a lane, and the windows in the order in which batches need them.
        used = np.array([part.window for part in parts], np.int64)
        changes = (np.diff(used, prepend=-1) != 0) | (np.diff(lane, prepend=-1) != 0)
        begins = np.flatnonzero(changes)
        ends = np.append(begins, len(parts))[1:]
        lane_of = lane[begins]
        first_token = tokens[before[begins]] - tokens[lane_edges[lane_of]]
        batch_tokens = self.options.batch_size * self._packing.length
        order = np.lexsort((lane_of, first_token // batch_tokens))
        segments = _joined(
            [part for window in order for part in parts[begins[window] : ends[window]]]
        )
        takes = edges_of((before[ends] - before[begins])[order])
        touched = used[begins[order]]
        pieces, piece_counts = windows.sequence.pieces(
            windows.edges[touched], windows.edges[touched + 1]
        )
        padding = np.array(
            [
                self._padding(tokens[start : stop + 1]) if share.repeats else 0
                for share, start, stop in zip(shares, lane_edges, lane_edges[1:], strict=False)
            ],
            np.int64,
        )
        lanes = len(shares) > 1
        return ReadPlan(
            self.options.batch_size * len(shares),
            len(segments),
            0 if lanes else int(padding[0]),
            shuffled=False,
            pieces=pieces,
            takes=np.stack([takes[:-1], takes[1:]], axis=1),
            windows=np.stack([edges_of(piece_counts), np.arange(len(order) + 1)], axis=1),
            keys=np.zeros(len(order), np.uint64),
            seed=at.seed,
            epoch=at.epoch,
            batch_edges=edges_of(segment_counts.ravel()),
            segments=segments,
            lane_of=lane_of[order] if lanes else np.zeros(0, np.int64),
            lane_padding=padding if lanes else np.zeros(0, np.int64),
        )

    def _segments_of_batches(self, tokens: Int64s, lane_edges: Int64s) -> Int64s:
        """Return the number of segments that each batch has of each lane, (batches, lanes).

        Args:
            tokens: the tokens before each segment, lane after lane, and of all segments.
            lane_edges: edges of the lanes among the segments, (lanes + 1,).
        """
        batch_tokens = self.options.batch_size * self._packing.length
        counts = []
        for start, stop in zip(lane_edges.tolist(), lane_edges[1:].tolist(), strict=False):
            wanted = np.arange(tokens[start], tokens[stop], batch_tokens)
            counts.append(np.diff(np.searchsorted(tokens, wanted), append=stop))
        return np.stack(counts, axis=1)

    def _padding(self, tokens: Int64s) -> int:
        """Return the number of segments of the last packed row, which is a repeated one.

        Args:
            tokens: the tokens before each segment of a share, and of all its segments.
        """
        if self.options.uneven != "pad":
            return 0
        return len(tokens) - 1 - int(np.searchsorted(tokens, tokens[-1] - self._packing.length))

    def _parts(self, windows: Windows, edges: Int64s, intervals: Sequence[Int64s]) -> list[_Part]:
        """Return the segments of the units in the intervals of lanes, lane after lane."""
        length = self._packing.length
        splits = self._packing.fit == "split"
        starts, stops = np.concatenate(intervals).T * (length if splits else 1)
        lane = np.repeat(np.arange(len(intervals)), [len(of_lane) for of_lane in intervals])
        filled = np.flatnonzero(np.diff(edges) > 0)
        cells = np.append(edges[filled], edges[-1])
        cuts = cut(cells, starts, np.minimum(stops, edges[-1]))
        parts = []
        for owner, cell, low, high in np.stack(cuts, axis=1).tolist():
            window, first = int(filled[cell]), int(cells[cell])
            if splits:
                rows, lengths = windows.order_and_lengths(window)
                kept = self._packing.kept(lengths)
                segments = self._packer.split_window(
                    rows, kept, lengths, length, first, low - first, high - first
                )
            else:
                packed, row_edges = self._packed_rows(windows, window)
                segments = packed[row_edges[low - first] : row_edges[high - first]]
            parts.append(_Part(int(lane[owner]), window, segments))
            if high == edges[-1] < stops[owner]:
                padding = np.array([[PADDING, 0, stops[owner] - high, 0]], np.uint32)
                parts.append(_Part(int(lane[owner]), window, padding))
        return parts

    def _packed_rows(self, windows: Windows, window: int) -> tuple[Segments, Int64s]:
        """Return the segments of a window's packed rows, and the edges of the rows."""
        first, packed = self._formed_with(windows, window)
        start, stop = packed.window_rows[window - first :][:2].tolist()
        edges = packed.edges[start : stop + 1]
        return packed.segments[edges[0] : edges[-1]], edges - edges[0]

    def _form(self, windows: Windows, start: int, stop: int) -> PackedWindows:
        """Pack the windows [start, stop)."""
        rows = windows.rows_of(start, stop)
        kept = self._packing.kept(rows.lengths)
        return PackedWindows(*self._packer.pack_windows(rows, kept, self._packing.length))

    def _edges(self, windows: Windows) -> Int64s:
        """Return the packed rows before each window, or with fit="split" the tokens."""
        if self._packing.fit == "split":
            tokens = [self._tokens(windows, window) for window in range(len(windows))]
            return edges_of(np.array(tokens, np.int64))
        counts = [np.diff(some.window_rows) for some in self._formed(windows)]
        return edges_of(np.concatenate([np.zeros(0, np.int64), *counts]))

    def _tokens(self, windows: Windows, window: int) -> int:
        """Return the tokens of a window that are packed."""
        lengths = self._lengths_in(windows, window)
        return int(self._packing.kept(lengths).sum(dtype=np.int64))

    def _lengths_in(self, windows: Windows, window: int) -> NDArray[np.uint32]:
        """Return the lengths of the documents that the epoch takes of a window, in any order."""
        start, stop = windows.edges[window : window + 2].tolist()
        if windows.first <= start and stop <= windows.stop:
            return self._lengths.at(windows.sequence, start, stop)
        return windows.rows_in_order(window)[1]

    def _number(self, edges: Int64s) -> int:
        if self._packing.fit == "split":
            return -(-int(edges[-1]) // self._packing.length)
        return int(edges[-1])


def _joined(parts: list[_Part]) -> Segments:
    """Return the segments of all parts; a single part is not copied."""
    if len(parts) == 1:
        return parts[0].segments
    return np.concatenate([np.zeros((0, 4), np.uint32), *(part.segments for part in parts)])
