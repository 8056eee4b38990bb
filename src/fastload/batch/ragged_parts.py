"""Parts of `Ragged`: checks of its values and offsets, indexing, padding, what repr shows."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Protocol

import torch

from fastload.batch.tensor_views import assign

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["check_parts", "describe", "pad", "places_of", "preview", "rows_of", "rows_of_slice"]


class Rows(Protocol):
    """Rows of varying length: what `Ragged` is, as far as this module needs to know."""

    @property
    def values(self) -> Any:
        """A tensor of the values of all rows, or rows of rows."""

    @property
    def offsets(self) -> torch.Tensor:
        """int64 (B + 1,): row `i` lies in `[offsets[i], offsets[i + 1])` of the values."""

    @property
    def kind(self) -> str | None:
        """What each row is shown as: "str", "bytes" or None (numbers)."""

    def __len__(self) -> int: ...


def check_parts(values: Any, offsets: object, kind: object) -> None:
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


# Rows, and elements of each list in them, that are looked at.
_ROWS = 3
_ELEMENTS = 8
_CHARS = 24


def describe(ragged: Rows) -> str:
    """What the rows are: "str", "int64", "float32 (3,)", "lists of str"."""
    inner = ragged.values
    if not isinstance(inner, torch.Tensor):
        return f"lists of {describe(inner)}"
    shape = tuple(inner.shape[1:])
    text = ragged.kind or str(inner.dtype).removeprefix("torch.")
    return f"{text} {shape}" if shape else text


def preview(ragged: Rows) -> str:
    """The first rows, each cut off where it gets long."""
    shown = [_brief(row) for row in _first(ragged, _ROWS)]
    return ", ".join(shown) + (", ..." if len(ragged) > _ROWS else "")


def _first(ragged: Rows, count: int) -> list[Any]:
    """The first rows as Python objects, of each no more than can be shown."""
    rows: list[Any] = []
    for start, stop in itertools.pairwise(ragged.offsets[: count + 1].tolist()):
        if ragged.kind is None:
            some = ragged.values[start : min(stop, start + _ELEMENTS)]
            rows.append(
                some.tolist() if isinstance(some, torch.Tensor) else _first(some, _ELEMENTS)
            )
        else:
            # A character takes up to 4 bytes; what is no UTF-8 is shown all the same.
            data = bytes(ragged.values[start : min(stop, start + 4 * _CHARS)].tolist())
            rows.append(data.decode(errors="replace") if ragged.kind == "str" else data)
    return rows


def _brief(row: object) -> str:
    text = repr(row)
    return text if len(text) <= _CHARS else text[: _CHARS - 3] + "..."


def pad(ragged: Rows, value: float, lengths: Sequence[int | None]) -> torch.Tensor:
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
