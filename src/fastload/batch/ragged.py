"""Ragged: rows of varying length, stored as all values in a row and the offsets that cut them."""

from __future__ import annotations

import inspect
import itertools
import operator
from numbers import Number
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeAlias, overload

import torch
from torch.compiler import is_compiling
from torch.utils import _pytree as pytree

from fastload.batch.hints import COMPARED, NO_TENSOR, OPERATORS, refuse_dtype
from fastload.batch.ragged_parts import (
    check_parts,
    describe,
    expect_fitting,
    pad,
    preview,
    rows_of,
    rows_of_slice,
    value_indices,
)
from fastload.batch.tensor_views import deep_copied
from fastload.runtime.hints import missing_attribute

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

Kind: TypeAlias = Literal["str", "bytes"]

# torch 2.4 takes no length.
_TAKES_LENGTH = "max_seqlen" in inspect.signature(torch.nested.nested_tensor_from_jagged).parameters


class Ragged:
    """B rows of varying length.

    Example:
        tokens = FastParquetDataset("tokens", columns=["input_ids"]).head()["input_ids"]
        tokens[0]  # a tensor of the first list's elements
        tokens.to_padded(0).shape  # (5, length of the longest list)

    Row i is `values[offsets[i]:offsets[i + 1]]`. Offsets need not begin at 0: a slice of a Ragged
    shares all values and only narrows the offsets.

    A Ragged behaves like a sequence but is not a collections.abc.Sequence, because DataLoader
    would convert a Sequence row by row.

    Args:
        values: Tensor (N, ...), or a Ragged of N rows for nested lists.
        offsets: int64 Tensor (B + 1,), not decreasing, on the device of the values.
        kind: "str" or "bytes" if values are uint8 and each row is one str (UTF-8) or bytes.

    Raises:
        TypeError, ValueError: values, offsets and kind do not fit each other. The numbers in
            `offsets` are checked on the CPU only, not on other devices.
    """

    __slots__ = ("__weakref__", "kind", "offsets", "values")

    # A Ragged can be changed in place, so it has no stable hash.
    __hash__ = None  # type: ignore[assignment]

    # A Tensor, or a Ragged of nested lists; Any, as for batch[name], so that both can be used.
    values: Any
    offsets: torch.Tensor
    kind: Kind | None

    def __init__(
        self, values: torch.Tensor | Ragged, offsets: torch.Tensor, kind: Kind | None = None
    ) -> None:
        if not isinstance(values, (torch.Tensor, Ragged)):
            raise TypeError(f"Expected values as a Tensor or Ragged, got {type(values).__name__}")
        check_parts(values, offsets, kind)
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
        """Return one row (int), or a Ragged of several (slice, list, Tensor of int64 or bool).

        A row is a str, bytes, a Tensor (length, ...) that shares memory, or a Ragged. A slice
        of step 1 shares memory; every other selection copies.

        Raises:
            IndexError: the row does not exist.
        """
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step == 1:
                return ragged_of(self.values, self.offsets[start : max(start, stop) + 1], self.kind)
            return self._gather(rows_of_slice(start, stop, step, self.offsets.device))
        if isinstance(index, list) or getattr(index, "shape", None):
            return self._gather(rows_of(index, self.offsets.device))
        row = _row_of(index)
        if not -len(self) <= row < len(self):
            raise IndexError(f"Expected a row in [0, {len(self)}), got {row}")
        start, stop = self.offsets[row % len(self) :][:2].tolist()
        item = self.values[start:stop]
        if self.kind is None:
            return item
        data = _to_bytes(item)
        return data.decode() if self.kind == "str" else data

    def __iter__(self) -> Iterator[Any]:
        bounds = self.offsets.tolist()
        if self.kind is None:
            for start, stop in itertools.pairwise(bounds):
                yield self.values[start:stop]
            return
        first = bounds[0]
        data = _to_bytes(self.values[first : bounds[-1]])
        for start, stop in itertools.pairwise(bounds):
            row = data[start - first : stop - first]
            yield row.decode() if self.kind == "str" else row

    def __eq__(self, other: object) -> bool:
        """Return True if the rows are equal as by torch.equal (NaN differs from NaN).

        Kinds and dtypes must be equal too; the first offset may differ.

        Raises:
            TypeError: `other` is a str, bytes, a number or a tensor, which a tensor would compare
                with each row.
        """
        if not isinstance(other, Ragged):
            if isinstance(other, str | bytes | Number | torch.Tensor):
                got = "a Tensor" if isinstance(other, torch.Tensor) else repr(other)
                raise TypeError(f"Expected a Ragged to compare with, got {got}: {COMPARED}")
            return NotImplemented
        if len(self) != len(other) or self.kind != other.kind or self.dtype != other.dtype:
            return False
        mine, theirs = own_rows(self, copies=False), own_rows(other, copies=False)
        if isinstance(mine.values, Ragged) != isinstance(theirs.values, Ragged):
            return False
        if not torch.equal(mine.offsets, theirs.offsets):
            return False
        if isinstance(mine.values, Ragged):
            return bool(mine.values == theirs.values)
        assert isinstance(theirs.values, torch.Tensor)
        return torch.equal(mine.values, theirs.values)

    def __repr__(self) -> str:
        text = f"Ragged({len(self)} rows of {describe(self)}"
        if self.device.type == "cpu" and len(self):
            text += ": " + preview(self)
        return text + ")"

    if not TYPE_CHECKING:  # type checkers refuse unknown attributes themselves

        def __getattr__(self, name: str) -> Any:
            return missing_attribute(self, name, default=NO_TENSOR)

    @classmethod
    def __torch_function__(
        cls, function: Any, _types: Any, _arguments: Any = (), _keywords: Any = None
    ) -> NoReturn:
        name = getattr(function, "__name__", str(function))
        raise TypeError(f"Expected a tensor in {name}(), got a Ragged: {NO_TENSOR}")

    def __array__(self, *_arguments: object, **_options: object) -> NoReturn:
        raise TypeError(
            "Expected a tensor to make an array of, got a Ragged: write ragged.to_padded(), "
            "ragged.values and ragged.offsets, or ragged.tolist(); for a table of a whole batch, "
            "batch.to_pandas() or batch.to_arrow()"
        )

    @property
    def depth(self) -> int:
        """Number of levels of lists around a value; 0 for rows of str or bytes."""
        if isinstance(self.values, Ragged):
            return 1 + self.values.depth
        return int(self.kind is None)

    @property
    def device(self) -> torch.device:
        """Device of the values."""
        device: torch.device = self.values.device
        return device

    @property
    def dtype(self) -> torch.dtype:
        """Dtype of the innermost values; uint8 for str and bytes."""
        dtype: torch.dtype = self.values.dtype
        return dtype

    @property
    def lengths(self) -> torch.Tensor:
        """Number of elements of each row (for str and bytes, of bytes), as int64 (B,)."""
        return self.offsets.diff()

    @property
    def nbytes(self) -> int:
        """Number of bytes of the offsets, and of the values from the first to the last offset."""
        start, stop = self._span()
        return int(self.offsets.nbytes) + int(self.values[start:stop].nbytes)

    def tolist(self) -> list[Any]:
        """Return the rows as Python objects: str, bytes, or (nested) lists of numbers."""
        if self.kind is not None:
            return list(self)
        start, stop = self._span()
        flat = self.values[start:stop].tolist()
        bounds = [bound - start for bound in self.offsets.tolist()]
        return [flat[a:b] for a, b in itertools.pairwise(bounds)]

    def to_padded(
        self, value: float = 0, length: int | Sequence[int | None] | None = None
    ) -> torch.Tensor:
        """Return a dense tensor (B, length, ...), each row cut off or padded with `value`.

        Lists in lists, and the bytes of str and bytes, are padded too: (B, length, length, ...).

        Args:
            value: number written behind the end of a short list, which the dtype of the values
                can hold.
            length: number of elements kept of each row; or a sequence with the number of elements
                kept of the lists of each level, outermost first. None = length of the longest
                list.

        Raises:
            ValueError: there are more lengths than levels, a length is negative, or `value` does
                not fit the dtype.
        """
        expect_fitting(value, self.dtype)
        lengths = [length] if length is None or isinstance(length, int) else length
        return pad(own_rows(self, copies=False), value, lengths)

    def to_nested(self) -> torch.Tensor:
        """Return a torch nested tensor of jagged layout that shares the memory of the values.

        On a CPU, the nested tensor knows the length of its longest row, to which
        `torch.nested.to_padded_tensor` pads. On another device, the length would have to be copied
        to the host, so `to_padded_tensor` pads each row to the number of all values there, unless
        you pass `output_size`.

        Raises:
            ValueError: rows are lists of lists, which the jagged layout cannot hold.
        """
        own = own_rows(self, copies=False)
        if isinstance(own.values, Ragged):
            raise ValueError(  # noqa: TRY004  the type is right, its depth is not
                f"Expected one level of lists for a jagged nested tensor, got {describe(self)}: "
                "write ragged.to_padded(), or ragged.values.to_nested() for the inner lists"
            )
        known: dict[str, Any] = {}
        if _TAKES_LENGTH and len(self) and self.device.type == "cpu" and not is_compiling():
            # Not the shortest too: torch.compile would compile again where it is 0 or 1.
            known = {"max_seqlen": int(own.offsets.diff().max())}
        nested: torch.Tensor = torch.nested.nested_tensor_from_jagged(
            own.values, own.offsets, **known
        )
        return nested

    def to(self, device: torch.device | str | int, non_blocking: bool = False) -> Ragged:
        """Return the same rows on `device`; rows already on `device` share memory.

        Args:
            device: device, as torch takes it.
            non_blocking: do not wait for the copies. Copies overlap with other work only if they
                read pinned memory.

        Raises:
            TypeError: `device` is a dtype.
        """
        refuse_dtype(device, non_blocking)
        return ragged_of(
            self.values.to(device, non_blocking=non_blocking),
            self.offsets.to(device, non_blocking=non_blocking),
            self.kind,
        )

    def pin_memory(self) -> Ragged:
        """Return a copy in page-locked memory.

        Raises:
            RuntimeError: torch finds no accelerator to pin for.
        """
        return ragged_of(self.values.pin_memory(), self.offsets.pin_memory(), self.kind)

    def clone(self) -> Ragged:
        """Return a copy that holds the values of its own rows only."""
        return own_rows(self, copies=True)

    def __copy__(self) -> Ragged:
        return ragged_of(self.values, self.offsets, self.kind)

    def __deepcopy__(self, memo: dict[int, Any]) -> Ragged:
        own = own_rows(self, copies=False)
        values, offsets = deep_copied(own.values, memo), deep_copied(own.offsets, memo)
        duplicate = ragged_of(values, offsets, self.kind)
        memo[id(self)] = duplicate
        return duplicate

    def __reduce__(self) -> tuple[Any, ...]:
        # The pickle of a view would contain its whole storage, so the rows are copied first.
        own = own_rows(self, copies=True)
        return ragged_of, (own.values, own.offsets, own.kind)

    def _span(self) -> tuple[int, int]:
        return int(self.offsets[0]), int(self.offsets[-1])

    def _gather(self, rows: torch.Tensor) -> Ragged:
        """Copy the rows with the numbers `rows` (K,), or the rows where `rows` (B,) is True."""
        indices, offsets = value_indices(self.offsets, rows)
        return ragged_of(self.values[indices], offsets, self.kind)


def ragged_of(values: Any, offsets: Any, kind: Kind | None) -> Ragged:
    """Make a Ragged without checks, of parts that fit or that a pytree map returned."""
    ragged = Ragged.__new__(Ragged)
    ragged.values = values
    ragged.offsets = offsets
    ragged.kind = kind
    return ragged


def own_rows(ragged: Ragged, *, copies: bool) -> Ragged:
    """Return the same rows without values of other rows, with offsets that begin at 0.

    With `copies`, the rows are copied to new memory. Otherwise they share memory where possible.
    """
    start, stop = int(ragged.offsets[0]), int(ragged.offsets[-1])
    values = ragged.values
    if start or stop < len(values):
        values = values[start:stop]
    if isinstance(values, Ragged):
        values = own_rows(values, copies=copies)
    elif copies:
        values = values.clone()
    offsets = ragged.offsets - start if start else ragged.offsets
    return ragged_of(values, offsets.clone() if copies and not start else offsets, ragged.kind)


def _row_of(index: object) -> int:
    if isinstance(index, bool) or getattr(index, "dtype", None) is torch.bool:
        # One entry of a mask by mistake, which Python takes for row 0 or 1.
        raise TypeError(f"Expected a mask of all rows, ragged[mask], got the bool {index!r}")
    try:
        return operator.index(index)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(
            f"Expected the number of a row, a slice, a list or a Tensor, got {index!r}: for an "
            "element write ragged[row][element], for a rectangle ragged.to_padded()"
        ) from None


def _refuse_operator(_ragged: Ragged, *_operands: object) -> NoReturn:
    raise TypeError(f"Expected a tensor in an operation, got a Ragged: {NO_TENSOR}")


for _operator in OPERATORS:
    setattr(Ragged, f"__{_operator}__", _refuse_operator)


def _to_bytes(values: Any) -> bytes:
    data: bytes = values.cpu().contiguous().numpy().tobytes()
    return data


def _unflatten(parts: Iterable[Any], kind: Kind | None) -> Ragged:
    values, offsets = parts
    return ragged_of(values, offsets, kind)


# Lets torch.load(weights_only=True) load a Ragged: `ragged_of` only sets the three attributes.
torch.serialization.add_safe_globals([ragged_of])

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
