"""The way of one batch through the steps."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from fastload.plan.row_seeds import row_seeds
from fastload.steps.block import Views
from fastload.steps.block_job import BlockJob
from fastload.steps.kernel import Kernel
from fastload.steps.kernel_arrays import computed
from fastload.steps.outputs import merge
from fastload.steps.per_block import PerBlock
from fastload.steps.per_row import PerRow
from fastload.steps.row_job import RowJob
from fastload.steps.steps import FILE, RESERVED, ROW, check_inputs

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from fastload.batch.batch import Batch
    from fastload.source.files import SourceFile
    from fastload.steps.steps import Step, Steps
    from fastload.steps.thread_pool import Job, StepPool

__all__ = ["SeedKey", "note", "run_steps"]


class SeedKey(NamedTuple):
    """What decides the seeds of rows, beside the rows."""

    seed: int
    epoch: int


def run_steps(
    batch: Batch,
    steps: Steps,
    order: SeedKey,
    files: Sequence[SourceFile],
    pool: Callable[[int], StepPool],
) -> Generator[Job, None, Batch]:
    """Takes a batch through the steps; yields whenever threads work that it has to wait for.

    Args:
        batch: of the core; it is used up.
        steps: preprocess, then augment.
        order: of the pass.
        files: of the dataset, to name.
        pool: the threads of a preprocess step.

    Returns:
        The batch after the steps.
    """
    places = {name: batch.pop(name) for name in RESERVED if name in batch}
    batch = batch.copy()  # knows where its values lie, for whoever sends them
    place = partial(_place, files, places)
    for number, step in enumerate(steps.preprocess):
        if number >= steps.core_preprocess:
            yield from _preprocess(batch, step, partial(pool, number), place)
            _refuse_reserved(batch, step.label)
    batch.update({name: places[name] for name in places if name not in steps.hidden})
    for number, step in enumerate(steps.augment):
        if number >= steps.core_augment:
            drawn: tuple[NDArray[np.uint64], ...] = ()
            if not isinstance(step.run, Kernel) or step.run.random:
                drawn = (row_seeds(*order, number, places[FILE].numpy(), places[ROW].numpy()),)
            _augment(batch, step, drawn)
    return batch


def _preprocess(
    batch: Batch, step: Step, pool: Callable[[], StepPool], place: Callable[[int], str]
) -> Iterator[Job]:
    rows = batch.rows
    if isinstance(step.run, PerRow):
        check_inputs(step, batch)
        inputs = [batch[name] for name in step.run.inputs]
        calls = RowJob(step.run, inputs, rows, place)
        yield from _worked_on(calls, pool())
        merge(batch, batch, calls.outputs(), rows, step.label)
    elif isinstance(step.run, Kernel):
        merge(batch, batch, _computed(batch, step, ()), rows, step.label)
    else:
        views = Views(batch)
        block = views.block()
        threads = isinstance(step.run, PerBlock)
        call = BlockJob(step.run.fn if threads else step.run, block)
        if threads:
            yield from _worked_on(call, pool())
        else:
            call.run()
        with _noted(step):
            returned = call.returned()
        merge(batch, block, returned, rows, step.label, views)


def _augment(batch: Batch, step: Step, seeds: tuple[NDArray[np.uint64], ...]) -> None:
    rows = batch.rows
    if isinstance(step.run, Kernel):
        returned = _computed(batch, step, seeds)
    else:
        with _noted(step):
            returned = step.run(batch, *seeds)
    merge(batch, batch, returned, rows, step.label)


def note(error: BaseException, text: str) -> None:
    """Says in a traceback where an error came about; from Python 3.11 on."""
    if hasattr(error, "add_note"):
        error.add_note(text)


def _computed(batch: Batch, step: Step, seeds: tuple[NDArray[np.uint64], ...]) -> Any:
    with _noted(step):
        check_inputs(step, batch)
        return computed(step.run, batch, batch.rows, *seeds)


@contextmanager
def _noted(step: Step) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        note(error, f"in {step.label}")
        raise


def _worked_on(job: Job, pool: StepPool) -> Iterator[Job]:
    """Until the threads of a pool are done with it."""
    pool.begin(job)
    while not job.done:
        yield job


def _refuse_reserved(batch: Batch, label: str) -> None:
    for name in RESERVED:
        if name in batch:
            raise ValueError(
                f"Expected {label} to leave `{name}` to the dataset, got an output of that name"
            )


def _place(files: Sequence[SourceFile], places: Mapping[str, Any], row: int) -> str:
    return f"{files[int(places[FILE][row])].path}, row {int(places[ROW][row])}"
