"""Run of the steps on one batch."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from fastload.errors import note
from fastload.plan.permutation import seeds_of, step_key
from fastload.steps.block import BlockJob, Views
from fastload.steps.image_step import ImageStep
from fastload.steps.kernel import Kernel
from fastload.steps.kernel_calls import computed
from fastload.steps.outputs import merge
from fastload.steps.per_row import PerBlock, PerRow, RowJob
from fastload.steps.steps import FILE, RESERVED, ROW, check_inputs, refuse_reserved

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from fastload.batch.batch import Batch
    from fastload.source.files import SourceFile
    from fastload.steps.steps import Step, Steps
    from fastload.steps.thread_pool import Job, StepPool

__all__ = ["SeedKey", "run_steps"]


_ARRAYS = (
    "the values of a block are NumPy arrays: use NumPy, or torch.from_numpy(block[name]) for a "
    "tensor over the same memory"
)


class SeedKey(NamedTuple):
    """Numbers that decide the seeds of rows, together with the rows.

    Attributes:
        seed: the dataset's seed.
        epoch: the epoch's number.
    """

    seed: int
    epoch: int


def run_steps(
    batch: Batch,
    steps: Steps,
    order: SeedKey,
    files: Sequence[SourceFile],
    pool: Callable[[PerBlock | PerRow], StepPool],
) -> Generator[Job, None, Batch]:
    """Run the steps on a batch.

    Args:
        batch: a batch of the core. The steps consume the batch.
        steps: the steps of `preprocess` and `augment`; steps that the core runs are left out.
        order: the seed and the epoch.
        files: the files of the dataset, for messages.
        pool: returns the threads of a step.

    Yields:
        The job of a step, as long as threads work on the job.

    Returns:
        The batch after the steps.
    """
    origins = {name: batch.pop(name) for name in RESERVED if name in batch}
    batch = batch.copy()  # the copy knows the memory of its values, which a sender needs
    location = partial(_location, files, origins)
    for step in steps.preprocess[steps.core_preprocess :]:
        rows = batch.rows
        yield from _run_step(batch, step, (), pool, location, resizes=steps.resizes)
        refuse_reserved(batch, step.label)
        if batch.rows != rows:
            origins.clear()  # no row is that of a file any more
    batch.update({name: origins[name] for name in origins if name not in steps.hidden})
    for number, step in enumerate(steps.augment):
        if number >= steps.core_augment:
            drawn: tuple[NDArray[np.uint64], ...] = ()
            if step.draws:
                key = step_key(*order, step.number)
                drawn = (seeds_of(key, origins[FILE].numpy(), origins[ROW].numpy()),)
            yield from _run_step(batch, step, drawn, pool, location)
    return batch


def _run_step(
    batch: Batch,
    step: Step,
    seeds: tuple[NDArray[np.uint64], ...],
    pool: Callable[[PerBlock | PerRow], StepPool],
    location: Callable[[int], str],
    *,
    resizes: bool = False,
) -> Iterator[Job]:
    """Run a step on a batch, with the seeds of the rows if the step draws."""
    rows = batch.rows
    if isinstance(step.run, PerRow):
        check_inputs(step.run, batch, step.label)
        filled = step.run.targets(rows) if isinstance(step.run, ImageStep) else {}
        columns = [*(batch[name] for name in step.run.inputs), *filled.values(), *seeds]
        calls = RowJob(step.run, columns, rows, location)
        yield from _worked_on(calls, pool(step.run))
        merge(batch, batch, {**filled, **calls.outputs()}, rows, step.label)
    elif isinstance(step.run, Kernel):
        merge(batch, batch, _computed(batch, step.run, seeds), rows, step.label)
    elif seeds:
        assert not isinstance(step.run, PerBlock), "Expected a step of augment"
        with _noted(step.label):
            returned = step.run(batch, *seeds)
        merge(batch, batch, returned, rows, step.label)
    else:
        views = Views(batch)
        block = views.block()
        if isinstance(step.run, PerBlock):
            call = BlockJob(step.run.fn, block)
            yield from _worked_on(call, pool(step.run))
        else:
            call = BlockJob(step.run, block)
            call.run()
        with _noted(step.label, _ARRAYS):
            returned = call.returned()
        merge(batch, block, returned, rows, step.label, views, resizes=resizes)


def _computed(batch: Batch, kernel: Kernel, seeds: tuple[NDArray[np.uint64], ...]) -> Any:
    with _noted(kernel.label):
        check_inputs(kernel, batch, kernel.label)
        return computed(kernel, batch, batch.rows, *seeds)


@contextmanager
def _noted(label: str, arrays: str = "") -> Iterator[None]:
    """Add the name of a step to its errors; `arrays` too if the step took an array for a tensor."""
    try:
        yield
    except Exception as error:
        note(error, f"in {label}")
        if isinstance(error, (TypeError, AttributeError)) and "numpy.ndarray" in str(error):
            note(error, arrays)
        raise


def _worked_on(job: Job, pool: StepPool) -> Iterator[Job]:
    """Give a job to the threads of a pool, and yield the job until it is done."""
    pool.begin(job)
    while not job.done:
        yield job


def _location(files: Sequence[SourceFile], origins: Mapping[str, Any], row: int) -> str:
    if FILE not in origins:
        return f"row {row} of a block that a step made"
    return f"{files[int(origins[FILE][row])].path}, row {int(origins[ROW][row])}"
