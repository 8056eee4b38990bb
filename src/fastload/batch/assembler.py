"""Tensors over the one buffer that the core lends for a batch."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

import torch

from fastload.batch.batch import Batch
from fastload.batch.origin import BatchOrigin, parts_of
from fastload.batch.ragged import Kind, Ragged, ragged_of
from fastload.batch.tensor_views import buffer_of, untracked

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

# Up to so many columns for each dtype, a call for each column takes less time than the views that
# columns of one dtype share.
_FEW_COLUMNS = 4
_new_batch = dict.__new__


class CoreBatch(Protocol):
    """A finished batch of the core: a writable buffer, and the areas of the outputs in the buffer.

    A CoreBatch supports the buffer protocol. The address of its bytes does not change while the
    CoreBatch lives.

    `areas` lists, in bytes from the start of the buffer:
      for each dtype of the "column" outputs, in order of first appearance: offset and pitch (the
        j-th column of the dtype begins at offset + j * pitch);
      for each "rows" output: offset;
      for each "ragged" or "packed" output: for each level of lists, outermost first (the bytes of
        str and bytes are the innermost level), offset of the int64 offsets and number of the
        lists; then offset of the values and number of bytes of the values;
      for each "of_packed" and "scalar" output: offset and number of elements.
    """

    @property
    def rows(self) -> int:
        """Number of rows of the batch."""

    @property
    def areas(self) -> tuple[int, ...]:
        """Areas of the outputs, in the order that the class describes."""


@dataclass(frozen=True, slots=True)
class Output:
    """The layout of one output that the core writes for a batch of B rows.

    Args:
        name: key of the output in the Batch.
        kind: "column" (B,), "rows" (B, *shape), or "ragged" with values (N, *shape); in packed
            batches of R rows "packed" (R, *shape), whose segments are the batch's B rows,
            "of_packed" (n, *shape) with a number n of its own, and "scalar" ().
        dtype: dtype of the elements; uint8 for str and bytes.
        shape: shape of one row, or of one value of a Ragged.
        strides: elements from one entry to the next in each dimension of `shape`; () =
            row-major.
        depth: levels of lists of a Ragged, without the level of the bytes of str and bytes.
        text: "str" or "bytes" if the rows of a Ragged, or the elements of its lists, are str or
            bytes.
        hidden: the output is not put into the Batch.
    """

    name: str
    kind: Literal["column", "rows", "ragged", "packed", "of_packed", "scalar"]
    dtype: torch.dtype
    shape: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    depth: int = 0
    text: Kind | None = None
    hidden: bool = False


class Assembler:
    """A factory of Batches over the core's buffers, with few calls into torch.

    The tensors of a Batch share the buffer and keep the buffer alive until the last tensor dies.
    The tensors are contiguous, except tensors of outputs that have strides of their own.

    A few columns are made by a call for each column, and each tensor has a storage of its own that
    ends with the column. Many columns of one dtype, and all other outputs, are views of one storage
    that has the whole buffer.

    Args:
        outputs: layouts of the outputs, in the order of the Batch's keys.
        one_storage: all tensors of a Batch are views of one storage, which torch sends to another
            process by one file descriptor.

    Raises:
        ValueError: two outputs have the same name.
    """

    def __init__(self, outputs: Iterable[Output], *, one_storage: bool = False) -> None:
        outputs = tuple(outputs)
        columns: dict[torch.dtype, list[Output]] = {}
        for output in outputs:
            if output.kind == "column":
                columns.setdefault(output.dtype, []).append(output)
        self._groups = [
            (dtype, dtype.itemsize, len(group), all(output.hidden for output in group))
            for dtype, group in columns.items()
        ]
        self._rows = [_Items(output) for output in outputs if output.kind == "rows"]
        ragged = [output for output in outputs if output.kind == "ragged"]
        self._ragged = [(_Items(output), _levels(output), output.text) for output in ragged]
        laid = [output for group in columns.values() for output in group]
        laid += [output for output in outputs if output.kind == "rows"]
        laid += ragged
        packed = [output for output in outputs if output.kind == "packed"]
        self._packed = [_Items(output) for output in packed]
        of_packed = [output for output in outputs if output.kind in ("of_packed", "scalar")]
        self._of_packed = [(_Items(output), output.kind == "scalar") for output in of_packed]
        laid += packed + of_packed
        self._dtypes = {output.dtype for output in outputs if not output.hidden}
        if ragged:
            self._dtypes.add(torch.int64)
        self._names = [output.name for output in laid]
        shown = [output for output in outputs if not output.hidden]
        if len({output.name for output in shown}) < len(shown):
            repeated, _ = Counter(output.name for output in shown).most_common(1)[0]
            raise ValueError(f"Output name `{repeated}` is used twice")
        index = {id(output): j for j, output in enumerate(laid)}
        order = [(output.name, index[id(output)]) for output in shown]
        self._order = None if [j for _, j in order] == [*range(len(laid))] else order
        few = len(columns) and len(laid) <= _FEW_COLUMNS * len(columns)
        only_columns = all(output.kind == "column" for output in outputs)
        direct = few and only_columns and not one_storage
        self._columns = _places(outputs, columns) if direct else None

    def __call__(
        self, raw: CoreBatch, position: object = None, tensor: torch.Tensor | None = None
    ) -> Batch:
        """Make the Batch over `raw`; the Batch keeps `raw` alive.

        Args:
            raw: batch of the core.
            position: position in the epoch that the Batch carries.
            tensor: uint8 tensor over the memory of `raw`, if one exists already.
        """
        if torch.is_inference_mode_enabled():
            # Inference tensors don't count the changes made to them, which `Sender` must know, and
            # buffers of the core outlive the inference mode.
            with torch.inference_mode(mode=False):
                return self(raw, position, tensor)
        if self._columns is not None and (rows := raw.rows):
            # The hot path of datasets with few columns: Batch() and calls for each step would take
            # as long as a tensor.
            batch: Batch = _new_batch(Batch)
            batch._position = position  # noqa: SLF001
            areas = raw.areas
            if tensor is None:
                memory, tensor_of = memoryview(raw), torch.frombuffer  # type: ignore[arg-type]
                for name, dtype, area, number in self._columns:
                    offset = areas[area] + number * areas[area + 1]
                    batch[name] = tensor_of(memory, dtype=dtype, count=rows, offset=offset)
            else:
                with untracked():
                    for name, dtype, area, number in self._columns:
                        first = (areas[area] + number * areas[area + 1]) // dtype.itemsize
                        batch[name] = tensor.view(dtype).as_strided((rows,), (1,), first)
            # Only columns are made here, and a tensor has no parts.
            batch._origin = BatchOrigin(raw, dict(batch), self.over, tensor)  # noqa: SLF001
            return batch
        with untracked():
            buffer = buffer_of(raw) if tensor is None else tensor
        values = self.over(raw, buffer)
        batch = Batch(values, position)
        written = values  # a tensor has no parts
        if self._ragged:
            written = {name: parts_of(value) for name, value in values.items()}
        batch._origin = BatchOrigin(raw, written, self.over, buffer)  # noqa: SLF001
        return batch

    def over(self, raw: CoreBatch, buffer: torch.Tensor) -> dict[str, Any]:
        """Return the outputs of `raw` as views of a buffer.

        Args:
            raw: batch of the core.
            buffer: the memory of `raw`, or a copy of the memory on any device, as uint8.
        """
        with untracked():
            values = self._tensors(raw, buffer)
        if self._order is None:
            return dict(zip(self._names, values, strict=True))
        return {name: values[j] for name, j in self._order}

    def _tensors(self, raw: CoreBatch, buffer: torch.Tensor) -> list[torch.Tensor | Ragged | None]:
        rows = raw.rows
        areas = iter(raw.areas)
        typed = {dtype: buffer.view(dtype) for dtype in self._dtypes}
        values: list[torch.Tensor | Ragged | None] = []
        for dtype, itemsize, count, hidden in self._groups:
            offset, pitch = next(areas) // itemsize, next(areas) // itemsize
            if hidden:
                values += [None] * count
            elif count == 1:
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
        for items in self._packed:
            _, _, start, size = (next(areas) for _ in range(4))
            values.append(items.view(typed, size // items.item_bytes, start))
        for items, scalar in self._of_packed:
            start, size = next(areas), next(areas)
            tensor = items.view(typed, size // items.elements, start)
            values.append(tensor.squeeze(0) if scalar else tensor)
        return values


class _Items:
    """The layout of an output's items, which lie one after the other."""

    __slots__ = ("_dtype", "_shape", "_strides", "elements", "item_bytes")

    def __init__(self, output: Output) -> None:
        size = math.prod(output.shape)
        strides = output.strides or tuple(
            math.prod(output.shape[k + 1 :]) for k in range(len(output.shape))
        )
        self._dtype = output.dtype
        self._shape = output.shape
        self._strides = (size, *strides)
        self.elements = size
        self.item_bytes = size * output.dtype.itemsize

    def view(
        self, typed: Mapping[torch.dtype, torch.Tensor], count: int, start: int
    ) -> torch.Tensor:
        """Return the tensor (count, *shape) that begins `start` bytes into the buffer."""
        offset = start // self._dtype.itemsize
        return typed[self._dtype].as_strided((count, *self._shape), self._strides, offset)


def _levels(output: Output) -> int:
    return output.depth + (output.text is not None)


def _offsets(buffer: torch.Tensor, areas: Iterator[int]) -> torch.Tensor:
    start, lists = next(areas), next(areas)
    if len(buffer):
        return buffer.as_strided((lists + 1,), (1,), start // 8)
    return torch.zeros(1, dtype=torch.int64, device=buffer.device)


def _places(
    outputs: Iterable[Output], columns: Mapping[torch.dtype, list[Output]]
) -> list[tuple[str, torch.dtype, int, int]]:
    """Return name, dtype, index of the dtype's first area, and number in the dtype, by column."""
    dtypes = list(columns)
    return [
        (
            output.name,
            output.dtype,
            2 * dtypes.index(output.dtype),
            columns[output.dtype].index(output),
        )
        for output in outputs
        if not output.hidden
    ]
