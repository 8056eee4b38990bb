"""The packing of documents into rows of equal size. Pure.

A document is a row whose list of tokens has some length. A packed row holds segments: runs of the
tokens of documents, one after another, then padding. Within a shuffle window, documents come in
the window's order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from fastload.plan.intervals import Int64s
    from fastload.plan.units.windows import WindowRows

__all__ = ["PackedWindows", "Packer", "Packing", "Segments"]

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

        Without keys of the units, packed rows come in the order of their first documents.

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
