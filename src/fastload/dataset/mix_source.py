"""A source of a mix: a dataset whose batches the mix asks for."""

# ruff: noqa: SLF001 - a mix is made of the insides of its datasets, here alone.

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from fastload.dataset.dataset import FastParquetDataset
from fastload.dataset.mix_feed import SourceFeed
from fastload.dataset.passes.epoch_iterator import PreparedPass
from fastload.dataset.state import check_identity, encode_identity
from fastload.plan.mix_plan import SourceRows
from fastload.schema.fields import Field, Schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from fastload.dataset.passes.epoch_iterator import OpenFeed
    from fastload.dataset.ranks import Rank
    from fastload.engine.stats import Stats
    from fastload.plan.mix_plan import SourceShare
    from fastload.plan.options import Options
    from fastload.plan.position import Position, WorkerSlot
    from fastload.runtime.native import core

__all__ = ["MixSource"]


class MixSource:
    """One dataset of a mix.

    Args:
        name: of the source.
        dataset: it.

    Raises:
        TypeError, ValueError: it is none that can be mixed.
    """

    def __init__(self, name: str, dataset: FastParquetDataset) -> None:
        if not isinstance(name, str):
            raise TypeError(f"Expected the name of a source as str, got {name!r}")
        if not isinstance(dataset, FastParquetDataset):
            raise TypeError(
                f"Expected a FastParquetDataset, got {type(dataset).__name__} - at source `{name}`"
            )
        if dataset._yields_rows:
            raise ValueError(
                "Expected a dataset that makes batches, got one of rows (batch_size=None) - at "
                f"source `{name}`"
            )
        self.name = name
        self.dataset = dataset

    @property
    def rows(self) -> SourceRows:
        """What decides its batches."""
        return SourceRows(self.dataset._rows.row_groups.total_rows, self._options)

    @property
    def seed(self) -> int:
        """The seed of the source's own order."""
        return self._options.seed

    @property
    def provenance(self) -> bool:
        """Whether its batches say where their rows come from."""
        return self.dataset._provenance

    @property
    def schema(self) -> Schema:
        """What its batches hold."""
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
        """Whether its ranks may have different numbers of batches."""
        return self._options.uneven == "keep"

    @property
    def closed(self) -> bool:
        """Whether its dataset was closed."""
        return self.dataset._closed

    def stats(self, consuming_s: float) -> Stats:
        """Return the dataset's statistics, with `consuming_s` seconds between batches."""
        return replace(self.dataset.stats(), consuming_s=consuming_s)

    def identity(self) -> dict[str, Any]:
        """The part of a saved state that says what source it is, as small as can be."""
        dataset = self.dataset
        identity = encode_identity(dataset._source, dataset._options, dataset._predicate)
        order = {name: value for name, value in identity["order"].items() if value is not None}
        return {"name": self.name, **identity, "order": order}

    def check_identity(self, saved: Mapping[str, Any]) -> None:
        """Refuses what another source saved, as `decode_state` does."""
        dataset = self.dataset
        check_identity(saved, dataset._source, dataset._options, dataset._predicate)

    def begin(
        self,
        shares: Iterator[SourceShare],
        start: Position,
        part: WorkerSlot,
        on_last: Callable[[core.Scan], None],
    ) -> SourceFeed | None:
        """Begins a pass over some shares, one after the other, and ends the one before.

        Args:
            shares: for each repetition.
            start: where the pass of the mix begins.
            part: which worker this is.
            on_last: told, with the scan, when the last window of the last share is in work and
                it is worth while to look ahead.

        Returns:
            None if there are no shares.
        """
        self.dataset._end_pass()
        prepared, self.dataset._prepared = self.dataset._prepared, None
        own = next(shares, None)
        if own is None:
            if prepared is not None:
                prepared.close()
            return None
        engine = self.dataset._engines.of_process(part.workers)
        first = prepared.take(engine, start, part) if prepared is not None else None
        if first is None:
            first = self._open(own, start, part)

        def open_next(before: core.Scan | None) -> OpenFeed | None:
            following = next(shares, None)
            return None if following is None else self._open(following, start, part, before)

        return SourceFeed(first, open_next, on_last)

    def prepare(
        self, own: SourceShare, start: Position, part: WorkerSlot, before: core.Scan
    ) -> None:
        """Has the first windows of the next pass read while this one ends."""
        self.dataset._prepared = PreparedPass(self._open(own, start, part, before), start, part)

    def expect(self, start: Position) -> None:
        """Drops what was prepared, unless for a pass that begins there."""
        prepared = self.dataset._prepared
        if prepared is not None and prepared.start != start:
            prepared.close()
            self.dataset._prepared = None

    @property
    def _options(self) -> Options:
        return self.dataset._options

    def _open(
        self, own: SourceShare, start: Position, part: WorkerSlot, before: core.Scan | None = None
    ) -> OpenFeed:
        engine = self.dataset._engines.of_process(part.workers)
        return self.dataset._feeds.open_share(engine, start.epoch, own, before)
