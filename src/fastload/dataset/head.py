"""The first rows of a dataset, read beside its passes."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING

from fastload.engine.first_rows import batch_after, first_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastload.batch.batch import Batch
    from fastload.dataset.process_engine import ProcessEngine
    from fastload.schema.projection import OutputPlan, Projection
    from fastload.steps.steps import Steps

__all__ = ["head"]


def head(
    engines: ProcessEngine,
    projection: Projection,
    extra: Sequence[OutputPlan],
    steps: Steps,
    rows: int,
) -> Batch:
    """Return the first rows in stored order, after the steps.

    Args:
        engines: the arguments for making engines; the engine of the passes is not touched.
        projection: the columns to decode.
        extra: the outputs that are not columns of the files.
        steps: the steps of the dataset.
        rows: number of rows; fewer if the dataset has fewer.

    Raises:
        TypeError, ValueError: `rows` is not a positive int, or the dataset has no rows, or the
            memory budget is too small for the rows.
    """
    if type(rows) is not int:
        raise TypeError(f"Expected n as int, got {rows!r}")
    if rows < 1:
        raise ValueError(f"Expected n to be at least 1, got {rows}")
    kept, options = engines.rows.row_groups, engines.options
    if options.limit is not None:
        rows = min(rows, options.limit)
    rows = min(rows, kept.total_rows)
    if not rows:
        raise ValueError("Expected a dataset with rows, got one without")
    own = replace(engines.beside(projection, extra, steps), batch_rows=rows)
    with contextlib.closing(own.another(inline=True)) as engine:
        batch = first_rows(engine, kept, skip=own.fixed_stripes, rows=rows)
    return batch_after(steps, batch, options.seed, own.source.files)
