"""The transfer of a batch to a device: one buffer of host memory, one copy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from fastload.batch.batch import Batch
from fastload.batch.origin import BatchOrigin, is_untouched
from fastload.batch.packing import is_plain, pack, unpack
from fastload.batch.ragged import Ragged, ragged_of
from fastload.batch.tensor_views import untracked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["Transfer", "begin_transfer", "moved"]

# Types that a batch may hold besides tensors; their values lie on no device.
_NO_DEVICE = (type(None), bool, int, float, complex, str, bytes)


def _is_pinned(origin: BatchOrigin) -> bool:
    return origin.block.is_pinned()


@dataclass(frozen=True, slots=True)
class Transfer:
    """A batch whose copies to a device are under way.

    Attributes:
        batch: batch on the device; may be used once the copies are done.
        targets: memory on the device that the copies write.
        whole: True if no value is left for `moved` to move (see `begin_transfer`).
    """

    batch: Any
    targets: list[torch.Tensor]
    whole: bool


def begin_transfer(
    batch: Any,
    device: torch.device,
    allocate: Callable[[int], torch.Tensor],
    locked: Callable[[BatchOrigin], bool] = _is_pinned,
) -> tuple[Transfer, list[torch.Tensor]]:
    """Begin to copy a batch to a device, without waiting for the copies.

    A batch as the core wrote it lies in one buffer and is copied at once, directly from the
    buffer if the buffer is pinned. In any other batch, values in pinned memory are copied
    directly; all other values are packed into one buffer of host memory and arrive as views of
    one buffer on the device. Tensors that already lie on a device, or that are more than their
    elements (sparse tensors, subclasses, tensors that require a gradient), are not moved: `moved`
    moves them.

    Args:
        batch: a Batch, or any other pytree of tensors.
        device: a device other than the CPU.
        allocate: makes the buffer, a uint8 Tensor of the given number of bytes. The buffer must
            be pinned for copies that overlap with other work.
        locked: returns True if the memory of a batch is pinned; may pin the memory.

    Returns:
        The transfer, and the host memory that the copies read. The host memory must not change
        until the transfer is done.

    Raises:
        TypeError: the batch holds a value that cannot lie on a device; the message names the
            location of the value.
    """
    origin = batch._origin if isinstance(batch, Batch) else None  # noqa: SLF001
    if origin is not None and _is_as_written(batch, origin):
        target, source = _copied(origin, device, allocate, locked)
        there = Batch(origin.again(origin.raw, target), batch._position)  # noqa: SLF001
        return Transfer(there, [target], True), [source]
    values, tree = _flattened(batch)
    if origin is not None and _is_filled_by(values, origin.block):
        target, source = _copied(origin, device, allocate, locked)
        with untracked():
            start = origin.block.data_ptr()
            values = [_in_block(value, start, target) for value in values]
        return Transfer(pytree.tree_unflatten(values, tree), [target], True), [source]
    sources: list[torch.Tensor] = []
    targets: list[torch.Tensor] = []
    loose: dict[int, Any] = {}
    whole = True
    for index, value in enumerate(values):
        tensors = list(_tensors(value))
        if not all(map(is_plain, tensors)):
            whole = False
        elif not all(tensor.is_pinned() for tensor in tensors):
            loose[index] = value
        elif tensors:
            values[index] = value.to(device, non_blocking=True)
            sources += tensors
            targets += _tensors(values[index])
    if loose:
        block, layouts = pack(loose, allocate)
        target = block.to(device, non_blocking=True)
        sources.append(block)
        targets.append(target)
        for index, value in unpack((target, layouts)).items():
            values[index] = value
    return Transfer(pytree.tree_unflatten(values, tree), targets, whole), sources


def _copied(
    origin: BatchOrigin,
    device: torch.device,
    allocate: Callable[[int], torch.Tensor],
    locked: Callable[[BatchOrigin], bool],
) -> tuple[torch.Tensor, torch.Tensor]:
    """Begin to copy the memory of a batch; return the copy, and the memory that is read."""
    source = origin.block
    if not locked(origin):
        source = allocate(len(source)).copy_(source)
    return source.to(device, non_blocking=True), source


def _is_as_written(batch: Batch, origin: BatchOrigin) -> bool:
    """Return True if the batch has the values that the core wrote, none of them changed."""
    written = origin.written
    if tuple(batch) != tuple(written):
        return False
    start = origin.block.data_ptr()
    stop = start + origin.block.nbytes
    return all(is_untouched(value, written[name], start, stop) for name, value in batch.items())


def _is_filled_by(values: Iterable[Any], block: torch.Tensor) -> bool:
    """Return True if the buffer holds all the values, and the values fill half of it or more."""
    start = block.data_ptr()
    stop = start + block.untyped_storage().nbytes()
    size = 0
    for value in values:
        for tensor in _tensors(value):
            if not is_plain(tensor):
                return False
            storage = tensor.untyped_storage()
            if not start <= storage.data_ptr() <= stop - storage.nbytes():
                return False
            size += tensor.nbytes
    return 2 * size >= len(block)


def _in_block(value: Any, start: int, block: torch.Tensor) -> Any:
    """Return the same value as a view of `block`, a copy of the buffer in which the value lies.

    Args:
        value: a value of the batch.
        start: address of the buffer.
        block: the copy of the buffer.
    """
    if type(value) is Ragged:
        parts = _in_block(value.values, start, block), _in_block(value.offsets, start, block)
        return ragged_of(*parts, value.kind)
    if not isinstance(value, torch.Tensor):
        return value
    before = (value.untyped_storage().data_ptr() - start) // value.dtype.itemsize
    typed = block.view(value.dtype)
    return typed.as_strided(value.shape, value.stride(), before + value.storage_offset())


def moved(batch: Any, device: torch.device) -> Any:
    """Return the same batch on `device`, copied by torch; values already on `device` are shared.

    Raises:
        TypeError: the batch holds a value that cannot lie on a device; the message names the
            location of the value.
    """
    values, tree = _flattened(batch)
    on_device = [value.to(device) if hasattr(value, "to") else value for value in values]
    return pytree.tree_unflatten(on_device, tree)


def _flattened(batch: Any) -> tuple[list[Any], pytree.TreeSpec]:
    """Return the tensors, Raggeds and other values of a batch, and the tree that they form."""
    values, tree = pytree.tree_flatten(batch, is_leaf=_is_ragged)
    if not all(_is_movable(value) for value in values):
        raise _no_batch(batch)
    return values, tree


def _is_ragged(value: object) -> bool:
    return isinstance(value, Ragged)


def _is_movable(value: object) -> bool:
    return hasattr(value, "to") or isinstance(value, _NO_DEVICE)


def _no_batch(batch: Any) -> TypeError:
    flat, _ = pytree.tree_flatten_with_path(batch, is_leaf=_is_ragged)
    path, value = next((path, value) for path, value in flat if not _is_movable(value))
    where = f"batch{pytree.keystr(path)}"
    return TypeError(
        "Expected a batch of tensors, Raggeds, numbers and strings, got "
        f"{type(value).__name__}, which cannot lie on a device - at {where}"
    )


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors of a value: those of a Ragged, or the value itself if it has a device."""
    if type(value) is Ragged:
        yield from _tensors(value.values)
        yield value.offsets
    elif hasattr(value, "to"):
        yield value
