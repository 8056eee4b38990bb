"""Tensors over memory: views of buffers, below autograd and of bits, and copies of views."""

from __future__ import annotations

import copy
from typing import Any

import torch

# Context in which views of one buffer are made below autograd's kernels. Each such view can be
# changed in place and counts only its own changes, not those of other views of the buffer. Making
# such a view takes half the time. torch's vmap makes its views in the same way.
untracked = torch._C._AutoDispatchBelowADInplaceOrView  # noqa: SLF001

_BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_WITHOUT_MASKS = (torch.uint16, torch.uint32, torch.uint64)


def buffer_of(memory: Any) -> torch.Tensor:
    """Return memory as uint8, cut to a multiple of 8 bytes so that every dtype can view it.

    Args:
        memory: an object that supports the buffer protocol. The tensor keeps the object alive.
    """
    size = memoryview(memory).nbytes
    if size < 8:
        return torch.empty(0, dtype=torch.uint8, device="cpu")
    buffer = torch.frombuffer(memory, dtype=torch.uint8)
    # as_strided is bounded by the storage alone, so it also reaches the bytes behind the cut.
    return buffer[: size - size % 8] if size % 8 else buffer


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """View a tensor (a copy, if not contiguous) as signed integers of the same width."""
    return tensor.contiguous().view(_BITS[tensor.dtype.itemsize])


def assign(tensor: torch.Tensor, mask: torch.Tensor, values: torch.Tensor) -> None:
    """Assign `tensor[mask] = values` for every dtype; `tensor` must be contiguous.

    torch (2.13) cannot assign uint16, uint32 and uint64 elements by a mask, so their bits are
    assigned as signed integers.
    """
    if tensor.dtype in _WITHOUT_MASKS:
        tensor, values = bits(tensor), bits(values)
    tensor[mask] = values


def deep_copied(value: Any, memo: dict[int, Any]) -> Any:
    """Return a deep copy of a value; `memo` is that of `copy.deepcopy`.

    torch deep-copies a tensor's whole storage, which may hold a whole batch, so a plain tensor is
    cloned instead.
    """
    if type(value) is torch.Tensor and not value.requires_grad:
        return value.clone()
    return copy.deepcopy(value, memo)
