"""The weights of a dataset's rows: those of the next epoch, and those of epochs that have begun."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fastload.plan.units.canonical import CanonicalUnits, slice_options
from fastload.plan.units.weighted import RowWeights, WeightedUnits
from fastload.rows.values.weights import find_weights
from fastload.runtime.native import core

if TYPE_CHECKING:
    from fastload.dataset.epochs import EpochCell
    from fastload.plan.options import Options
    from fastload.plan.units.units import Units
    from fastload.rows.selection import EpochRows
    from fastload.rows.values.weights import Weights
    from fastload.source.source import Source
    from fastload.source.stores.io import IO

__all__ = ["DatasetWeights"]


class DatasetWeights:
    """The weights of a dataset.

    Args:
        source: the files.
        rows: the rows that stay.
        io: the options for reading files.
        memory_budget: the bytes that this process may use.
        weights: the first weights, as for `find_weights`.
        epochs: names the weights of the next epoch, and carries weights to worker processes.

    Attributes:
        name: the digest of the newest weights.
    """

    def __init__(
        self,
        source: Source,
        rows: EpochRows,
        io: IO,
        memory_budget: int,
        weights: Weights,
        epochs: EpochCell,
    ) -> None:
        self._source = source
        self._rows = rows
        self._io = io
        self._memory_budget = memory_budget
        self._epochs = epochs
        first = self._found(weights)
        self.name = first.name
        self._known = {first.name: first}
        self._held = False
        epochs.set_weights(first.name, first.values)

    def _found(self, weights: Weights) -> RowWeights:
        return find_weights(weights, self._source, self._rows, self._io, self._memory_budget)

    def units(self, options: Options) -> Units:
        """Return the units of the epochs."""
        groups, of_slice = self._rows.row_groups, slice_options(options)
        units = WeightedUnits(groups, of_slice, self.of, core.draw_copies, core.permutation)
        if options.canonical_ranks is None:
            return units
        return CanonicalUnits(units, options.canonical_ranks)

    def hold(self) -> None:
        """Keep the newest weights for good: positions of a mix name no weights of its sources."""
        self._held = True

    def of(self, name: str) -> RowWeights | None:
        """Return the weights with a digest, or None if no process of the dataset keeps them.

        The digest "" stands for the newest weights, if `hold` was called.
        """
        if self._held:
            name = name or self.name
        found = self._known.get(name)
        if found is None and (values := self._epochs.values_of(name)) is not None:
            return RowWeights(values, name)
        return found

    def replace(self, weights: Weights, in_use: set[str]) -> None:
        """Replace the weights, also for worker processes that are already running.

        Args:
            weights: the new weights.
            in_use: digests of weights that passes of this process still need.

        Raises:
            ValueError: as `find_weights`, or the weights are held.
        """
        if self._held:
            raise ValueError(
                "A source of a mix keeps its weights: make a new dataset with other weights, and a "
                "new mix"
            )
        new = self._found(weights)
        in_use = in_use | self._epochs.weights_in_use
        for name in self._known.keys() - in_use:
            del self._known[name]
        self._known[new.name] = new
        self._epochs.set_weights(new.name, new.values, in_use)
        self.name = new.name

    def options_of(self, state: Mapping[str, Any], options: Options) -> Options:
        """Return the options to compare a state with: those of its weights, if they are known."""
        order = state.get("order")
        saved = order.get("weights") if isinstance(order, Mapping) else None
        if isinstance(saved, str) and saved in {*self._known, *self._epochs.shared_weights}:
            return options.weighted(saved)
        return options.weighted(self.name)

    def __getstate__(self) -> dict[str, Any]:
        # A copy made in a worker process has shared memory of its own.
        shared = self._epochs.shared_weights - self._known.keys()
        found = {name: weights for name in shared if (weights := self.of(name)) is not None}
        return {**self.__dict__, "_known": {**self._known, **found}}
