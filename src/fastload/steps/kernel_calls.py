"""Calls of machine code from Python: after a step that is a Python function, and on failure."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from fastload.batch.assembler import Assembler
from fastload.batch.ragged import Ragged
from fastload.errors import note
from fastload.plan.row_seeds import seeds_of
from fastload.steps.outputs import field_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import torch
    from numpy.typing import NDArray

    from fastload.batch.assembler import Output
    from fastload.batch.batch import Batch
    from fastload.runtime.native import core
    from fastload.steps.kernel import Kernel
    from fastload.steps.kernel_argument import Argument
    from fastload.steps.kernel_plan import CoreKernel

__all__ = ["ENTRY", "AddressCode", "call_entry", "computed", "output_arrays", "raise_failure"]

ENTRY = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)
"""The type of a function that the core calls: `int64_t (void** arrays, int64_t rows)`."""


class AddressCode:
    """A kernel that the user compiled, at an address.

    Args:
        address: the address of a C function `int64_t (void** arrays, int64_t rows)`, which returns
            0, or another number if it failed.
        outputs: the arrays that the function fills.
        owner: object that keeps the machine code in memory, or None.

    Attributes:
        address: the address.
    """

    def __init__(self, address: int, outputs: tuple[Argument, ...], owner: object) -> None:
        self.address = address
        self.__name__ = self.__qualname__ = ", ".join(output.name for output in outputs)
        self._outputs = outputs
        self._owner = owner
        self._call = ENTRY(address)

    def __call__(self, *arrays: NDArray[Any]) -> None:
        """Call the function on the arrays of its inputs and outputs, as the core does.

        Raises:
            RuntimeError: the function returned another number than 0.
        """
        status = call_entry(self._call, arrays, len(arrays[-1]))
        if status:
            raise RuntimeError(
                f"The kernel `{self.__name__}` failed: its function returned {status}"
            )

    def run(self, arrays: Sequence[NDArray[Any]], rows: int) -> list[NDArray[Any]]:
        """Compute the outputs of a block; see `KernelCode.run`."""
        outputs = output_arrays(self._outputs, rows)
        self(*map(np.ascontiguousarray, arrays), *outputs)
        return outputs

    def fail(self, arrays: Sequence[NDArray[Any]], rows: int) -> NoReturn:
        """Call the function again to raise its error; see `KernelCode.fail`."""
        self.run(arrays, rows)
        raise RuntimeError(
            f"The kernel `{self.__name__}` failed, but did not fail again on the same rows"
        )


def output_arrays(outputs: Sequence[Argument], rows: int) -> list[NDArray[Any]]:
    """Return the arrays that a kernel fills, all zeros.

    Args:
        outputs: the outputs of the kernel.
        rows: the number of rows in the block.
    """
    return [np.zeros((rows, *output.shape), output.dtype) for output in outputs]


def call_entry(entry: Callable[..., int], arrays: Sequence[NDArray[Any]], rows: int) -> int:
    """Call machine code on C-contiguous arrays, without the GIL, and return its status.

    Args:
        entry: the machine code, as ENTRY.
        arrays: the arrays of the inputs and outputs.
        rows: the number of rows in the block.
    """
    addresses = (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))
    return entry(ctypes.addressof(addresses), rows)


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
