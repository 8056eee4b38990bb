"""Tensors over the one block of memory that the core lends for a batch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

import torch

from fastload.batch.batch import Batch, BatchOrigin
from fastload.batch.ragged import Kind, Ragged, ragged_of
from fastload.batch.tensor_views import untracked

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


class CoreBatch(Protocol):
    """A finished batch of the core: a writable buffer and where the outputs lie in it.

    It also has the buffer protocol, over bytes whose address does not change while it lives.

    `areas` gives, in bytes from the start of the buffer:
      for each dtype of the "column" outputs, in order of first appearance: offset, pitch
        (its j-th column begins at offset + j * pitch);
      for each "rows" output: offset;
      for each "ragged" output: for each level of its lists, outermost first (the bytes of str
        and bytes are the innermost), offset of its int64 offsets and number of its lists; then
        offset of its values, bytes of its values.
    """

    @property
    def rows(self) -> int:
        """Rows of the batch."""

    @property
    def areas(self) -> tuple[int, ...]:
        """Where the outputs lie, as above."""


@dataclass(frozen=True, slots=True)
class Output:
    """What the core writes for one output of a batch of B rows.

    Args:
        name: the key in the Batch.
        kind: "column" (B,), "rows" (B, *shape), or "ragged" with values (N, *shape).
        dtype: of the elements; uint8 for str and bytes.
        shape: of one row, or of one value of a Ragged.
        strides: elements from one entry to the next in each dimension of `shape`, in which the
            core's row-major elements lie; () = as `shape` says.
        depth: levels of lists of a Ragged, but for the bytes of str and bytes.
        text: "str" or "bytes" for a Ragged of such.
    hidden: it is not put into the Batch.
    """

    name: str
    kind: Literal["column", "rows", "ragged"]
    dtype: torch.dtype
    shape: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    depth: int = 0
    text: Kind | None = None
    hidden: bool = False


class Assembler:
    """Makes a Batch of tensors over each block, with as few calls into torch as there are dtypes.

    The tensors share the block, and keep it alive until the last one dies. They are contiguous,
    but for those with strides of their own.

    Args:
        outputs: in the order of the Batch's keys.
    """

    def __init__(self, outputs: Iterable[Output]) -> None:
        outputs = tuple(outputs)
        columns: dict[torch.dtype, list[Output]] = {}
        for output in outputs:
            if output.kind == "column":
                columns.setdefault(output.dtype, []).append(output)
        self._groups = [(dtype, dtype.itemsize, len(group)) for dtype, group in columns.items()]
        self._rows = [_Items(output) for output in outputs if output.kind == "rows"]
        ragged = [output for output in outputs if output.kind == "ragged"]
        self._ragged = [(_Items(output), _levels(output), output.text) for output in ragged]
        laid = [output for group in columns.values() for output in group]
        laid += [output for output in outputs if output.kind == "rows"]
        laid += ragged
        self._dtypes = {output.dtype for output in outputs}
        if ragged:
            self._dtypes.add(torch.int64)
        self._names = [output.name for output in laid]
        shown = [output for output in outputs if not output.hidden]
        if len({output.name for output in shown}) < len(shown):
            raise ValueError("Expected distinct output names, got one twice")
        place = {id(output): j for j, output in enumerate(laid)}
        order = [(output.name, place[id(output)]) for output in shown]
        self._order = None if [j for _, j in order] == [*range(len(laid))] else order

    def __call__(
        self, raw: CoreBatch, position: object = None, tensor: torch.Tensor | None = None
    ) -> Batch:
        """The Batch over `raw`, which it keeps alive.

        Args:
            raw: what the core lends.
            position: carried by the Batch.
            tensor: that `raw` lies in, if it lies in one.
        """
        with untracked():
            block = _block(raw) if tensor is None else tensor
            values = self._tensors(raw, block)
        if self._order is None:
            batch = Batch(zip(self._names, values, strict=True), position)
        else:
            batch = Batch([(name, values[j]) for name, j in self._order], position)
        batch._origin = BatchOrigin(block, raw)  # noqa: SLF001
        return batch

    def _tensors(self, raw: CoreBatch, block: torch.Tensor) -> list[torch.Tensor | Ragged]:
        rows = raw.rows
        areas = iter(raw.areas)
        typed = {dtype: block.view(dtype) for dtype in self._dtypes}
        values: list[torch.Tensor | Ragged] = []
        for dtype, itemsize, count in self._groups:
            offset, pitch = next(areas) // itemsize, next(areas) // itemsize
            if count == 1:
                values.append(typed[dtype].as_strided((rows,), (1,), offset))
            else:
                group = typed[dtype].as_strided((count, rows), (pitch, 1), offset)
                values += group.unbind(0)
        values += [items.view(typed, rows, next(areas)) for items in self._rows]
        for items, levels, text in self._ragged:
            offsets = [_offsets(typed[torch.int64], areas) for _ in range(levels)]
            start, size = next(areas), next(areas)
            lists: torch.Tensor | Ragged = items.view(typed, size // items.item_bytes, start)
            kind = text
            for level in reversed(offsets):
                lists = ragged_of(lists, level, kind)
                kind = None
            values.append(lists)
        return values


class _Items:
    """How the elements of an output lie, one item after the other."""

    __slots__ = ("_dtype", "_shape", "_strides", "item_bytes")

    def __init__(self, output: Output) -> None:
        size = math.prod(output.shape)
        strides = output.strides or tuple(
            math.prod(output.shape[k + 1 :]) for k in range(len(output.shape))
        )
        self._dtype = output.dtype
        self._shape = output.shape
        self._strides = (size, *strides)
        self.item_bytes = size * output.dtype.itemsize

    def view(
        self, typed: Mapping[torch.dtype, torch.Tensor], count: int, start: int
    ) -> torch.Tensor:
        """The tensor (count, *shape) that begins `start` bytes into the block."""
        place = start // self._dtype.itemsize
        return typed[self._dtype].as_strided((count, *self._shape), self._strides, place)


def _levels(output: Output) -> int:
    return output.depth + (output.text is not None)


def _offsets(block: torch.Tensor, areas: Iterator[int]) -> torch.Tensor:
    start, lists = next(areas), next(areas)
    if len(block):
        return block.as_strided((lists + 1,), (1,), start // 8)
    return torch.zeros(1, dtype=torch.int64, device="cpu")


def _block(raw: CoreBatch) -> torch.Tensor:
    """The whole buffer as uint8, cut to a multiple of 8 bytes so that it views as any dtype."""
    view = memoryview(raw)  # type: ignore[arg-type]
    size = view.nbytes
    if size < 8:
        return torch.empty(0, dtype=torch.uint8, device="cpu")
    if size % 8:
        # as_strided is bounded by the storage, so nothing behind the cut is out of reach.
        return torch.frombuffer(raw, dtype=torch.uint8)[: size - size % 8]
    return torch.frombuffer(raw, dtype=torch.uint8)
