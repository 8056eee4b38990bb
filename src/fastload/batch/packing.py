"""The packed form of a mapping of tensors, to which a Batch pickles: one buffer and a description.

A plain pickle of a view contains the view's whole storage, once for each view, and torch's
transport between processes opens one file descriptor for each storage. One buffer that holds just
the values avoids both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import torch

from fastload.batch.ragged import Ragged, own_rows, ragged_of
from fastload.batch.tensor_views import untracked

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# Alignment in bytes of the beginning of a tensor, for torch and SIMD kernels.
_ALIGNMENT = 64

# Layout of a value: ("tensor", dtype, shape, byte offset in the buffer), ("ragged", kind, layout of
# the values, layout of the offsets), or ("other", the object itself).
_Layout: TypeAlias = tuple[Any, ...]
_Name = TypeVar("_Name")
Packed: TypeAlias = tuple[torch.Tensor, dict[_Name, _Layout]]


def ordinary_memory(size: int) -> torch.Tensor:
    """Allocate a uint8 Tensor of `size` bytes in ordinary host memory."""
    return torch.empty(size, dtype=torch.uint8, device="cpu")


def pack(
    values: Mapping[_Name, Any], allocate: Callable[[int], torch.Tensor] = ordinary_memory
) -> Packed[_Name]:
    """Copy the tensors of `values` into one buffer.

    Values other than plain CPU tensors and Raggeds of plain CPU tensors are not copied: their
    layouts hold the objects themselves.

    Args:
        values: values by name.
        allocate: makes the buffer, a uint8 Tensor of the given number of bytes in host memory.

    Returns:
        The buffer, and the layout of each value by name.
    """
    contents = _Contents()
    layouts = {name: contents.add(value) for name, value in values.items()}
    block = allocate(contents.size)
    with untracked():
        views = _Views(block)
        for start, tensor in contents.tensors:
            views(tensor.dtype, tuple(tensor.shape), start).copy_(tensor)
    return block, layouts


class _Contents:
    """The tensors that a buffer is to hold.

    A class, because a function that calls itself as a closure is a reference cycle, which would
    hold the tensors until the garbage collector runs.

    Attributes:
        tensors: each tensor and the byte at which it begins.
        size: bytes of all tensors, each padded.
    """

    def __init__(self) -> None:
        self.tensors: list[tuple[int, torch.Tensor]] = []
        self.size = 0

    def add(self, value: Any) -> _Layout:
        """Add the tensors of a value, and return the layout of the value."""
        if type(value) is Ragged:
            own = own_rows(value, copies=False)
            return "ragged", own.kind, self.add(own.values), self.add(own.offsets)
        if isinstance(value, torch.Tensor) and (value.is_conj() or value.is_neg()):
            # torch sends tensors between processes without these two bits.
            value = value.resolve_conj().resolve_neg()
        if not is_plain(value):
            return "other", value
        start = self.size
        self.tensors.append((start, value))
        self.size += _padded(value.nbytes)
        return "tensor", value.dtype, tuple(value.shape), start


def unpack(packed: Packed[_Name]) -> dict[_Name, Any]:
    """Return the packed values; tensors are views of the buffer, which may lie on a device."""
    block, layouts = packed
    with untracked():
        views = _Views(block)
        return {name: _unpacked(layout, views) for name, layout in layouts.items()}


def _unpacked(layout: _Layout, views: _Views) -> Any:
    # No closure of `unpack`, for the reason given at _Contents.
    if layout[0] == "ragged":
        _, kind, values, offsets = layout
        return ragged_of(_unpacked(values, views), _unpacked(offsets, views), kind)
    if layout[0] == "tensor":
        return views(*layout[1:])
    return layout[1]


def is_plain(value: object) -> bool:
    """Return True if `value` is a CPU tensor fully described by dtype, shape and elements."""
    return (
        type(value) is torch.Tensor
        and value.layout == torch.strided
        and value.device.type == "cpu"
        and not value.requires_grad
        and not value.is_quantized
        and not value.is_conj()
        and not value.is_neg()
    )


def _padded(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


class _Views:
    """A factory of contiguous tensors over a buffer."""

    def __init__(self, block: torch.Tensor) -> None:
        self._block = block
        self._typed: dict[torch.dtype, torch.Tensor] = {}

    def __call__(self, dtype: torch.dtype, shape: tuple[int, ...], start: int) -> torch.Tensor:
        """Return the tensor that begins `start` bytes into the buffer."""
        typed = self._typed.get(dtype)
        if typed is None:
            # The buffer's size is a multiple of the alignment, so every dtype can view the buffer.
            typed = self._typed[dtype] = self._block.view(dtype)
        strides = []
        step = 1
        for length in reversed(shape):
            strides.append(step)
            step *= length
        return typed.as_strided(shape, strides[::-1], start // dtype.itemsize)
