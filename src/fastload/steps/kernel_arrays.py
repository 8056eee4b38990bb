"""Kernels on values of Python: where a step that is a Python function comes before them."""

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
    """The outputs of a kernel on a block, called by this thread.

    Args:
        kernel: what is called.
        block: has its inputs.
        rows: of the block.
        seeds: of the rows, for a kernel that takes them.

    Raises:
        TypeError: the inputs are nothing that it can take, or can be compiled for.
    """
    arguments = [kernel.argument(name, field_of(block[name])) for name in kernel.inputs]
    arrays = [array for name in kernel.inputs for array in arrays_of(block[name])]
    if seeds is not None:
        arrays.append(seeds)
    filled = kernel.code(arguments).run(arrays, rows)
    return {output.name: array for output, array in zip(kernel.outputs, filled, strict=True)}


def arrays_of(value: torch.Tensor | Ragged) -> list[NDArray[Any]]:
    """What a kernel is given of an output: its values, and its offsets if it is ragged."""
    if isinstance(value, Ragged):
        values: Any = value.values
        return [np.ascontiguousarray(values.detach().numpy()), value.offsets.numpy()]
    return [np.ascontiguousarray(value.detach().numpy())]
