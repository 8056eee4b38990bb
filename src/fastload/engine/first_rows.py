"""What batches hold after the steps, found out on a few rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fastload.errors import CorruptFileError
from fastload.plan.read_plan import Options, RowGroups, read_plan
from fastload.schema.fields import Field, Schema
from fastload.steps.outputs import field_of
from fastload.steps.run import SeedKey, note, run_steps
from fastload.steps.thread_pool import StepPool

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fastload.batch.batch import Batch
    from fastload.engine.engine import Engine
    from fastload.source.files import SourceFile
    from fastload.steps.steps import Steps

__all__ = ["fields_after", "first_rows", "schema_after"]

# Enough that lists of varying lengths show, few enough that images are decoded in no time.
_ROWS = 16


def schema_after(
    steps: Steps, batch: Batch, fields: Mapping[str, Field], seed: int, files: Sequence[SourceFile]
) -> Schema:
    """What a batch of these rows holds after the steps, which are called by this thread.

    Args:
        steps: preprocess, then augment.
        batch: of the core; it is used up.
        fields: of its outputs.
        seed: of the dataset.
        files: of the dataset, to name.
    """
    return Schema(fields_after(steps, batch, fields, seed, files)[0])


def fields_after(
    steps: Steps, batch: Batch, fields: Mapping[str, Field], seed: int, files: Sequence[SourceFile]
) -> tuple[dict[str, Field], Batch]:
    """Return what `schema_after` returns, and the batch after the steps."""
    before = dict(batch)
    running = run_steps(batch, steps, SeedKey(seed, 0), files, lambda _: StepPool(0))
    try:
        next(running)
    except StopIteration as end:
        after: Batch = end.value
    except Exception as error:
        note(error, "in the first rows, to find out the schema")
        raise
    known = {
        name: fields[name] if value is before.get(name) else field_of(value)
        for name, value in after.items()
    }
    return known, after


def first_rows(engine: Engine, row_groups: RowGroups, *, skip: bool) -> Batch:
    """The first rows that can be read of the files, in stored order.

    Args:
        engine: reads them.
        row_groups: all, in canonical order.
        skip: leave out row groups that are corrupt.

    Raises:
        CorruptFileError: none can be read, or not the first ones and `skip` is False.
        ValueError: there are none.
    """
    options = Options(batch_size=_ROWS, limit=_ROWS, uneven="keep")
    failure = None
    for group in np.flatnonzero(row_groups.rows):
        columns = (row_groups.rows, row_groups.file, row_groups.index)
        one = RowGroups(*(column[group : group + 1] for column in columns))
        scan = engine.start(read_plan(one, options, 0, (), 1, 0, stripe_rows=_ROWS), _ROWS)
        try:
            lent = scan.next()
            assert lent is not None
            return engine.batch_of(lent, None)[0]
        except CorruptFileError as error:
            if not skip:
                raise
            failure = error
        finally:
            scan.close()
    if failure is not None:
        raise failure
    raise ValueError("Expected rows to find out what the steps make of them, got none")
