"""Lists of varying lengths as one dense tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from fastload.batch.tensor_views import assign

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastload.batch.ragged import Ragged

__all__ = ["pad"]


def pad(ragged: Ragged, value: float, lengths: Sequence[int | None]) -> torch.Tensor:
    """The rows of `ragged`, whose offsets begin at 0, as a tensor (B, length, ...).

    Args:
        ragged: the rows.
        value: what stands behind the end of a short list.
        lengths: elements kept of each list, outermost lists first; None, or nothing said of the
            inner levels, keeps those of the longest list of that level.
    """
    inner = ragged.values
    values = inner if isinstance(inner, torch.Tensor) else pad(inner, value, lengths[1:])
    offsets = ragged.offsets
    sizes = offsets.diff()
    longest = int(sizes.max()) if len(sizes) else 0
    length = lengths[0] if lengths else None
    length = longest if length is None else length
    place = torch.arange(length, device=offsets.device)
    kept = place < sizes.unsqueeze(1)
    padded = values.new_full((len(sizes), length, *values.shape[1:]), value)
    if length < longest:
        values = values[(offsets[:-1].unsqueeze(1) + place)[kept]]
    # Elements that are all kept lie in the order in which the mask takes them.
    assign(padded, kept, values)
    return padded
