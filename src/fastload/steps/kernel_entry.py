"""The machine code of a kernel as the core calls it: its arrays, its entry, its address."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np

from fastload.schema.columns import DTYPES
from fastload.schema.fields import Field

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

__all__ = [
    "ENTRY", "KERNEL_DTYPES", "NARROW", "AddressCode", "Argument", "call_entry", "output_arrays",
]  # fmt: skip

# numba has no arithmetic for these dtypes on a CPU.
NARROW = ("float16", "bfloat16")
KERNEL_DTYPES = {name: dtype for dtype, name in DTYPES.items() if name not in NARROW}


class Argument(NamedTuple):
    """An array that a kernel takes or fills, for a block of B rows.

    Attributes:
        name: the name of the output.
        dtype: numpy's name of the dtype.
        shape: the shape of one row, or of one value of a ragged output.
        ragged: the kernel takes two arrays, values (N, *shape) and offsets (B + 1), instead of one
            array (B, *shape).
    """

    name: str
    dtype: str
    shape: tuple[int, ...] = ()
    ragged: bool = False

    def __str__(self) -> str:
        rows = ", ".join(["N" if self.ragged else "B", *map(str, self.shape)])
        shape = f"({rows},)" if not self.shape else f"({rows})"
        return f"{self.name} {self.dtype} {shape}{' and offsets' if self.ragged else ''}"

    @property
    def field(self) -> Field:
        """Field of an output with the array's dtype and shape."""
        return Field(KERNEL_DTYPES[self.dtype], self.shape)


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
