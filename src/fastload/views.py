"""Views that autograd takes for tensors of their own."""

from __future__ import annotations

import torch

# A context in which views of one block are made below autograd's own kernels. Each such tensor
# may then be changed in place and counts its own changes, whatever happens to its neighbours;
# and making them costs half. torch's vmap makes its own views in the same way.
untracked = torch._C._AutoDispatchBelowADInplaceOrView  # noqa: SLF001
