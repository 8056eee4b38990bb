"""What a kernel raised on a batch of the core: the C function only says that it did."""

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
    """Calls the kernel again, on the batch as it was then, by Python; that raises the error.

    Args:
        lent: the batch.
        failed: its kernel that failed.
        outputs: of the core.
    """
    batch = Assembler(
        replace(output, name=str(number), hidden=False) for number, output in enumerate(outputs)
    )(lent)
    arrays = [array for place in failed.inputs for array in arrays_of(batch[str(place)])]
    if failed.kernel.random:
        places: dict[str, Any] = {
            output.name: batch[str(number)].numpy()
            for number, output in enumerate(outputs)
            if output.name in ("__file__", "__row__")
        }
        arrays.append(seeds_of(lent.failed_key, places["__file__"], places["__row__"]))
    try:
        failed.kernel.code(failed.arguments).fail(arrays, lent.rows)
    except Exception as error:
        note(error, f"in {failed.kernel.label}")
        raise
