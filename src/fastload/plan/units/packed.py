"""Units that are packed rows: segments of documents. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fastload.plan.intervals import Int64s, cut, edges_of
from fastload.plan.read_plan import PADDING, ReadPlan
from fastload.plan.units.packing import PackedWindows, documents, pack_split
from fastload.plan.units.windows import Lengths, UnitsOfWindows, Windows

if TYPE_CHECKING:
    from fastload.plan.options import Options
    from fastload.plan.permutation import Permute
    from fastload.plan.position import Position
    from fastload.plan.rank_split import Share
    from fastload.plan.units.packing import Packing, PackWindows, Segments

__all__ = ["PackedUnits"]

# Most bytes of packed windows that stay in memory between counting packed rows and delivering them.
_KEPT_PACKED_BYTES = 64 << 20
# Windows are packed together as far as they have so many documents.
_DOCUMENTS_AT_ONCE = 1 << 18


class PackedUnits(UnitsOfWindows):
    """Units that are packed rows.

    Args:
        lengths: the lengths of the documents.
        options: the dataset's parameters; `limit` counts documents, `batch_size` packed rows.
        packing: the way of packing.
        permute: the permutation of n rows by a key, as `permutation`.
        pack_windows: the function that packs documents, as `packing.pack_windows`.
    """

    def __init__(
        self,
        lengths: Lengths,
        options: Options,
        packing: Packing,
        permute: Permute,
        pack_windows: PackWindows,
    ) -> None:
        super().__init__(lengths, options, permute)
        self._packing = packing
        self._pack_windows = pack_windows
        # Packed windows of kept epochs by their first window, as far as they are few bytes.
        self._packed: dict[Windows, dict[int, PackedWindows]] = {}

    @property
    def varies(self) -> bool:
        """True if epochs may have different numbers of packed rows."""
        cut = self._rows.limit is not None or self._rows.offset > 0
        # The tokens of all documents fill as many rows in any order.
        return super().varies and (self._packing.fit == "best" or cut)

    def long_documents(self, seed: int, epoch: int) -> int:
        """Return the number of documents of an epoch that are longer than a packed row."""
        if self._rows.limit is None and not self._rows.offset:
            return int((self._lengths.values > self._packing.length).sum())
        windows, _ = self._epoch(seed, epoch)
        lengths = (windows.rows_in_order(window)[1] for window in range(len(windows)))
        return sum(int((some > self._packing.length).sum()) for some in lengths)

    def read_plan(self, at: Position, mine: Share, *, stripe_rows: int, ramp: bool) -> ReadPlan:
        """Plan the packed rows of a share; `stripe_rows` and `ramp` have no effect."""
        del stripe_rows, ramp
        seed, epoch = at.seed, at.epoch
        windows, edges = self._epoch(seed, epoch)
        intervals = mine.intervals
        parts: list[tuple[int, Segments]] = []
        for start, stop in intervals.tolist():
            parts += self._parts(windows, edges, start, stop)
        used = np.array([window for window, _ in parts], np.int64)
        begins = np.flatnonzero(np.diff(used, prepend=-1))
        segments = _joined([part for _, part in parts])
        before = edges_of(np.array([len(part) for _, part in parts], np.int64))
        first = np.append(before[begins], len(segments))
        touched = used[begins]
        pieces, piece_count = windows.sequence.pieces(
            windows.edges[touched], windows.edges[touched + 1]
        )
        batch_size, length = self.options.batch_size, self._packing.length
        tokens = edges_of(segments[:, 2].astype(np.int64))
        wanted = np.arange(0, int(tokens[-1]), batch_size * length)
        batch_edges = np.append(np.searchsorted(tokens, wanted), len(segments))
        rows, padding = len(segments), 0
        if mine.repeats and self.options.uneven == "pad":
            padding = rows - int(np.searchsorted(tokens, tokens[-1] - length))
        return ReadPlan(
            batch_size,
            rows,
            padding,
            shuffled=False,
            pieces=pieces,
            takes=np.stack([first[:-1], first[1:]], axis=1),
            windows=np.stack([edges_of(piece_count), np.arange(len(touched) + 1)], axis=1),
            keys=np.zeros(len(touched), np.uint64),
            seed=seed,
            epoch=epoch,
            batch_edges=batch_edges,
            segments=segments,
        )

    def _parts(
        self, windows: Windows, edges: Int64s, start: int, stop: int
    ) -> list[tuple[int, Segments]]:
        """Return the segments of the units [start, stop), with the window of each part."""
        length = self._packing.length
        if self._packing.fit == "split":
            start, end = start * length, stop * length
            stop = min(end, int(edges[-1]))
        filled = np.flatnonzero(np.diff(edges) > 0)
        starts = np.append(edges[filled], edges[-1])
        cuts = cut(starts, np.array([start]), np.array([stop]))
        parts = []
        for cell, low, high in zip(
            cuts.cell.tolist(), cuts.start.tolist(), cuts.stop.tolist(), strict=True
        ):
            window, first = int(filled[cell]), int(starts[cell])
            if self._packing.fit == "split":
                rows, lengths = windows.order_and_lengths(window)
                docs = documents(rows, self._packing.kept(lengths), lengths)
                segments = pack_split(docs, length, first, low - first, high - first)
            else:
                packed, row_edges = self._packed_rows(windows, window)
                segments = packed[row_edges[low - first] : row_edges[high - first]]
            parts.append((window, segments))
        if self._packing.fit == "split" and stop < end:
            padding = np.array([[PADDING, 0, end - stop, 0]], np.uint32)
            parts.append((parts[-1][0], padding))
        return parts

    def _packed_rows(self, windows: Windows, window: int) -> tuple[Segments, Int64s]:
        """Return the segments of a window's packed rows, and the edges of the rows."""
        kept = self._packed.get(windows, {})
        first = max((first for first in kept if first <= window), default=-1)
        packed = kept.get(first)
        if packed is None or window - first >= len(packed.window_rows) - 1:
            first, packed = window, self._pack(windows, window, window + 1)
        start, stop = packed.window_rows[window - first :][:2].tolist()
        edges = packed.edges[start : stop + 1]
        return packed.segments[edges[0] : edges[-1]], edges - edges[0]

    def _pack(self, windows: Windows, start: int, stop: int) -> PackedWindows:
        """Pack the windows [start, stop)."""
        edges = windows.edges[start : stop + 1]
        first, end = edges[[0, -1]].tolist()
        lengths = self._lengths.at(windows.sequence, first, end)
        keys, unit_keys = windows.keys, windows.unit_keys
        packed = self._pack_windows(
            self._packing.kept(lengths),
            lengths,
            edges - first,
            windows.first - first,
            windows.stop - first,
            self._packing.length,
            None if keys is None else keys[start:stop],
            None if unit_keys is None else unit_keys[start:stop],
        )
        return PackedWindows(*packed)

    def _forget(self, windows: Windows) -> None:
        self._packed.pop(windows, None)

    def __getstate__(self) -> dict[str, object]:
        return {**super().__getstate__(), "_packed": {}}

    def _edges(self, windows: Windows) -> Int64s:
        """Return the packed rows before each window, or with fit="split" the tokens."""
        if self._packing.fit == "split":
            tokens = [self._tokens(windows, window) for window in range(len(windows))]
            return edges_of(np.array(tokens, np.int64))
        counts = [np.zeros(0, np.int64)]
        bytes_kept = sum(
            _nbytes(packed) for kept in self._packed.values() for packed in kept.values()
        )
        start = 0
        while start < len(windows):
            end = windows.edges[start] + _DOCUMENTS_AT_ONCE
            stop = max(start + 1, int(np.searchsorted(windows.edges, end, side="right")) - 1)
            packed = self._pack(windows, start, stop)
            counts.append(np.diff(packed.window_rows))
            bytes_kept += _nbytes(packed)
            if bytes_kept <= _KEPT_PACKED_BYTES:
                self._packed.setdefault(windows, {})[start] = packed
            start = stop
        return edges_of(np.concatenate(counts))

    def _tokens(self, windows: Windows, window: int) -> int:
        """Return the tokens of a window that are packed."""
        start, stop = windows.edges[window : window + 2].tolist()
        if windows.first <= start and stop <= windows.stop:
            lengths = self._lengths.at(windows.sequence, start, stop)  # in any order
        else:
            lengths = windows.rows_in_order(window)[1]
        return int(self._packing.kept(lengths).sum(dtype=np.int64))

    def _number(self, edges: Int64s) -> int:
        if self._packing.fit == "split":
            return -(-int(edges[-1]) // self._packing.length)
        return int(edges[-1])


def _joined(parts: list[Segments]) -> Segments:
    """Return the segments of all parts; a single part is not copied."""
    return parts[0] if len(parts) == 1 else np.concatenate([np.zeros((0, 4), np.uint32), *parts])


def _nbytes(packed: PackedWindows) -> int:
    return sum(array.nbytes for array in packed)
