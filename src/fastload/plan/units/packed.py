"""Units that are packed rows: segments of documents. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fastload.plan.intervals import Int64s, cut, edges_of
from fastload.plan.read_plan import PADDING, ReadPlan
from fastload.plan.units.packing import documents, pack_split
from fastload.plan.units.windows import Lengths, UnitsOfWindows, Windows

if TYPE_CHECKING:
    from fastload.plan.options import Options
    from fastload.plan.permutation import Permute
    from fastload.plan.position import Position
    from fastload.plan.rank_split import Share
    from fastload.plan.units.packing import PackBest, Packing, Segments

__all__ = ["PackedUnits"]

# Most bytes of segments that stay in memory between counting packed rows and delivering them.
_KEPT_PACKED_BYTES = 64 << 20


class PackedUnits(UnitsOfWindows):
    """Units that are packed rows.

    Args:
        lengths: the lengths of the documents.
        options: the dataset's parameters; `limit` counts documents, `batch_size` packed rows.
        packing: the way of packing.
        permute: the permutation of n rows by a key, as `permutation`.
        pack_best: the function that packs documents, as `packing.pack_best`.
    """

    def __init__(
        self,
        lengths: Lengths,
        options: Options,
        packing: Packing,
        permute: Permute,
        pack_best: PackBest,
    ) -> None:
        super().__init__(lengths, options, permute)
        self._packing = packing
        self._pack_best = pack_best
        # Packed rows of windows of kept epochs, as far as they are few bytes.
        self._packed_windows: dict[tuple[Windows, int], tuple[Segments, Int64s]] = {}
        self._packed_bytes = 0

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
                packed, row_edges = self._packed(windows, window)
                segments = packed[row_edges[low - first] : row_edges[high - first]]
            parts.append((window, segments))
        if self._packing.fit == "split" and stop < end:
            padding = np.array([[PADDING, 0, end - stop, 0]], np.uint32)
            parts.append((parts[-1][0], padding))
        return parts

    def _packed(self, windows: Windows, window: int) -> tuple[Segments, Int64s]:
        """Return the segments of a window's packed rows, and the edges of the rows."""
        found = self._packed_windows.get((windows, window))
        if found is None:
            rows, lengths = windows.order_and_lengths(window)
            packing, key = self._packing, windows.unit_key(window)
            found = self._pack_best(rows, packing.kept(lengths), lengths, packing.length, key)
            if self._packed_bytes + found[0].nbytes <= _KEPT_PACKED_BYTES:
                self._packed_bytes += found[0].nbytes
                self._packed_windows[windows, window] = found
        return found

    def _forget(self, windows: Windows) -> None:
        kept = {name: rows for name, rows in self._packed_windows.items() if name[0] is not windows}
        self._packed_windows = kept
        self._packed_bytes = sum(segments.nbytes for segments, _ in kept.values())

    def __getstate__(self) -> dict[str, object]:
        return {**super().__getstate__(), "_packed_windows": {}, "_packed_bytes": 0}

    def _edges(self, windows: Windows) -> Int64s:
        """Return the packed rows before each window, or with fit="split" the tokens."""
        counts = []
        for window in range(len(windows)):
            if self._packing.fit == "split":
                lengths = windows.rows_in_order(window)[1]
                counts.append(int(self._packing.kept(lengths).sum(dtype=np.int64)))
            else:
                counts.append(len(self._packed(windows, window)[1]) - 1)
        return edges_of(np.array(counts, np.int64))

    def _number(self, edges: Int64s) -> int:
        if self._packing.fit == "split":
            return -(-int(edges[-1]) // self._packing.length)
        return int(edges[-1])


def _joined(parts: list[Segments]) -> Segments:
    """Return the segments of all parts; a single part is not copied."""
    return parts[0] if len(parts) == 1 else np.concatenate([np.zeros((0, 4), np.uint32), *parts])
