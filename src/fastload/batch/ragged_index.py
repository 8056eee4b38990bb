"""Which rows an index of a Ragged means, and where their values lie."""

from __future__ import annotations

import torch

__all__ = ["places_of", "rows_of", "rows_of_slice"]


def rows_of(index: object, device: torch.device) -> torch.Tensor:
    """A list or tensor of row numbers or of bools, as a tensor on `device`.

    Raises:
        IndexError: it is neither.
    """
    rows = torch.as_tensor(index)
    # An empty list becomes a tensor of floats.
    if rows.dim() != 1 or (rows.dtype.is_floating_point and len(rows)):
        raise IndexError(
            "Expected row numbers as integers (K,) or bools (B,), got "
            f"{str(rows.dtype).removeprefix('torch.')} {tuple(rows.shape)}"
        )
    return rows.to(device, None if rows.dtype == torch.bool else torch.int64)


def rows_of_slice(start: int, stop: int, step: int, device: torch.device) -> torch.Tensor:
    """The row numbers of range(start, stop, step)."""
    count = len(range(start, stop, step))
    return torch.arange(count, device=device) * step + start


def places_of(offsets: torch.Tensor, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Where the values of some rows lie among all values, and the offsets of those rows alone."""
    starts = offsets[:-1][rows]
    lengths = offsets.diff()[rows]
    ends = torch.zeros(len(lengths) + 1, dtype=torch.int64, device=lengths.device)
    torch.cumsum(lengths, 0, out=ends[1:])
    shift = torch.repeat_interleave(starts - ends[:-1], lengths)
    return torch.arange(len(shift), device=shift.device) + shift, ends
