"""Search in the core for the rows that pass conditions."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import torch

from fastload.engine.engine import column_specs
from fastload.errors import FastloadError
from fastload.plan.kept_rows import FileRows, pack_rows
from fastload.rows.conditions import RowConditions, is_short_decimal
from fastload.runtime.cores import available_cores
from fastload.runtime.native import core
from fastload.schema.columns import Codes, Column
from fastload.schema.leaf_types import NUMBERS
from fastload.schema.projection import plan_columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray
    from typing_extensions import Self

    from fastload.rows.filter_schema import FilterSchema
    from fastload.rows.predicate import Predicate
    from fastload.schema.fields import Field
    from fastload.schema.projection import Projection
    from fastload.source.source import Source

    GroupRows = tuple[int, NDArray[np.uint8] | None]

__all__ = ["CoreRowFinder", "rows_of_groups"]

_REMOTE_THREADS = 32


class CoreRowFinder:
    """Finds the rows of files that pass conditions.

    Args:
        source: the files.
        conditions: the conditions.
        projection: the columns of the conditions; the name of an output is the index of a column
            in `conditions.names`.
        decodes: read columns. If False, all rows of a row group count as found, unless statistics,
            Bloom filters or hive keys say that none passes.
    """

    def __init__(
        self,
        source: Source,
        conditions: RowConditions,
        projection: Projection,
        *,
        decodes: bool = True,
    ) -> None:
        self._files = source.files
        outputs = {output.name: output.columns[0] for output in projection.outputs}
        remote = source.storage.serve(source.files, data=False)
        # More threads than cores for a store, since most of them wait for requests.
        threads = available_cores() if remote is None else _REMOTE_THREADS
        self._core = core.RowFinder(
            files=[file.for_core for file in source.files],
            columns=column_specs(projection.columns),
            tests=[(outputs[str(i)], ranges, nulls) for i, ranges, nulls in conditions.tests],
            program=conditions.program,
            threads=threads,
            remote=remote,
            decodes=decodes,
        )

    @classmethod
    def of(
        cls,
        source: Source,
        schema: FilterSchema,
        predicate: Predicate,
        *,
        partial: bool = False,
    ) -> Self | None:
        """Make a finder for a predicate.

        Args:
            source: the files.
            schema: the columns of all files.
            predicate: the filters and the split.
            partial: make a finder that rules out row groups, by the parts of the filters that the
                core can evaluate and that every row has to pass. It is for `may_pass` alone.

        Returns:
            The finder, or None if the core can't evaluate the predicate, or no such part of it.
        """
        if predicate.filters is None or (predicate.split is not None and not partial):
            return None
        conditions = RowConditions.of(predicate.filters, schema.arrow, partial=partial)
        if conditions is None:
            return None
        projection = _projection(source, schema, conditions)
        return cls(source, conditions, projection, decodes=not partial) if projection else None

    def may_pass(self, tasks: Sequence[tuple[int, int]]) -> list[bool]:
        """Return for each row group whether a row may pass, without reading columns.

        Args:
            tasks: for each row group the index of its file and its index in the file.
        """
        # The count of rows, or the cause why the row group can't be read, which reading it shows.
        return [
            isinstance(result, str) or result[0] > 0
            for result in self._core.find(list(tasks), skip=True)
        ]

    def find(
        self, indices: Sequence[int], *, skip: bool
    ) -> Iterator[tuple[FileRows, dict[int, str]]]:
        """Find the rows that pass, file by file.

        Args:
            indices: the indices of the files.
            skip: keep no row of a row group that can't be read, instead of raising an error.

        Yields:
            The rows of a file, and for each row group that can't be read the cause.
        """
        counts = [len(self._files[index].footer.row_group_rows) for index in indices]
        tasks = [(i, g) for i, count in zip(indices, counts, strict=True) for g in range(count)]
        found = iter(self._core.find(tasks, skip=skip))
        for count in counts:
            yield rows_of_groups(list(islice(found, count)))


def rows_of_groups(results: Sequence[GroupRows | str]) -> tuple[FileRows, dict[int, str]]:
    """Return the rows of a file that stay, and for each row group that can't be read the cause.

    Args:
        results: for each row group of the file, the number of rows that stay and a bit for each
            row (None if all or none stay), or the cause why the row group can't be read.
    """
    causes = {group: result for group, result in enumerate(results) if isinstance(result, str)}
    kept = [(0, None) if isinstance(result, str) else result for result in results]
    return pack_rows([count for count, _ in kept], [bits for _, bits in kept]), causes


def _projection(
    source: Source, schema: FilterSchema, conditions: RowConditions
) -> Projection | None:
    """Return a projection of the columns of conditions, where output `i` is the i-th column.

    Returns None if the tensors of a column would hold other values than Arrow's arrays do.
    """
    types = [schema.arrow.field(name).type for name in conditions.names]
    columns = {
        str(index): _column(name, arrow, words)
        for index, (name, arrow, words) in enumerate(
            zip(conditions.names, types, conditions.words, strict=True)
        )
    }
    try:
        projection = plan_columns(source, columns)
    except (FastloadError, TypeError, ValueError):
        return None
    fields = projection.schema
    same = all(
        words or _has_numbers_of(arrow, fields[str(i)])
        for i, (arrow, words) in enumerate(zip(types, conditions.words, strict=True))
    )
    return projection if same else None


def _column(name: str, arrow: Any, words: Sequence[str] | Sequence[bytes]) -> Column | Codes:
    if words:
        return Codes(name, words)
    if is_short_decimal(arrow):
        return Column(name, dtype=torch.int64, fill=0, valid=True)
    return Column(name, fill=False if pa.types.is_boolean(arrow) else 0, valid=True)


def _has_numbers_of(arrow: Any, field: Field) -> bool:
    """Return True if tensors of a field hold the same numbers as Arrow's arrays of a type."""
    if field.depth or field.shape or field.ragged:
        return False
    if pa.types.is_timestamp(arrow):
        return bool(field.dtype == torch.int64 and field.unit == arrow.unit)
    if is_short_decimal(arrow):
        return bool(field.dtype == torch.int64)
    dtype = torch.int32 if arrow == pa.date32() else NUMBERS.get(arrow)
    return bool(dtype == field.dtype)
