"""Pruning of a table's files by the table's own metadata, before any footer is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from fastload.rows.filter_schema import FilterSchema, not_excluded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastload.source.tables.table import Bounds, Table, TableFile

__all__ = ["prune_files"]


def prune_files(table: Table, filters: Any) -> Sequence[TableFile]:
    """Return the files of a table that may have rows for which filters are true; at least one.

    Args:
        table: the table.
        filters: the filters, as `parse_filters` returned them.

    Raises:
        ColumnNotFoundError, SchemaError, ValueError: as `FilterSchema.predicate`.
    """
    columns = table.columns
    schema = FilterSchema(columns.arrow, columns.location, {})
    expression = schema.predicate(filters, None).filters
    kept = not_excluded(map(_guarantee, table.files), columns.arrow, expression)
    # A dataset without rows still has its columns, for which it needs a file.
    return [table.files[index] for index in kept or [0]]


def _guarantee(file: TableFile) -> Any:
    """Return an Expression that is true for all rows of a file."""
    found = pc.scalar(value=True)
    for path, scalar in file.constants:
        if not scalar.is_valid:
            found &= pc.field(*path).is_null()
        elif not pa.types.is_floating(scalar.type):  # NaN equals nothing
            found &= pc.field(*path) == scalar
    for bounds in file.bounds:
        found &= _within(bounds)
    return found


def _within(bounds: Bounds) -> Any:
    column = pc.field(*bounds.path)
    if bounds.nulls:
        return column.is_null()
    if bounds.least is None or bounds.most is None:
        return pc.scalar(value=True) if bounds.nulls is None else column.is_valid()
    found = (column >= bounds.least) & (column <= bounds.most)
    return found if bounds.nulls is False else found | column.is_null()
