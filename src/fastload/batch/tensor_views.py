"""Views of tensors: views made below autograd, and views of bits as integers."""

from __future__ import annotations

import torch

# Context in which views of one buffer are made below autograd's kernels. Each such view can be
# changed in place and counts only its own changes, not those of other views of the buffer. Making
# such a view takes half the time. torch's vmap makes its views in the same way.
untracked = torch._C._AutoDispatchBelowADInplaceOrView  # noqa: SLF001

_BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_WITHOUT_MASKS = (torch.uint16, torch.uint32, torch.uint64)


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
