"""Whether the parts of a Ragged fit each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from fastload.batch.ragged import Ragged

__all__ = ["check_parts"]


def check_parts(values: torch.Tensor | Ragged, offsets: object, kind: object) -> None:
    """Refuses values, offsets and a kind that do not fit each other.

    Offsets outside the host's memory are not read.

    Raises:
        TypeError, ValueError: they don't fit.
    """
    if not isinstance(offsets, torch.Tensor):
        raise TypeError(f"Expected offsets as a Tensor, got {type(offsets).__name__}")
    if offsets.dtype != torch.int64 or offsets.dim() != 1 or len(offsets) == 0:
        got = f"{str(offsets.dtype).removeprefix('torch.')} {tuple(offsets.shape)}"
        raise ValueError(f"Expected offsets int64 (B + 1,), got {got}")
    if isinstance(values, torch.Tensor) and values.dim() == 0:
        raise ValueError("Expected values (N, ...), got a scalar")
    if kind not in (None, "str", "bytes"):
        raise ValueError(f"Expected kind None, 'str' or 'bytes', got {kind!r}")
    flat = isinstance(values, torch.Tensor) and values.dim() == 1
    if kind is not None and not (flat and values.dtype == torch.uint8):
        raise ValueError(f"Expected uint8 values (N,) for kind {kind!r}, got {values!r:.60}")
    if offsets.device.type == "cpu":
        start, stop = int(offsets[0]), int(offsets[-1])
        if start < 0 or stop > len(values) or bool((offsets.diff() < 0).any()):
            raise ValueError(
                f"Expected offsets that do not decrease within [0, {len(values)}], "
                f"got {start} to {stop}"
            )
