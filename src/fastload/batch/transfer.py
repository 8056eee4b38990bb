"""What a batch is made of, and its way to a device: one block of host memory, one copy."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from fastload.batch.batch import Batch, BatchOrigin
from fastload.batch.packing import is_plain, ordinary_memory, pack, unpack
from fastload.batch.ragged import Ragged, ragged_of
from fastload.batch.tensor_views import untracked
from fastload.runtime.user_warnings import warn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["PinnedMemory", "Transfer", "begin_transfer", "moved"]

# What a batch may hold besides tensors; the same everywhere.
_NO_DEVICE = (type(None), bool, int, float, complex, str, bytes)


def _is_pinned(origin: BatchOrigin) -> bool:
    return origin.block.is_pinned()


class PinnedMemory:
    """Makes blocks of page-locked host memory, of ordinary memory from the first refusal on.

    torch keeps them for reuse, each until the copies from it that it knows of are done.
    """

    def __init__(self) -> None:
        self._refused = False
        self._refusals = itertools.count()

    def __call__(self, size: int) -> torch.Tensor:
        """A block of so many bytes; the first refusal is told by a warning."""
        if not self._refused:
            try:
                return torch.empty(size, dtype=torch.uint8, device="cpu", pin_memory=True)
            except RuntimeError as error:
                self._refused = True
                if next(self._refusals) == 0:  # several threads may be refused at once
                    warn(
                        f"Expected {size} bytes of pinned memory, got {error!s}: copies to the "
                        "device will not overlap with other work. Less prefetching, smaller "
                        "batches or a higher limit of locked memory (ulimit -l) may help",
                    )
        return ordinary_memory(size)


@dataclass(frozen=True, slots=True)
class Transfer:
    """A batch whose copies to a device are under way.

    batch: the copy; may be used once they are done.
    targets: the memory on the device that they write.
    whole: whether nothing is left to move (see `begin_transfer`).
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
    """Begins the copies of a batch to a device, without waiting for them.

    A batch as the core made it lies in one block, and goes in one copy: from where it lies if
    that is pinned. Of others, values in pinned memory are copied from there, and the rest goes
    through one block of host memory and arrives as views of one block on the device. Tensors
    that lie on a device, or are more than their values (sparse ones, subclasses, those that
    require a gradient), are left where they are, for `moved`.

    Args:
        batch: a Batch, or what else a pytree can be of tensors.
        device: not the CPU.
        allocate: makes the block, a uint8 Tensor of so many bytes; pinned, for copies that
            nobody waits for.
        locked: whether the memory of a batch is pinned; may pin it.

    Returns:
        The transfer, and the host memory that it reads: to be left alone until it is done.

    Raises:
        TypeError: the batch holds something else; says where.
    """
    values, tree = _flattened(batch)
    origin = batch._origin if isinstance(batch, Batch) else None  # noqa: SLF001
    if origin is not None and _is_filled_by(values, origin.block):
        source = origin.block
        if not locked(origin):
            source = allocate(len(source)).copy_(source)
        target = source.to(device, non_blocking=True)
        with untracked():
            values = [_in_block(value, target) for value in values]
        return Transfer(pytree.tree_unflatten(values, tree), [target], True), [source]
    sources: list[torch.Tensor] = []
    targets: list[torch.Tensor] = []
    loose: dict[int, Any] = {}
    whole = True
    for place, value in enumerate(values):
        tensors = list(_tensors(value))
        if not all(map(is_plain, tensors)):
            whole = False
        elif not all(tensor.is_pinned() for tensor in tensors):
            loose[place] = value
        elif tensors:
            values[place] = value.to(device, non_blocking=True)
            sources += tensors
            targets += _tensors(values[place])
    if loose:
        block, layouts = pack(loose, allocate)
        target = block.to(device, non_blocking=True)
        sources.append(block)
        targets.append(target)
        for place, value in unpack((target, layouts)).items():
            values[place] = value
    return Transfer(pytree.tree_unflatten(values, tree), targets, whole), sources


def _is_filled_by(values: Iterable[Any], block: torch.Tensor) -> bool:
    """Return whether the block holds all the values, and little else."""
    start = block.data_ptr()
    size = 0
    for value in values:
        for tensor in _tensors(value):
            if not is_plain(tensor) or tensor.untyped_storage().data_ptr() != start:
                return False
            size += tensor.nbytes
    return 2 * size >= len(block)


def _in_block(value: Any, block: torch.Tensor) -> Any:
    """The value again, in a copy of the block that it lies in."""
    if type(value) is Ragged:
        parts = _in_block(value.values, block), _in_block(value.offsets, block)
        return ragged_of(*parts, value.kind)
    if not isinstance(value, torch.Tensor):
        return value
    typed = block.view(value.dtype)
    return typed.as_strided(value.shape, value.stride(), value.storage_offset())


def moved(batch: Any, device: torch.device) -> Any:
    """The same batch on `device`, copied by torch; what lies there already is shared.

    Raises:
        TypeError: it holds something else than tensors; says where.
    """
    values, tree = _flattened(batch)
    there = [value.to(device) if hasattr(value, "to") else value for value in values]
    return pytree.tree_unflatten(there, tree)


def _flattened(batch: Any) -> tuple[list[Any], pytree.TreeSpec]:
    """The tensors, Raggeds and other values of a batch."""
    values, tree = pytree.tree_flatten(batch, is_leaf=_is_ragged)
    if not all(_goes_along(value) for value in values):
        raise _no_batch(batch)
    return values, tree


def _is_ragged(value: object) -> bool:
    return isinstance(value, Ragged)


def _goes_along(value: object) -> bool:
    return hasattr(value, "to") or isinstance(value, _NO_DEVICE)


def _no_batch(batch: Any) -> TypeError:
    flat, _ = pytree.tree_flatten_with_path(batch, is_leaf=_is_ragged)
    path, value = next((path, value) for path, value in flat if not _goes_along(value))
    where = f"batch{pytree.keystr(path)}"
    return TypeError(
        "Expected a batch of tensors, Raggeds, numbers and strings, got "
        f"{type(value).__name__}, which is on no device - at {where}"
    )


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    """The tensors that a value is made of; what is no Ragged and on some device is one."""
    if type(value) is Ragged:
        yield from _tensors(value.values)
        yield value.offsets
    elif hasattr(value, "to"):
        yield value
