"""Finds the rows that pass conditions, in the core."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastload.engine.engine import column_specs
from fastload.plan.kept_rows import FileRows, pack_rows
from fastload.rows.conditions import RowConditions
from fastload.rows.filter_reader import plan_filter_columns
from fastload.runtime.cores import available_cores
from fastload.runtime.native import core

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray
    from typing_extensions import Self

    from fastload.rows.filter_schema import FilterSchema
    from fastload.rows.predicate import Predicate
    from fastload.schema.projection import Projection
    from fastload.source.source import Source

__all__ = ["ConditionFinder"]

_REMOTE_THREADS = 32


class ConditionFinder:
    """Looks for the rows of files that pass conditions.

    Args:
        source: the files.
        conditions: what rows have to pass.
        projection: of their columns: output `i` is the i-th of them.
    """

    def __init__(self, source: Source, conditions: RowConditions, projection: Projection) -> None:
        self._files = source.files
        outputs = {output.name: output.columns[0] for output in projection.outputs}
        remote = source.storage.serve(source.files, data=False)
        # Of those that wait for a store, most do nothing.
        threads = available_cores() if remote is None else _REMOTE_THREADS
        self._core = core.RowFinder(
            files=[(file.path, file.mtime_ns, file.footer) for file in source.files],
            columns=column_specs(projection.columns),
            tests=[(outputs[str(i)], ranges, nulls) for i, ranges, nulls in conditions.tests],
            program=conditions.program,
            threads=threads,
            remote=remote,
        )

    @classmethod
    def of(cls, source: Source, schema: FilterSchema, predicate: Predicate) -> Self | None:
        """A finder of what a predicate keeps; None if that is more than conditions."""
        if predicate.filters is None or predicate.split is not None:
            return None
        conditions = RowConditions.of(predicate.filters, schema.arrow)
        if conditions is None:
            return None
        projection = plan_filter_columns(source, schema, conditions.names)
        return cls(source, conditions, projection) if projection else None

    def find(
        self, indices: Sequence[int], *, skip: bool
    ) -> Iterator[tuple[FileRows, dict[int, str]]]:
        """The rows of each of the files of those indices.

        skip: no row stays of a row group that can't be read, which is an error else.

        Returns:
            The rows, and why row groups can't be read.
        """
        counts = [len(self._files[index].footer.row_group_rows) for index in indices]
        tasks = [(i, g) for i, count in zip(indices, counts, strict=True) for g in range(count)]
        found = iter(self._core.find(tasks, skip=skip))
        for count in counts:
            kept: list[tuple[int, NDArray[np.uint8] | None]] = [(0, None)] * count
            causes = {}
            for group in range(count):
                result = next(found)
                if isinstance(result, str):
                    causes[group] = result
                else:
                    kept[group] = result
            yield pack_rows([n for n, _ in kept], [bits for _, bits in kept]), causes
