"""Which source of a mix each batch comes from: random draws, the same on every rank.

Pure. Draw number t is number t of a counter-based stream, scaled to the weights of the sources
that can be drawn then; so it depends on nothing that was read.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastload.plan.intervals import Int64s, edges_of
from fastload.plan.permutation import below, stream_values

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Indices", "Stock", "Stop", "draw_sources"]

Stop = Literal["first", "all", "repeat"]
Indices = NDArray[np.unsignedinteger]

# Weights are drawn in proportion as integers whose sum fits in 32 bits.
_WEIGHT_SUM = 1 << 31
# Draws that are made at once, so that what is computed of them stays small.
_LEAST_DRAWS, _MOST_DRAWS = 1 << 7, 1 << 18
# A run of so many batches takes weeks; sources that differ that much were not meant so.
_MOST_STEPS = 1 << 28


class Stock(NamedTuple):
    """Batches that each source has; int64 (sources,)."""

    left: Int64s  # of the repetition of it that is delivered
    again: Int64s  # of one that begins anew, at least as many
    needed: Int64s  # to deliver before it has been exhausted once


def draw_sources(key: int, weights: Sequence[float], stock: Stock, stop: Stop) -> Indices:
    """The source of each batch until the end, unsigned (steps,).

    Args:
        key: of the stream of draws.
        weights: of the sources; 0 = never drawn.
        stock: batches that they have.
        stop: "first" = until a source is drawn that has no batch left; "all" = until none has,
            those without being left out; "repeat" = until each has been exhausted once, those
            without beginning anew.

    Raises:
        ValueError: that takes more than 2**28 batches.
    """
    draws = _Draws(key, weights, stock)
    while not draws.finished:
        draws.take(_ENDS[stop](draws))
    return draws.sources


class _Draws:
    """Draws made so far, and what may be drawn next."""

    def __init__(self, key: int, weights: Sequence[float], stock: Stock) -> None:
        self._key = key
        self._parts: list[Indices] = []
        self._steps = 0
        self.weights = _integers(weights)
        self.stock = stock
        self.used = np.zeros(len(weights), np.int64)
        self.finished = not self.weights.any()

    @property
    def sources(self) -> Indices:
        """The source of each draw."""
        nothing = np.zeros(0, np.min_scalar_type(len(self.weights) - 1))
        return np.concatenate([nothing, *self._parts])

    def ahead(self, steps: float) -> tuple[Indices, Int64s]:
        """About so many draws from here on: the source, and which of its draws that is."""
        count = int(min(max(steps, _LEAST_DRAWS), _MOST_DRAWS))
        edges = edges_of(self.weights)
        numbers = below(stream_values(self._key, count, self._steps), edges[-1:].astype(np.uint64))
        places = np.searchsorted(edges, numbers, side="right") - 1
        drawn: Indices = places.astype(np.min_scalar_type(len(self.weights) - 1))
        return drawn, self.used[drawn] + _occurrences(drawn, len(self.weights))

    def steps_until(self, count: Int64s) -> NDArray[np.float64]:
        """Steps after which each source has probably been drawn so often, (sources,)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            steps = (count - self.used) * (self.weights.sum() / self.weights)
        return np.where(self.weights > 0, steps, np.inf)

    def take(self, drawn: Indices) -> None:
        """Counts draws as made."""
        self._parts.append(drawn)
        self._steps += len(drawn)
        if self._steps > _MOST_STEPS:
            raise ValueError(
                f"Expected an epoch of at most {_MOST_STEPS} batches, got more: weights that "
                "differ less end it sooner"
            )
        self.used += np.bincount(drawn, minlength=len(self.weights))


def _until_one_is_missing(draws: _Draws) -> Indices:
    left = draws.stock.left
    drawn, number = draws.ahead(draws.steps_until(left + 1).min())
    missing = np.flatnonzero(number >= left[drawn])
    draws.finished = len(missing) > 0
    return drawn[: missing[0]] if draws.finished else drawn


def _until_none_is_left(draws: _Draws) -> Indices:
    left, weights = draws.stock.left, draws.weights
    weights[draws.used == left] = 0
    draws.finished = not weights.any()
    if draws.finished:
        return draws.sources[:0]
    drawn, number = draws.ahead(draws.steps_until(left).min())
    # From the next draw on, that source is left out.
    last = np.flatnonzero(number == left[drawn] - 1)
    return drawn[: last[0] + 1] if len(last) else drawn


def _until_each_was_exhausted(draws: _Draws) -> Indices:
    needed, weights = draws.stock.needed, draws.weights
    weights[draws.stock.again == 0] = 0
    pending = draws.used < needed
    draws.finished = not pending.any()
    if draws.finished:
        return draws.sources[:0]
    drawn, number = draws.ahead(draws.steps_until(needed)[pending].max())
    last = np.flatnonzero(number == needed[drawn] - 1)
    pending[drawn[last]] = False
    return drawn if pending.any() else drawn[: last[-1] + 1]


_ENDS = {
    "first": _until_one_is_missing,
    "all": _until_none_is_left,
    "repeat": _until_each_was_exhausted,
}


def _integers(weights: Sequence[float]) -> Int64s:
    """Weights as integers in proportion, positive where they are; alike on every machine."""
    largest = max(weights)
    # Of numbers near the limits of floats the sum would not be finite.
    scaled = [weight / largest if largest else 0.0 for weight in weights]
    total = math.fsum(scaled)
    return np.array(
        [
            max(1, int(part / total * _WEIGHT_SUM)) if weight else 0
            for weight, part in zip(weights, scaled, strict=True)
        ],
        np.int64,
    )


def _occurrences(drawn: Indices, sources: int) -> Int64s:
    """Return for each draw how often its source was drawn before; int64 (n,)."""
    count = np.bincount(drawn, minlength=sources)
    occurrence = np.empty(len(drawn), np.int64)
    by_source = np.argsort(drawn, kind="stable")
    occurrence[by_source] = np.arange(len(drawn)) - np.repeat(np.cumsum(count) - count, count)
    return occurrence
