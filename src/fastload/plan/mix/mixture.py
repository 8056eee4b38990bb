"""The facts about a mix that decide its batches. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Generic, TypeVar

from fastload.plan.position import Position
from fastload.plan.rank_split import RankSplit, whole_epoch

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from fastload.plan.intervals import Int64s
    from fastload.plan.mix.draws import Stop
    from fastload.plan.options import Window
    from fastload.plan.units.units import Units

__all__ = ["Mixture", "SourceUnits"]

# Most numbers of units of a source that are kept, each of one repetition in one epoch.
_KEPT_TOTALS = 1 << 10
# Most states of a mix that are kept: those that a pass, its resumes and `len` ask for again.
_KEPT_STATES = 8

T = TypeVar("T")


class Newest(Generic[T]):
    """Values by name, as many as were asked for last. A copy or a pickle begins without values.

    Args:
        most: number of values to keep.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: dict[Hashable, T] = {}

    def __contains__(self, name: Hashable) -> bool:
        return name in self._values

    def get(self, name: Hashable, make: Callable[[], T]) -> T:
        """Return the value of a name; `make` makes the value if it is not kept."""
        found = self._values.pop(name, None)
        if found is None:
            found = make()
        self._values[name] = found
        for old in list(self._values)[: -self._most]:
            self._values.pop(old, None)
        return found

    def __reduce__(self) -> tuple[type[Newest[T]], tuple[int]]:
        return type(self), (self._most,)


class SourceUnits:
    """The units of a source, as far as the units decide the source's batches.

    Args:
        units: the units of the source's dataset.

    Attributes:
        options: parameters of the source's dataset, where `batch_size` counts units.
        varies: True if epochs or repetitions may have different numbers of units.
    """

    def __init__(self, units: Units) -> None:
        self.options = units.options
        self.varies = units.varies
        self._units = units
        self._totals: Newest[int] = Newest(_KEPT_TOTALS)

    @property
    def window(self) -> Window:
        """The shuffle windows of the source, on which numbers of units may depend."""
        return self._units.options.window

    def total(self, seed: int, epoch: int) -> int:
        """Return the number of units of the repetition that has `seed`, in an epoch."""
        name = (self.window, (seed, epoch) if self.varies else None)
        return self._totals.get(name, lambda: self._units.total(Position(seed, epoch, ())))

    def positions(self, seed: int, epoch: int) -> Int64s:
        """Return the positions of a whole repetition, as intervals."""
        return whole_epoch(self.total(seed, epoch), self.options)

    def split(self, positions: Int64s, seed: int, epoch: int, world: int) -> RankSplit:
        """Split `positions` of a repetition over `world` ranks."""
        rows = self.options.limited(self.total(seed, epoch))
        return RankSplit(positions, world, self.options, rows)

    def whole(self, seed: int, epoch: int, world: int) -> RankSplit:
        """Split a whole repetition over `world` ranks."""
        return self.split(self.positions(seed, epoch), seed, epoch, world)


@dataclass(frozen=True, eq=False)
class Mixture:
    """The facts about a mix that decide its batches.

    Attributes:
        sources: the sources.
        weights: weight of each source; None = the number of batches of each source.
        stop: when the mix ends (see `draw_sources`).
        seed: seed of the mix.
        seeds: seed of each source.
        canonical_ranks: slices of each source of which each step takes as many rows; None = the
            sources have no such slices.
        states: progress of epochs, which `mix_plan` keeps here.
    """

    sources: tuple[SourceUnits, ...]
    weights: tuple[float, ...] | None
    stop: Stop
    seed: int
    seeds: tuple[int, ...]
    canonical_ranks: int | None = None
    states: Newest[object] = field(default_factory=lambda: Newest(_KEPT_STATES), repr=False)

    def at(self, position: Position) -> Mixture:
        """Return the mixture with the seeds of a position."""
        return replace(self, seed=position.seed, seeds=position.seeds)
