"""Kernels called from Python, which is necessary after a step that is a Python function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fastload.batch.ragged import Ragged
from fastload.steps.outputs import field_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    import torch
    from numpy.typing import NDArray

    from fastload.batch.batch import Batch
    from fastload.steps.kernel import Kernel

__all__ = ["arrays_of", "computed"]


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
    arrays = [array for name in kernel.inputs for array in arrays_of(block[name])]
    if seeds is not None:
        arrays.append(seeds)
    filled = kernel.code(arguments).run(arrays, rows)
    return {output.name: array for output, array in zip(kernel.outputs, filled, strict=True)}


def arrays_of(value: torch.Tensor | Ragged) -> list[NDArray[Any]]:
    """Return the arrays by which a kernel takes an output: values, then offsets if ragged."""
    if isinstance(value, Ragged):
        values: Any = value.values
        return [np.ascontiguousarray(values.detach().numpy()), value.offsets.numpy()]
    return [np.ascontiguousarray(value.detach().numpy())]
