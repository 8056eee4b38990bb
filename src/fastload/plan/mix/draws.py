"""Random draws of the source that each batch of a mix comes from, the same on every rank.

Pure. Draw number t is number t of a counter-based stream, scaled to the weights of the sources
that can still be drawn. So a draw depends on nothing that was read.
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

# Draws use integer weights in proportion to the given weights; their sum fits in 32 bits.
_WEIGHT_SUM = 1 << 31
# Least and most draws made at once, so that the arrays computed from the draws stay small.
_LEAST_DRAWS, _MOST_DRAWS = 1 << 7, 1 << 18
# Most batches of an epoch. That many batches take weeks, so the weights or the sizes of the
# sources must differ by more than the user intended.
_MOST_STEPS = 1 << 28


class Stock(NamedTuple):
    """Batches that each source has; every attribute is int64 (sources,).

    Attributes:
        left: batches left in the current repetition of each source.
        again: batches in a whole repetition of each source; at least `left`.
        needed: batches to deliver until each source has been exhausted once.
    """

    left: Int64s
    again: Int64s
    needed: Int64s


def draw_sources(key: int, weights: Sequence[float], stock: Stock, stop: Stop) -> Indices:
    """Draw the source of each batch until the mix ends; return unsigned (steps,).

    Args:
        key: key of the stream of draws.
        weights: weight of each source; a source of weight 0 is never drawn.
        stock: batches that the sources have.
        stop: when the mix ends. "first": when a source is drawn that has no batch left.
            "all": when no source has a batch left; exhausted sources are left out of the draws.
            "repeat": when every source has been exhausted once; exhausted sources start over.

    Raises:
        ValueError: the mix ends after more than 2**28 batches.
    """
    draws = _Draws(key, weights, stock)
    while not draws.finished:
        draws.take(_ENDS[stop](draws))
    return draws.sources


class _Draws:
    """The draws made so far, and the sources that may be drawn next."""

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
        """Look about `steps` draws ahead, without counting them as made.

        Returns:
            The source of each draw, and the number of that draw among all draws of its source.
        """
        count = int(min(max(steps, _LEAST_DRAWS), _MOST_DRAWS))
        edges = edges_of(self.weights)
        numbers = below(stream_values(self._key, count, self._steps), edges[-1:].astype(np.uint64))
        indices = np.searchsorted(edges, numbers, side="right") - 1
        drawn: Indices = indices.astype(np.min_scalar_type(len(self.weights) - 1))
        return drawn, self.used[drawn] + _occurrences(drawn, len(self.weights))

    def steps_until(self, count: Int64s) -> NDArray[np.float64]:
        """Estimate the steps until each source has been drawn `count` times, (sources,)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            steps = (count - self.used) * (self.weights.sum() / self.weights)
        return np.where(self.weights > 0, steps, np.inf)

    def take(self, drawn: Indices) -> None:
        """Append draws to those made so far."""
        self._parts.append(drawn)
        self._steps += len(drawn)
        if self._steps > _MOST_STEPS:
            raise ValueError(
                f"Expected an epoch of at most {_MOST_STEPS} batches, got more: weights that "
                "differ less end the epoch sooner"
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
    # The draw of a source's last batch ends this part: later draws leave that source out.
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
    """Convert weights to integers in the same proportion.

    A positive weight gives a positive integer. The integers are the same on every machine.
    """
    largest = max(weights)
    # Weights are scaled first: the sum of weights near the largest float would not be finite.
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
    """Count, for each draw, the earlier draws of the same source; return int64 (n,)."""
    count = np.bincount(drawn, minlength=sources)
    occurrence = np.empty(len(drawn), np.int64)
    by_source = np.argsort(drawn, kind="stable")
    occurrence[by_source] = np.arange(len(drawn)) - np.repeat(np.cumsum(count) - count, count)
    return occurrence
