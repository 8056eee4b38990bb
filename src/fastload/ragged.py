"""Ragged: rows of varying length, kept as one run of values and the offsets that cut it."""

from __future__ import annotations

import copy
import itertools
import operator
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

import torch
from torch.utils import _pytree as pytree

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Kind: TypeAlias = Literal["str", "bytes"]

# Rows shown by repr: enough to recognise a column, few enough to stay on one line.
_REPR_ROWS = 3
_REPR_CHARS = 24


class Ragged:
    """B rows of varying length.

    Row i is `values[offsets[i]:offsets[i + 1]]`. Offsets need not begin at 0: a slice shares the
    values of the whole and only narrows the offsets.

    It behaves like a sequence but is not a collections.abc.Sequence, which DataLoader would
    convert row by row.

    Args:
        values: Tensor (N, ...), or a Ragged of N rows for nested lists.
        offsets: int64 Tensor (B + 1,), not decreasing, on the device of the values.
        kind: "str" or "bytes" if values are uint8 and each row is one str (UTF-8) or bytes.

    Raises:
        TypeError, ValueError: values, offsets and kind do not fit each other. Offsets outside
            the host's memory are not read, so their values are checked on the CPU only.
    """

    __slots__ = ("__weakref__", "kind", "offsets", "values")

    # Two equal columns may still be changed in place, so they have no stable hash.
    __hash__ = None  # type: ignore[assignment]

    values: torch.Tensor | Ragged
    offsets: torch.Tensor
    kind: Kind | None

    def __init__(
        self, values: torch.Tensor | Ragged, offsets: torch.Tensor, kind: Kind | None = None
    ) -> None:
        _check(values, offsets, kind)
        self.values = values
        self.offsets = offsets
        self.kind = kind

    def __len__(self) -> int:
        return self.offsets.shape[0] - 1

    @overload
    def __getitem__(self, index: slice | list[int] | torch.Tensor) -> Ragged: ...
    @overload
    def __getitem__(self, index: int) -> Any: ...
    def __getitem__(self, index: Any) -> Any:
        """One row (int), or a Ragged of several (slice, list or Tensor of int64 or bool).

        A row is a str, bytes, a Tensor (length, ...) that shares memory, or a Ragged. A slice
        of step 1 shares memory; every other selection copies.

        Raises:
            IndexError: no such row.
        """
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step == 1:
                return ragged_of(self.values, self.offsets[start : max(start, stop) + 1], self.kind)
            return self._gather(torch.arange(len(self))[_forward(start, stop, step)], step < 0)
        if isinstance(index, list) or getattr(index, "shape", None):
            return self._gather(torch.as_tensor(index), False)
        row = operator.index(index)
        if not -len(self) <= row < len(self):
            raise IndexError(f"Expected a row in [0, {len(self)}), got {row}")
        start, stop = self.offsets[row % len(self) :][:2].tolist()
        item = self.values[start:stop]
        return item if self.kind is None else _decode(_to_bytes(item), self.kind)

    def __iter__(self) -> Iterator[Any]:
        bounds = self.offsets.tolist()
        if self.kind is None:
            for start, stop in itertools.pairwise(bounds):
                yield self.values[start:stop]
            return
        first = bounds[0]
        data = _to_bytes(self.values[first : bounds[-1]])
        for start, stop in itertools.pairwise(bounds):
            yield _decode(data[start - first : stop - first], self.kind)

    def __eq__(self, other: object) -> bool:
        """Whether the rows are equal, as torch.equal sees them (NaN differs from NaN).

        Kinds and dtypes must agree too; where the offsets begin does not matter.
        """
        if not isinstance(other, Ragged):
            return NotImplemented
        if len(self) != len(other) or self.kind != other.kind or self.dtype != other.dtype:
            return False
        mine, theirs = own_rows(self, copies=False), own_rows(other, copies=False)
        if isinstance(mine.values, Ragged) != isinstance(theirs.values, Ragged):
            return False
        if not torch.equal(mine.offsets, theirs.offsets):
            return False
        if isinstance(mine.values, Ragged):
            return mine.values == theirs.values
        assert isinstance(theirs.values, torch.Tensor)
        return torch.equal(mine.values, theirs.values)

    def __repr__(self) -> str:
        what = self.kind or _name(self.dtype)
        text = f"Ragged({len(self)} rows of {what}"
        if self.device.type == "cpu" and len(self):
            shown = [_brief(item) for item in self[:_REPR_ROWS].tolist()]
            text += ": " + ", ".join(shown) + (", ..." if len(self) > _REPR_ROWS else "")
        return text + ")"

    @property
    def device(self) -> torch.device:
        """Where the values lie."""
        return self.values.device

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the innermost values; uint8 for str and bytes."""
        return self.values.dtype

    @property
    def nbytes(self) -> int:
        """Bytes of the offsets and of the values between the first and the last of them."""
        start, stop = self._span()
        return int(self.offsets.nbytes) + int(self.values[start:stop].nbytes)

    def tolist(self) -> list[Any]:
        """The rows as Python objects: str, bytes, or (nested) lists of numbers."""
        if self.kind is not None:
            return list(self)
        start, stop = self._span()
        flat = self.values[start:stop].tolist()
        bounds = [bound - start for bound in self.offsets.tolist()]
        return [flat[a:b] for a, b in itertools.pairwise(bounds)]

    def to_padded(self, value: float = 0, length: int | None = None) -> torch.Tensor:
        """One dense tensor (B, length, ...), each row cut off or filled up with `value`.

        Args:
            value: what stands behind the end of a short row.
            length: elements kept of each row; None = those of the longest. For nested lists it
                is the length of the outer ones, and the inner ones take that of the longest.
        """
        values = self.values
        if isinstance(values, Ragged):
            values = values.to_padded(value)
        lengths = self.offsets.diff()
        if length is None:
            length = int(lengths.max()) if len(self) else 0
        place = torch.arange(length, device=self.offsets.device)
        kept = place < lengths.unsqueeze(1)
        padded = values.new_full((len(self), length, *values.shape[1:]), value)
        padded[kept] = values[(self.offsets[:-1].unsqueeze(1) + place)[kept]]
        return padded

    def to_nested(self) -> torch.Tensor:
        """A torch nested tensor of jagged layout that shares the memory of the values.

        Raises:
            ValueError: lists of lists, which the jagged layout cannot hold.
        """
        own = own_rows(self, copies=False)
        if isinstance(own.values, Ragged):
            raise ValueError(  # noqa: TRY004  the type is right, its depth is not
                "Expected one level of lists for a jagged nested tensor, got nested lists: "
                "use to_padded() or to_nested() of the inner values"
            )
        nested: torch.Tensor = torch.nested.nested_tensor_from_jagged(own.values, own.offsets)
        return nested

    def to(self, device: torch.device | str | int, non_blocking: bool = False) -> Ragged:
        """The same rows on `device`; shares memory if they lie there already."""
        return ragged_of(
            self.values.to(device, non_blocking=non_blocking),
            self.offsets.to(device, non_blocking=non_blocking),
            self.kind,
        )

    def pin_memory(self) -> Ragged:
        """A copy in page-locked memory.

        Raises:
            RuntimeError: torch finds no accelerator to pin for.
        """
        return ragged_of(self.values.pin_memory(), self.offsets.pin_memory(), self.kind)

    def clone(self) -> Ragged:
        """A copy that holds its own rows only."""
        return own_rows(self, copies=True)

    def __copy__(self) -> Ragged:
        return ragged_of(self.values, self.offsets, self.kind)

    def __deepcopy__(self, memo: dict[int, Any]) -> Ragged:
        own = own_rows(self, copies=False)
        # torch deep-copies a tensor's whole storage, so a view is copied out of it first.
        values = own.values.clone() if _is_data(own.values) else copy.deepcopy(own.values, memo)
        offsets = own.offsets
        duplicate = ragged_of(
            values,
            offsets.clone() if _is_data(offsets) else copy.deepcopy(offsets, memo),
            self.kind,
        )
        memo[id(self)] = duplicate
        return duplicate

    def __reduce__(self) -> tuple[Any, ...]:
        # A pickled view would take its whole storage along, so the rows are copied out first.
        own = own_rows(self, copies=True)
        return ragged_of, (own.values, own.offsets, own.kind)

    def _span(self) -> tuple[int, int]:
        return int(self.offsets[0]), int(self.offsets[-1])

    def _gather(self, rows: torch.Tensor, backward: bool) -> Ragged:
        """The rows of the given numbers, copied. `rows` integers (K,) or bool (B,)."""
        # An empty list becomes a tensor of floats.
        if rows.dim() != 1 or (rows.dtype.is_floating_point and len(rows)):
            raise IndexError(
                f"Expected row numbers as integers (K,) or bools (B,), "
                f"got {_name(rows.dtype)} {tuple(rows.shape)}"
            )
        rows = rows.to(self.offsets.device, None if rows.dtype == torch.bool else torch.int64)
        if backward:
            rows = rows.flip(0)
        starts = self.offsets[:-1][rows]
        lengths = self.offsets.diff()[rows]
        offsets = torch.zeros(len(lengths) + 1, dtype=torch.int64, device=lengths.device)
        torch.cumsum(lengths, 0, out=offsets[1:])
        shift = torch.repeat_interleave(starts - offsets[:-1], lengths)
        places = torch.arange(len(shift), device=shift.device) + shift
        return ragged_of(self.values[places], offsets, self.kind)


def ragged_of(values: Any, offsets: Any, kind: Kind | None) -> Ragged:
    """A Ragged of parts known to fit, or of whatever a pytree map made of them."""
    ragged = Ragged.__new__(Ragged)
    ragged.values = values
    ragged.offsets = offsets
    ragged.kind = kind
    return ragged


def own_rows(ragged: Ragged, *, copies: bool) -> Ragged:
    """The same rows without the values of any others, with offsets that begin at 0.

    With `copies` they lie in memory of their own, else they share what they can.
    """
    start, stop = int(ragged.offsets[0]), int(ragged.offsets[-1])
    values: torch.Tensor | Ragged = ragged.values[start:stop]
    if isinstance(values, Ragged):
        values = own_rows(values, copies=copies)
    elif copies:
        values = values.clone()
    offsets = ragged.offsets - start if start else ragged.offsets
    return ragged_of(values, offsets.clone() if copies and not start else offsets, ragged.kind)


def _check(values: object, offsets: object, kind: object) -> None:
    if not isinstance(values, (torch.Tensor, Ragged)):
        raise TypeError(f"Expected values as a Tensor or Ragged, got {type(values).__name__}")
    if not isinstance(offsets, torch.Tensor):
        raise TypeError(f"Expected offsets as a Tensor, got {type(offsets).__name__}")
    if offsets.dtype != torch.int64 or offsets.dim() != 1 or len(offsets) == 0:
        raise ValueError(
            f"Expected offsets int64 (B + 1,), got {_name(offsets.dtype)} {tuple(offsets.shape)}"
        )
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


def _is_data(values: object) -> bool:
    """Whether a tensor has nothing but its values to copy: no autograd, no subclass."""
    return type(values) is torch.Tensor and not values.requires_grad


def _forward(start: int, stop: int, step: int) -> slice:
    """The ascending slice that picks the rows of range(start, stop, step): torch takes no other."""
    picked = range(start, stop, step)
    if not picked:
        return slice(0, 0, 1)
    return slice(min(picked[0], picked[-1]), max(picked[0], picked[-1]) + 1, abs(step))


def _to_bytes(values: Any) -> bytes:
    data: bytes = values.cpu().contiguous().numpy().tobytes()
    return data


def _decode(data: bytes, kind: Kind) -> str | bytes:
    return data.decode() if kind == "str" else data


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _brief(item: object) -> str:
    text = repr(item)
    return text if len(text) <= _REPR_CHARS else text[: _REPR_CHARS - 3] + "..."


def _unflatten(parts: Iterable[Any], kind: Kind | None) -> Ragged:
    values, offsets = parts
    return ragged_of(values, offsets, kind)


pytree.register_pytree_node(
    Ragged,
    lambda ragged: ([ragged.values, ragged.offsets], ragged.kind),
    _unflatten,
    serialized_type_name="fastload.Ragged",
    flatten_with_keys_fn=lambda ragged: (
        [
            (pytree.GetAttrKey("values"), ragged.values),
            (pytree.GetAttrKey("offsets"), ragged.offsets),
        ],
        ragged.kind,
    ),
)
