"""Schema of batches after the steps, found by running the steps on a few rows."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import numpy as np

from fastload.errors import CorruptFileError, note
from fastload.plan.options import Options
from fastload.plan.position import WorkerSlot
from fastload.plan.read_plan import read_plan
from fastload.plan.sequence import RowGroups
from fastload.steps.outputs import field_of
from fastload.steps.run import SeedKey, run_steps
from fastload.steps.thread_pool import StepPool

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from fastload.batch.batch import Batch
    from fastload.engine.engine import Engine
    from fastload.schema.fields import Field
    from fastload.source.files import SourceFile
    from fastload.steps.steps import Steps

__all__ = ["batch_after", "fields_after", "first_rows"]

# Enough rows to see that lists vary in length, and few enough to decode images quickly.
_ROWS = 16


def fields_after(
    steps: Steps, batch: Batch, fields: Mapping[str, Field], seed: int, files: Sequence[SourceFile]
) -> tuple[dict[str, Field], Batch]:
    """Return the fields of a batch after the steps, which this thread runs, and the batch.

    Args:
        steps: the steps of the dataset.
        batch: a batch of the core, which the steps consume.
        fields: the fields of the batch's outputs.
        seed: the dataset's seed.
        files: the files of the dataset, for messages.
    """
    before = dict(batch)
    after = batch_after(steps, batch, seed, files)
    known = {
        name: fields[name] if name in fields and value is before.get(name) else field_of(value)
        for name, value in after.items()
    }
    return known, after


def batch_after(
    steps: Steps,
    batch: Batch,
    seed: int,
    files: Sequence[SourceFile],
    location: str = "in the first rows",
) -> Batch:
    """Return a batch after the steps, which this thread runs.

    Args:
        steps: as for `fields_after`.
        batch: as for `fields_after`.
        seed: as for `fields_after`.
        files: as for `fields_after`.
        location: the note that the error of a step gets.
    """
    running = run_steps(batch, steps, SeedKey(seed, 0), files, lambda _: StepPool(0))
    try:
        next(running)
    except StopIteration as end:
        after: Batch = end.value
        return after
    except Exception as error:
        note(error, location)
        raise
    raise AssertionError("a pool without threads finishes all steps at once")


def first_rows(engine: Engine, row_groups: RowGroups, *, skip: bool, rows: int = _ROWS) -> Batch:
    """Read the first readable rows of the files, in stored order.

    Args:
        engine: the engine that reads the rows.
        row_groups: all row groups, in canonical order.
        skip: leave out corrupt row groups.
        rows: number of rows to read; fewer if the files have fewer.

    Raises:
        CorruptFileError: no row group can be read, or the first one can't and `skip` is False.
        ValueError: the row groups have no rows.
    """
    groups = np.flatnonzero(row_groups.rows)
    failure = None
    while len(groups):
        # The first row groups that hold enough rows together.
        enough = int(np.searchsorted(np.cumsum(row_groups.rows[groups]), rows)) + 1
        try:
            return _rows_of(engine, row_groups, groups[:enough], rows)
        except CorruptFileError as error:
            if not skip:
                raise
            failure = error
            groups = np.setdiff1d(groups, _damaged(engine, row_groups, groups[:enough], rows))
    if failure is not None:
        raise failure
    raise ValueError("Expected a dataset with rows, got one without")


def _rows_of(engine: Engine, row_groups: RowGroups, groups: NDArray[np.intp], rows: int) -> Batch:
    """Read the first `rows` rows of some row groups."""
    columns = (row_groups.rows, row_groups.file, row_groups.index)
    some = RowGroups(*(column[groups] for column in columns))
    options = Options(batch_size=rows, limit=rows, uneven="keep")
    plan = read_plan(some, options, 0, WorkerSlot(1), stripe_rows=rows)
    tried: set[tuple[int, int]] = set()
    while True:
        with contextlib.closing(engine.start(plan, rows)) as scan:
            try:
                lent = scan.next()
            except CorruptFileError as error:
                if not engine.reads_again(error, tried):
                    raise
                continue
            assert lent is not None
            return engine.batch_of(lent, None)[0]


def _damaged(
    engine: Engine, row_groups: RowGroups, groups: NDArray[np.intp], rows: int
) -> NDArray[np.intp]:
    """Return the row groups whose first rows can't be read; all of them if none is found."""
    damaged = []
    for group in groups:
        try:
            _rows_of(engine, row_groups, np.array([group]), min(rows, int(row_groups.rows[group])))
        except CorruptFileError:
            damaged.append(group)
    return np.array(damaged or groups, np.intp)
