"""Arrays that a kernel takes or fills: their names, dtypes and shapes."""

from __future__ import annotations

from typing import NamedTuple

from fastload.schema.columns import DTYPES
from fastload.schema.fields import Field

__all__ = ["KERNEL_DTYPES", "NARROW", "Argument"]

# numba has no arithmetic for these dtypes on a CPU.
NARROW = ("float16", "bfloat16")
KERNEL_DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in DTYPES
    if str(dtype).removeprefix("torch.") not in NARROW
}


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
