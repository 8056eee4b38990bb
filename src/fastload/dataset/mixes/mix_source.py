"""A source of a mix: a dataset that the mix takes batches from."""

# ruff: noqa: SLF001 - only this module of the mix uses private parts of the datasets.

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import torch

from fastload.dataset.dataset import FastParquetDataset
from fastload.dataset.mixes.mix_feed import SourceFeed
from fastload.dataset.passes.feed import Feed
from fastload.dataset.passes.feed_plan import SourcePlan
from fastload.dataset.resumable import PASS_OF_MIX
from fastload.dataset.state import check_identity, encode_identity
from fastload.plan.mix.mixture import SourceUnits
from fastload.plan.position import Position
from fastload.schema.fields import Field, Schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager

    from fastload.dataset.ranks import Rank
    from fastload.engine.stats import Stats
    from fastload.plan.mix.source_share import SourceShare
    from fastload.plan.options import Options, Window
    from fastload.plan.position import WorkerSlot
    from fastload.plan.units.units import Units
    from fastload.rows.selection import EpochRows
    from fastload.runtime.native import core
    from fastload.source.source import Source

__all__ = ["MixSource"]


class MixSource:
    """One dataset of a mix.

    Args:
        name: the name of the source.
        dataset: the dataset.

    Raises:
        TypeError: `name` is not a str, or `dataset` is not a FastParquetDataset.
        ValueError: the dataset cannot be mixed.
    """

    def __init__(self, name: str, dataset: FastParquetDataset) -> None:
        if not isinstance(name, str):
            raise TypeError(f"Expected the name of a source as str, got {name!r}")
        if not isinstance(dataset, FastParquetDataset):
            raise TypeError(
                f"Expected a FastParquetDataset, got {type(dataset).__name__} - at source `{name}`"
            )
        self.name = name
        self.dataset = dataset
        if dataset._weights is not None:
            dataset._weights.hold()

    @property
    def units(self) -> SourceUnits:
        """The units that batches of the source count."""
        return SourceUnits(self.dataset._units)

    @property
    def planned(self) -> tuple[Source, EpochRows, Units]:
        """The files, the rows of an epoch and the units, for the rows of a step."""
        return self.dataset._source, self.dataset._rows, self.dataset._units

    @property
    def seed(self) -> int:
        """The seed of the source's own order."""
        return self._options.seed

    @property
    def canonical_ranks(self) -> int | None:
        """Number of the source's canonical slices; None = the source has no such slices."""
        return self._options.canonical_ranks

    @property
    def provenance(self) -> bool:
        """True if batches of the source have `__file__` and `__row__`."""
        return self.dataset._provenance

    @property
    def schema(self) -> Schema:
        """The outputs of a batch of the source."""
        fields = dict(self.dataset.schema)
        if self.provenance:
            fields["__source__"] = Field(torch.int32)
        return Schema(fields)

    @property
    def rank(self) -> Rank | None:
        """The dataset's rank, or None if the rank is not known yet."""
        return self.dataset._rank

    def resolved_rank(self) -> Rank:
        """Resolve the dataset's rank, which then stays as it is."""
        return self.dataset._resolved_rank()

    @property
    def may_be_uneven(self) -> bool:
        """True if the ranks of the dataset may have different numbers of batches."""
        return self._options.uneven == "keep"

    @property
    def closed(self) -> bool:
        """True if the dataset was closed."""
        return self.dataset._closed

    def stats(self, consuming_s: float) -> Stats:
        """Return the dataset's statistics, with `consuming_s` seconds between batches."""
        return replace(self.dataset.stats(), consuming_s=consuming_s)

    def identity(self) -> dict[str, Any]:
        """Return the part of a saved state that identifies the source."""
        dataset = self.dataset
        identity = encode_identity(dataset._source, self._order_options, dataset._predicate)
        return {"name": self.name, **identity}

    def check_identity(self, saved: Mapping[str, Any]) -> None:
        """Refuse the saved identity of another source, as `state.check_identity` does."""
        dataset = self.dataset
        check_identity(saved, dataset._source, self._order_options, dataset._predicate)

    def saved_window(self, saved: Mapping[str, Any]) -> Window | None:
        """Return the shuffle windows to take over from the source's part of a saved state."""
        return self.dataset._saved_window(saved)

    def use_window(self, window: Window | None) -> None:
        """Take over shuffle windows; None = those of the dataset stay."""
        self.dataset._use_windows((window,))

    def in_window(self, window: Window | None) -> AbstractContextManager[object]:
        """Take over shuffle windows for a with block."""
        return self.dataset._in_windows((window,))

    def begin(
        self,
        shares: Callable[[], Iterator[SourceShare]],
        start: Position,
        part: WorkerSlot,
        on_last: Callable[[core.Scan], None],
    ) -> SourceFeed | None:
        """Begin a pass over shares of the dataset, one after the other, and end the pass before.

        Args:
            shares: returns an iterator over a share of the dataset for each repetition.
            start: the position where the pass of the mix begins.
            part: the slot of this worker.
            on_last: called with the scan of the last share once the scan has opened its last
                window, if looking ahead is worth while.

        Returns:
            The feed of the shares, or None if there are no shares.
        """
        self.dataset._refuse_nulls()
        self.dataset._end_pass(*PASS_OF_MIX)
        left, opened, whole = shares(), 1, True
        own = next(left, None)
        if own is None:
            self.dataset._ahead.drop()
            return None
        engine = self.dataset._engines.of_process(part.workers)
        first = self.dataset._ahead.take(engine, start, part)
        if first is None:
            first = self._open(own, start, part)

        def open_next(before: core.Scan | None) -> Feed | None:
            nonlocal left, opened, whole
            if not whole:  # an error ended the call before, and perhaps the iterator
                left = islice(shares(), opened, None)
            whole = False
            own = next(left, None)
            feed = None if own is None else self._open(own, start, part, before)
            opened += feed is not None
            whole = True
            return feed

        return SourceFeed(first, open_next, on_last)

    def foresee(self, next_position: Callable[[], Position], number: int) -> None:
        """Begin to find the units of the next pass, as `Units.foresee` does.

        Args:
            next_position: returns the position where the next pass of the mix begins.
            number: the number of this source in the mix.
        """

        def first_repetition() -> Position:
            start = next_position()
            return Position(start.seeds[number], start.epoch, ())

        engine = self.dataset._engine
        if engine is not None and engine.looks_ahead:
            self.dataset._units.foresee(first_repetition)

    def prepare(
        self, own: SourceShare, start: Position, part: WorkerSlot, before: core.Scan
    ) -> None:
        """Begin to read the first windows of the next pass while the running pass ends."""
        self.dataset._ahead.set(self._open(own, start, part, before), start, part)

    def expect(self, start: Position) -> None:
        """Drop the prepared pass, unless it begins at `start`."""
        self.dataset._ahead.expect(lambda: start)

    @property
    def _options(self) -> Options:
        return self.dataset._options

    @property
    def _order_options(self) -> Options:
        """The options that decide the order, with the weights of the rows."""
        weights = self.dataset._weights
        return self._options.weighted("" if weights is None else weights.name)

    def _open(
        self, own: SourceShare, start: Position, part: WorkerSlot, before: core.Scan | None = None
    ) -> Feed:
        dataset = self.dataset
        engine = dataset._engines.of_process(part.workers)
        return Feed(dataset._context, engine, SourcePlan(dataset._units, start.epoch, own), before)
