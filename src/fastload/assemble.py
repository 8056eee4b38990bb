"""Tensors over the one block of memory that the core lends for a batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

import torch

from fastload.batch import Batch
from fastload.ragged import Kind, Ragged, ragged_of
from fastload.views import untracked

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class Raw(Protocol):
    """A finished batch of the core: a writable buffer and where the outputs lie in it.

    It also has the buffer protocol, over bytes whose address does not change while it lives.

    `areas` gives, in bytes from the start of the buffer:
      for each dtype of the "column" outputs, in order of first appearance: offset, pitch
        (its j-th column begins at offset + j * pitch);
      for each "stack" output: offset;
      for each "str" or "bytes" output: offset of its offsets, its rows, offset of its values,
        bytes of its values.
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
        kind: "column" (B,), "stack" (B, width) row-major, or "str" / "bytes" for a Ragged.
        dtype: of the elements; uint8 for "str" and "bytes".
        width: columns of a stack.
    """

    name: str
    kind: Literal["column", "stack", "str", "bytes"]
    dtype: torch.dtype
    width: int = 1


class Assembler:
    """Makes a Batch of tensors over each block, with as few calls into torch as there are dtypes.

    The tensors are contiguous, share the block, and keep it alive until the last one dies.

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
        self._stacks = [
            (output.dtype, output.dtype.itemsize, output.width)
            for output in outputs
            if output.kind == "stack"
        ]
        self._kinds: list[Kind] = [
            output.kind for output in outputs if output.kind == "str" or output.kind == "bytes"
        ]
        dense = [output for group in columns.values() for output in group]
        dense += [output for output in outputs if output.kind == "stack"]
        dense += [output for output in outputs if output.kind in ("str", "bytes")]
        self._names = [output.name for output in dense]
        place = {output.name: j for j, output in enumerate(dense)}
        order = [(output.name, place[output.name]) for output in outputs]
        if len(place) < len(outputs):
            raise ValueError("Expected distinct output names, got one twice")
        self._order = None if [j for _, j in order] == sorted(place.values()) else order

    def __call__(self, raw: Raw, position: object = None) -> Batch:
        """The Batch over `raw`, which it keeps alive.

        Args:
            raw: what the core lends.
            position: carried by the Batch.
        """
        with untracked():
            values = self._tensors(raw)
        if self._order is None:
            return Batch(zip(self._names, values, strict=True), position)
        return Batch([(name, values[j]) for name, j in self._order], position)

    def _tensors(self, raw: Raw) -> Sequence[torch.Tensor | Ragged]:
        rows = raw.rows
        block = _block(raw)
        areas = iter(raw.areas)
        typed = {dtype: block.view(dtype) for dtype, _, _ in self._groups}
        values: list[torch.Tensor | Ragged] = []
        for dtype, itemsize, count in self._groups:
            offset, pitch = next(areas), next(areas)
            group = typed[dtype].as_strided(
                (count, rows), (pitch // itemsize, 1), offset // itemsize
            )
            values += group.unbind(0)
        for dtype, itemsize, width in self._stacks:
            offset = next(areas)
            values.append(
                block.view(dtype).as_strided((rows, width), (width, 1), offset // itemsize)
            )
        for kind in self._kinds:
            offsets_at, lists = next(areas), next(areas)
            values_at, values_bytes = next(areas), next(areas)
            if len(block):
                offsets = block.view(torch.int64).as_strided((lists + 1,), (1,), offsets_at // 8)
            else:
                offsets = torch.zeros(1, dtype=torch.int64, device="cpu")
            text = block.as_strided((values_bytes,), (1,), values_at)
            values.append(ragged_of(text, offsets, kind))
        return values


def _block(raw: Raw) -> torch.Tensor:
    """The whole buffer as uint8, cut to a multiple of 8 bytes so that it views as any dtype."""
    view = memoryview(raw)  # type: ignore[arg-type]
    size = view.nbytes
    if size < 8:
        return torch.empty(0, dtype=torch.uint8, device="cpu")
    if size % 8:
        # as_strided is bounded by the storage, so nothing behind the cut is out of reach.
        return torch.frombuffer(raw, dtype=torch.uint8)[: size - size % 8]
    return torch.frombuffer(raw, dtype=torch.uint8)
