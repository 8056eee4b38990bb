"""Calls of kernels from Python: after a step that is a Python function, and to raise an error."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from fastload.batch.assembler import Assembler
from fastload.batch.ragged import Ragged
from fastload.errors import note
from fastload.plan.permutation import seeds_of
from fastload.steps.outputs import field_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import torch
    from numpy.typing import NDArray

    from fastload.batch.assembler import Output
    from fastload.batch.batch import Batch
    from fastload.runtime.native import core
    from fastload.steps.kernel import Kernel
    from fastload.steps.kernel_plan import CoreKernel

__all__ = ["computed", "raise_failure"]


def computed(
    kernel: Kernel, block: Batch, rows: int, seeds: NDArray[np.uint64] | None = None
) -> Mapping[str, NDArray[Any]]:
    """Call a kernel on a block, on this thread, and return the outputs by name.

    Args:
        kernel: the kernel to call.
        block: holds the kernel's inputs.
        rows: the number of rows in the block.
        seeds: one seed for each row, for a random kernel.

    Raises:
        TypeError: a kernel can't take the inputs, or numba can't compile the kernel for them.
    """
    arguments = [kernel.argument(name, field_of(block[name])) for name in kernel.inputs]
    arrays = [array for name in kernel.inputs for array in _arrays_of(block[name])]
    if seeds is not None:
        arrays.append(seeds)
    filled = kernel.code(arguments).run(arrays, rows)
    return {output.name: array for output, array in zip(kernel.outputs, filled, strict=True)}


def raise_failure(lent: core.LentBatch, failed: CoreKernel, outputs: Sequence[Output]) -> NoReturn:
    """Call a failed kernel again from Python, on the same batch, to raise the kernel's error.

    The core knows only that the kernel failed, because the compiled function returns no error.

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
    arrays = [array for index in failed.inputs for array in _arrays_of(batch[str(index)])]
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


def _arrays_of(value: torch.Tensor | Ragged) -> list[NDArray[Any]]:
    """Return the arrays by which a kernel takes an output: values, then offsets if ragged."""
    if isinstance(value, Ragged):
        values: Any = value.values
        return [np.ascontiguousarray(values.detach().numpy()), value.offsets.numpy()]
    return [np.ascontiguousarray(value.detach().numpy())]
