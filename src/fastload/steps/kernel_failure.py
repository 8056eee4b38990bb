"""Errors of kernels that the core called: a C function only reports that the kernel failed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

from fastload.batch.assembler import Assembler
from fastload.plan.row_seeds import seeds_of
from fastload.steps.kernel_arrays import arrays_of
from fastload.steps.run import note

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastload.batch.assembler import Output
    from fastload.runtime.native import core
    from fastload.steps.kernel_plan import CoreKernel

__all__ = ["raise_failure"]


def raise_failure(lent: core.LentBatch, failed: CoreKernel, outputs: Sequence[Output]) -> NoReturn:
    """Call a failed kernel again from Python, on the same batch, to raise its error.

    Args:
        lent: the batch, as it was when the kernel failed.
        failed: the kernel that failed.
        outputs: the outputs of the core.

    Raises:
        Exception: the kernel's error.
    """
    batch = Assembler(
        replace(output, name=str(number), hidden=False) for number, output in enumerate(outputs)
    )(lent)
    arrays = [array for index in failed.inputs for array in arrays_of(batch[str(index)])]
    if failed.kernel.random:
        origins: dict[str, Any] = {
            output.name: batch[str(number)].numpy()
            for number, output in enumerate(outputs)
            if output.name in ("__file__", "__row__")
        }
        arrays.append(seeds_of(lent.failed_key, origins["__file__"], origins["__row__"]))
    try:
        failed.kernel.code(failed.arguments).fail(arrays, lent.rows)
    except Exception as error:
        note(error, f"in {failed.kernel.label}")
        raise
