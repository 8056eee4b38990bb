"""An array that a kernel takes or fills."""

from __future__ import annotations

from typing import NamedTuple

from fastload.schema.columns import DTYPES
from fastload.schema.fields import Field

__all__ = ["KERNEL_DTYPES", "NARROW", "Argument"]

# Both have no arithmetic in numba, on a CPU.
NARROW = ("float16", "bfloat16")
KERNEL_DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in DTYPES
    if str(dtype).removeprefix("torch.") not in NARROW
}


class Argument(NamedTuple):
    """An array that a kernel takes or fills, of a block of B rows.

    name: of the output.
    dtype: as numpy names it.
    shape: of one row, or of one value of a ragged one.
    ragged: its values (N, *shape), then its offsets (B + 1), instead of (B, *shape).
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
        """The field of an output with this dtype and shape."""
        return Field(KERNEL_DTYPES[self.dtype], self.shape)
