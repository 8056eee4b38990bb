"""The way of one batch through the steps."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from fastload.kernel_arrays import computed
from fastload.kernels import Kernel
from fastload.per_row import PerRow
from fastload.row_pool import RowJob
from fastload.row_seeds import row_seeds
from fastload.step_outputs import merge
from fastload.steps import FILE, RESERVED, ROW, check_inputs

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from fastload.batch import Batch
    from fastload.row_pool import RowPool
    from fastload.source import SourceFile
    from fastload.steps import Step, Steps

__all__ = ["Order", "note", "run_steps"]


class Order(NamedTuple):
    """What decides the seeds of rows, beside the rows."""

    seed: int
    epoch: int


def run_steps(
    batch: Batch,
    steps: Steps,
    order: Order,
    files: Sequence[SourceFile],
    pool: Callable[[int], RowPool],
) -> Generator[RowJob, None, Batch]:
    """Takes a batch through the steps; yields whenever rows are in work that it has to wait for.

    Args:
        batch: of the core; it is used up.
        steps: preprocess, then augment.
        order: of the pass.
        files: of the dataset, to name.
        pool: the threads of a preprocess step.

    Returns:
        The batch after the steps.
    """
    rows = batch.rows
    places = {name: batch.pop(name) for name in RESERVED if name in batch}
    block = batch.copy()  # knows where its values lie, for whoever sends them
    for number, step in enumerate(steps.preprocess):
        if number < steps.core_preprocess:
            continue
        if isinstance(step.run, PerRow):
            check_inputs(step, block)
            inputs = [block[name] for name in step.run.inputs]
            job = RowJob(step.run, inputs, rows, partial(_place, files, places))
            pool(number).begin(job)
            while not job.done:
                yield job
            merge(block, job.outputs(), rows, step.label)
        else:
            merge(block, _called(step, block), rows, step.label)
        _refuse_reserved(block, step.label)
    block.update({name: places[name] for name in places if name not in steps.hidden})
    for number, step in enumerate(steps.augment):
        if number < steps.core_augment:
            continue
        drawn: tuple[NDArray[np.uint64], ...] = ()
        if not isinstance(step.run, Kernel) or step.run.random:
            drawn = (row_seeds(*order, number, places[FILE].numpy(), places[ROW].numpy()),)
        merge(block, _called(step, block, *drawn), rows, step.label)
    return block


def note(error: BaseException, text: str) -> None:
    """Says in a traceback where an error came about; from Python 3.11 on."""
    if hasattr(error, "add_note"):
        error.add_note(text)


def _called(step: Step, block: Batch, *seeds: NDArray[np.uint64]) -> Any:
    try:
        if isinstance(step.run, Kernel):
            check_inputs(step, block)
            return computed(step.run, block, block.rows, *seeds)
        return step.run(block, *seeds)
    except Exception as error:
        note(error, f"in {step.label}")
        raise


def _refuse_reserved(block: Batch, label: str) -> None:
    for name in RESERVED:
        if name in block:
            raise ValueError(
                f"Expected {label} to leave `{name}` to the dataset, got an output of that name"
            )


def _place(files: Sequence[SourceFile], places: Mapping[str, Any], row: int) -> str:
    return f"{files[int(places[FILE][row])].path}, row {int(places[ROW][row])}"
