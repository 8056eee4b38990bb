"""Helpers of `Ragged`: checks of values and offsets, indexing, padding, and the repr."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any, Protocol

import torch

from fastload.batch.tensor_views import assign

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "check_parts",
    "describe",
    "expect_fitting",
    "pad",
    "preview",
    "rows_of",
    "rows_of_slice",
    "value_indices",
]


class Rows(Protocol):
    """Rows of varying length: the part of the interface of `Ragged` that this module uses."""

    @property
    def values(self) -> Any:
        """Values of all rows: a tensor, or rows of rows."""

    @property
    def offsets(self) -> torch.Tensor:
        """Offsets, int64 (B + 1,): row i is `values[offsets[i]:offsets[i + 1]]`."""

    @property
    def kind(self) -> str | None:
        """Kind of the rows: "str", "bytes" or None (numbers or lists)."""

    def __len__(self) -> int: ...


def check_parts(values: Any, offsets: object, kind: object) -> None:
    """Check that values, offsets and kind fit each other.

    The numbers in `offsets` are checked on the CPU only, not on other devices.

    Raises:
        TypeError, ValueError: values, offsets and kind do not fit each other.
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


def rows_of(index: object, device: torch.device) -> torch.Tensor:
    """Convert a list or tensor of row numbers or bools to a tensor on `device`.

    Raises:
        IndexError: `index` holds neither row numbers nor bools.
    """
    # Without a device, as_tensor would move a tensor to torch's default device.
    rows = torch.as_tensor(index, device=getattr(index, "device", "cpu"))
    # torch makes a tensor of floats from an empty list, so an empty float tensor is accepted.
    if rows.dim() != 1 or (rows.dtype.is_floating_point and len(rows)):
        raise IndexError(
            "Expected row numbers as integers (K,) or bools (B,), got "
            f"{str(rows.dtype).removeprefix('torch.')} {tuple(rows.shape)}"
        )
    return rows.to(device, None if rows.dtype == torch.bool else torch.int64)


def rows_of_slice(start: int, stop: int, step: int, device: torch.device) -> torch.Tensor:
    """Return the row numbers of range(start, stop, step)."""
    count = len(range(start, stop, step))
    return torch.arange(count, device=device) * step + start


def value_indices(offsets: torch.Tensor, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the indices of the values of selected rows, and the offsets of these rows alone."""
    starts = offsets[:-1][rows]
    lengths = offsets.diff()[rows]
    ends = torch.zeros(len(lengths) + 1, dtype=torch.int64, device=lengths.device)
    torch.cumsum(lengths, 0, out=ends[1:])
    shift = torch.repeat_interleave(starts - ends[:-1], lengths)
    return torch.arange(len(shift), device=shift.device) + shift, ends


# Number of rows, elements of each list, and characters of each row that repr shows.
_ROWS = 3
_ELEMENTS = 8
_CHARS = 24


def describe(ragged: Rows) -> str:
    """Describe the rows: "str", "int64", "float32 (3,)", "lists of str"."""
    inner = ragged.values
    if not isinstance(inner, torch.Tensor):
        return f"lists of {describe(inner)}"
    shape = tuple(inner.shape[1:])
    text = ragged.kind or str(inner.dtype).removeprefix("torch.")
    return f"{text} {shape}" if shape else text


def preview(ragged: Rows) -> str:
    """Return the text of the first rows, each cut off after 24 characters."""
    shown = [_brief(row) for row in _first(ragged, _ROWS)]
    return ", ".join(shown) + (", ..." if len(ragged) > _ROWS else "")


def _first(ragged: Rows, count: int) -> list[Any]:
    """Return the first rows as Python objects, without elements that are not shown."""
    rows: list[Any] = []
    for start, stop in itertools.pairwise(ragged.offsets[: count + 1].tolist()):
        if ragged.kind is None:
            some = ragged.values[start : min(stop, start + _ELEMENTS)]
            rows.append(
                some.tolist() if isinstance(some, torch.Tensor) else _first(some, _ELEMENTS)
            )
        else:
            # A character takes up to 4 bytes. Bytes that are no UTF-8 are shown as replacements.
            data = bytes(ragged.values[start : min(stop, start + 4 * _CHARS)].tolist())
            rows.append(data.decode(errors="replace") if ragged.kind == "str" else data)
    return rows


def _brief(row: object) -> str:
    text = repr(row)
    return text if len(text) <= _CHARS else text[: _CHARS - 3] + "..."


def expect_fitting(value: object, dtype: torch.dtype) -> None:
    """Check that a dtype can hold a number with which rows are padded.

    torch writes -1 into a tensor of uint16 as 65535, and 0.5 into a tensor of integers as 0.

    Raises:
        ValueError: the dtype cannot hold the number.
    """
    if not isinstance(value, (int, float)) or dtype.is_complex:
        return  # torch says which types it takes
    if dtype is torch.bool:
        fits = value in (0, 1)
    elif dtype.is_floating_point:
        # Not `math.isfinite`, which raises for an int beyond the floats.
        fits = not torch.finfo(dtype).max < abs(value) < math.inf
    else:
        limits = torch.iinfo(dtype)
        fits = limits.min <= value <= limits.max and value == int(value)
    if not fits:
        raise ValueError(
            f"Expected a value that fits {str(dtype).removeprefix('torch.')}, got {value!r}: "
            "cast the elements, such as Ragged(ragged.values.long(), ragged.offsets)"
        )


def pad(ragged: Rows, value: float, lengths: Sequence[int | None]) -> torch.Tensor:
    """Convert rows whose offsets begin at 0 to a dense tensor (B, length, ...).

    Args:
        ragged: the rows.
        value: number written behind the end of a short list.
        lengths: number of elements kept of the lists of each level, outermost first. None, or no
            entry for an inner level, keeps the length of the longest list of the level.

    Raises:
        ValueError: there are more lengths than levels, or a length is negative.
    """
    inner = ragged.values
    if isinstance(inner, torch.Tensor) and len(lengths) > 1:
        raise ValueError(
            f"Expected at most one length for each level of lists, got {len(lengths) - 1} more"
        )
    values = inner if isinstance(inner, torch.Tensor) else pad(inner, value, lengths[1:])
    offsets = ragged.offsets
    sizes = offsets.diff()
    longest = int(sizes.max()) if len(sizes) else 0
    length = lengths[0] if lengths else None
    length = longest if length is None else length
    if length < 0:
        raise ValueError(f"Expected lengths of at least 0, got {length}")
    index = torch.arange(length, device=offsets.device)
    kept = index < sizes.unsqueeze(1)
    padded = values.new_full((len(sizes), length, *values.shape[1:]), value)
    if length < longest:
        values = values[(offsets[:-1].unsqueeze(1) + index)[kept]]
    # If all elements are kept, they lie in the order in which the mask takes them.
    assign(padded, kept, values)
    return padded
