"""Views of tensors: below autograd, and as integers of their bits."""

from __future__ import annotations

import torch

# A context in which views of one block are made below autograd's own kernels. Each such tensor
# may then be changed in place and counts its own changes, whatever happens to its neighbours;
# and making them costs half. torch's vmap makes its own views in the same way.
untracked = torch._C._AutoDispatchBelowADInplaceOrView  # noqa: SLF001

_BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_WITHOUT_MASKS = (torch.uint16, torch.uint32, torch.uint64)


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """A view (of a copy, if not contiguous) as signed integers of the same width."""
    return tensor.contiguous().view(_BITS[tensor.dtype.itemsize])


def assign(tensor: torch.Tensor, mask: torch.Tensor, values: torch.Tensor) -> None:
    """`tensor[mask] = values` for every dtype; `tensor` is contiguous.

    torch assigns no uint16, uint32 and uint64 by a mask (2.13), but integers of their bits.
    """
    if tensor.dtype in _WITHOUT_MASKS:
        tensor, values = bits(tensor), bits(values)
    tensor[mask] = values
