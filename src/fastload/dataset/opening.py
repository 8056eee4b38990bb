"""What a dataset makes of its arguments before it reads a row: order, source and outputs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from fastload.plan.options import Options
from fastload.rows.predicate import Predicate, parse_filters, parse_split
from fastload.rows.values.tokens import text_of
from fastload.schema.packs import Pack, TokenBudget, columns_of_pack, packed
from fastload.schema.projection import plan_columns
from fastload.source.source import Source
from fastload.steps.kernel_plan import extra_outputs, plan_kernels

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fastload.rows.filter_schema import FilterSchema
    from fastload.rows.predicate import Filters, SplitArgument
    from fastload.schema.projection import Columns, Nulls, OutputPlan, Projection
    from fastload.source.source import SourceArgument
    from fastload.source.stores.stores import Stores
    from fastload.source.tables.table import Table, TableFile
    from fastload.steps.kernel_plan import CoreKernel
    from fastload.steps.steps import Steps

__all__ = ["OpenedSource", "PlannedOutputs", "order_of"]


class OpenedSource(NamedTuple):
    """The files of a dataset, and the condition that rows must meet.

    Attributes:
        source: the files.
        predicate: the condition.
        filter_schema: the columns of the condition; None = all rows stay.
    """

    source: Source
    predicate: Predicate
    filter_schema: FilterSchema | None

    @classmethod
    def of(
        cls,
        source: SourceArgument,
        storage: Stores,
        filters: Filters | None,
        split: SplitArgument | None,
    ) -> OpenedSource:
        """Read the footers, and check the condition; arguments as for the dataset."""
        conditions, part = parse_filters(filters), parse_split(split)
        opened = Source.open(source, storage, partial(_pruned, conditions))
        if conditions is None and part is None and not opened.has_deletes:
            return cls(opened, Predicate(), None)
        from fastload.rows.filter_schema import FilterSchema

        filter_schema = FilterSchema.of(opened)
        return cls(opened, filter_schema.predicate(conditions, part), filter_schema)

    @property
    def chooses(self) -> tuple[FilterSchema, Predicate] | None:
        """The condition, with its columns; None = all rows stay."""
        return None if self.filter_schema is None else (self.filter_schema, self.predicate)


class PlannedOutputs(NamedTuple):
    """The outputs of a batch.

    Attributes:
        lists: the columns to decode, before packing.
        projection: the columns to decode.
        outputs: the outputs of the core's batches, beginning with those of the projection.
        kernels: the kernels that the core calls.
        extra_bytes: bytes of a row in a batch besides the projection's bytes.
    """

    lists: Projection
    projection: Projection
    outputs: tuple[OutputPlan, ...]
    kernels: Sequence[CoreKernel]
    extra_bytes: int

    @classmethod
    def of(
        cls,
        opened: OpenedSource,
        columns: Columns,
        exclude: Sequence[str],
        nulls: Nulls,
        steps: Steps,
        pack: Pack | None,
        *,
        provenance: bool,
        padded: bool,
    ) -> PlannedOutputs:
        """Plan the outputs.

        Args:
            opened: the files.
            columns: as for the dataset.
            exclude: as for the dataset.
            nulls: as for the dataset.
            steps: the steps of the dataset.
            pack: as for the dataset.
            provenance: as for the dataset.
            padded: batches contain `__valid__`.
        """
        lists = plan_columns(
            opened.source,
            columns if pack is None else columns_of_pack(pack, columns),
            exclude=exclude,
            nulls=nulls,
            check_nulls=False,  # a dataset with nulls can be made and shown
        )
        added = extra_outputs(provenance=provenance, padded=padded)
        steps.check_inputs((o.name for o in lists.outputs), (o.name for o in added))
        if pack is not None:
            projection, extra = packed(lists, pack, provenance=provenance, padded=padded)
            return cls(lists, projection, (*projection.outputs, *extra), (), 0)
        extra = extra_outputs(provenance=provenance or steps.need_places, padded=padded)
        outputs, kernels = plan_kernels(steps, lists.outputs, extra)
        of_rows = outputs[len(lists.outputs) :]
        return cls(lists, lists, outputs, kernels, sum(o.field.item_bytes for o in of_rows))


def order_of(arguments: Mapping[str, Any], rows: int, slices: int | None) -> Options:
    """Return the options that decide the order, but for the shuffle window.

    Args:
        arguments: the arguments of the dataset by name.
        rows: rows of a batch, or with slices of a step.
        slices: number of canonical slices; None = there are none.

    Raises:
        ValueError: an argument is wrong.
    """
    pack, size = arguments["pack"], arguments["batch_size"]
    names = ("shuffle", "seed", "drop_last", "uneven", "limit", "offset")
    return Options(
        batch_size=rows,
        canonical_ranks=slices,
        pack=None if pack is None else text_of(pack),
        budget=text_of(size) if isinstance(size, TokenBudget) else None,
        **{name: arguments[name] for name in names},
    )


def _pruned(filters: Any, table: Table) -> Sequence[TableFile]:
    """Return the files of a table that may have rows that filters keep."""
    if filters is None:
        return table.files
    from fastload.rows.filter_schema import prune_files

    return prune_files(table, filters)
