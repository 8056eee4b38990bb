"""The way of batches from a worker process to the one that trains.

A worker's core writes them to shared memory, and what crosses the queue says where: a few
hundred bytes, whatever the batch. Values that a callable has put in their place are copied to
that memory once. multiprocessing's pickler alone is told of this way; every other pickle of a
Batch is one of its values.
"""

from __future__ import annotations

import os
import pickle
import threading
from dataclasses import replace
from functools import partial
from multiprocessing.reduction import DupFd, ForkingPickler
from typing import Any, NamedTuple, NoReturn

import torch

from fastload.batch.assembler import Assembler, Output
from fastload.batch.batch import Batch
from fastload.batch.packing import pack, unpack
from fastload.batch.ragged import Ragged
from fastload.errors import StorageError
from fastload.runtime.child_processes import call_at_end_of, end_with_parent
from fastload.runtime.native import core
from fastload.runtime.user_warnings import warn

__all__ = ["Destination", "Sender", "is_living", "memory_of_workers"]


class Destination(NamedTuple):
    """Where the batches of a worker process go.

    dataset: an id of the dataset, the same in all processes.
    warning: what is said when batches become copies.
    """

    dataset: str
    warning: str


class Sender:
    """Sends batches of this worker process.

    Args:
        outputs: of the batches.
        capacity: bytes of batches that there is room for.
        lend_bytes: of those, what the receiver may hold; past it batches are sent to be copied.
        home: who they belong to, and what the receiver says then, once.

    Raises:
        StorageError: the system refuses shared memory.
    """

    def __init__(
        self, outputs: tuple[Output, ...], *, capacity: int, lend_bytes: int, home: Destination
    ) -> None:
        description = pickle.dumps((outputs, home))
        self.core = core.BatchSender(size=capacity, description=description)
        self._lend_bytes = lend_bytes
        self._pid = os.getpid()
        self._key = os.urandom(8)
        self._fd: Any = None
        _senders[self._pid] = self
        end_with_parent()

    @classmethod
    def of_process(cls) -> Sender | None:
        """The one made last, if it was in this process."""
        return _senders.get(os.getpid())

    def mark(self, batch: Batch) -> None:
        """The batch, fresh from the core, can be sent."""
        values = {name: _parts(value) for name, value in batch.items()}
        assert batch._origin is not None  # noqa: SLF001
        batch._origin = replace(batch._origin, sender=self, values=values)  # noqa: SLF001

    def reduce(self, batch: Batch) -> tuple[Any, ...] | None:
        """What the receiver makes the batch of; None when memory or slots are short."""
        origin = batch._origin  # noqa: SLF001
        raws: list[Any] = []
        written: dict[str, Any] = {}
        start = stop = 0
        if origin is not None and origin.sender is self:
            raws, written = [origin.raw], origin.values
            start, stop = origin.raw.extent
        there = {
            name: _is_untouched(value, written.get(name), start, stop)
            for name, value in batch.items()
        }
        if not any(there.values()):
            raws.clear()
        layouts = None
        if not all(there.values()):
            others = {name: value for name, value in batch.items() if not there[name]}
            block, layouts = self._packed(others)
            raws.append(block)
        copied = self.core.held_bytes > self._lend_bytes
        slots = self.core.send(raws)
        if slots is None:
            return None
        whole = layouts is None and list(there) == list(written)
        parcel = _BatchDescriptor(slots, None if whole else list(there.items()), layouts, copied)
        address = (self._pid, self._key, self._introduction())
        return _receive, (address, tuple(parcel), batch._position)  # noqa: SLF001

    def _packed(self, values: dict[str, Any]) -> tuple[Any, Any]:
        """A block that can be sent with the values in it, and where they lie."""
        blocks = []

        def allocate(size: int) -> torch.Tensor:
            blocks.append(self.core.allocate(max(size, 8)))
            return torch.frombuffer(blocks[0], dtype=torch.uint8)[:size]

        _, layouts = pack(values, allocate)
        return blocks[0], layouts

    def _introduction(self) -> Any:
        """How a receiver gets at the memory, until one has."""
        if self.core.met:
            return None
        if self._fd is None:
            self._fd = DupFd(self.core.fd)
        return self._fd


_senders: dict[int, Sender] = {}


class _BatchDescriptor(NamedTuple):
    """What crosses of a batch.

    slots: of its memory: as the core wrote it, if any of that is left; then of other values.
    order: the outputs, and whether each is one that the core wrote; None: as it wrote them.
    layouts: of the other values.
    copied: the receiver is to hold no more of this memory.
    """

    slots: list[int]
    order: list[tuple[str, bool]] | None
    layouts: Any
    copied: bool


def _parts(value: Any) -> Any:
    """A tensor itself; a Ragged with what it is made of."""
    if type(value) is Ragged:
        return value, _parts(value.values), value.offsets
    return value


def _is_untouched(value: Any, parts: Any, start: int, stop: int) -> bool:
    """Return whether the value is what the core wrote from address `start` to `stop`.

    A tensor counts the operations that change it in place, in its values or its shape.
    """
    if type(value) is Ragged:
        if type(parts) is not tuple or value is not parts[0]:
            return False
        return _is_untouched(value.values, parts[1], start, stop) and _is_untouched(
            value.offsets, parts[2], start, stop
        )
    return (
        value is parts
        and not value._version  # noqa: SLF001
        and not value.requires_grad
        and (start <= value.data_ptr() <= stop or not value.numel())
    )


def _reduced(batch: Batch) -> tuple[Any, ...]:
    sender = Sender.of_process()
    if sender is None:
        return batch.__reduce__()
    # A queue drops what it can't pickle, and whoever waits for that waits for ever.
    try:
        parcel = sender.reduce(batch) or batch.__reduce__()
        values = batch.values()
        strange = [value for value in values if not isinstance(value, torch.Tensor | Ragged)]
        if strange:
            ForkingPickler.dumps(strange)
    except Exception as error:  # noqa: BLE001 - it is told where the batch is waited for
        return _refuse, (f"Expected a batch that can be sent, got {type(error).__name__}: {error}",)
    return parcel


def _refuse(message: str) -> NoReturn:
    raise TypeError(message)


ForkingPickler.register(Batch, _reduced)


class _WorkerMemory:
    """The memory of one worker process, mapped here as long as that lives."""

    def __init__(self, pid: int, receiver: core.BatchReceiver) -> None:
        self.pid = pid
        outputs, self.home = pickle.loads(receiver.description)  # noqa: S301 - a worker's
        self._assemble = Assembler(outputs)
        self.receiver = receiver
        self._warned = False

    def batch(self, parcel: _BatchDescriptor, position: object) -> Batch:
        """The batch, over the memory that it was sent in."""
        raws = [self.receiver.take(slot) for slot in parcel.slots]
        if parcel.order is None:
            batch = self._assemble(raws[0], position)
        else:
            values: dict[str, Any] = {}
            if any(own for _, own in parcel.order):
                values.update(self._assemble(raws[0]))
            if parcel.layouts is not None:
                block = torch.frombuffer(raws[-1], dtype=torch.uint8)
                values.update(unpack((block, parcel.layouts)))
            batch = Batch([(name, values[name]) for name, _ in parcel.order], position)
        if not parcel.copied:
            return batch
        if not self._warned:
            self._warned = True
            warn(self.home.warning)
        return batch.clone()


_known: dict[bytes, _WorkerMemory] = {}
# Of what is known; reentrant, for a process may turn out to have ended while it is held.
_lock = threading.RLock()


def _new_process() -> None:
    """In a fork's child: what was mapped is the parent's affair, and so is its lock."""
    global _lock  # noqa: PLW0603
    _lock = threading.RLock()
    _known.clear()


os.register_at_fork(after_in_child=_new_process)


def memory_of_workers(dataset: str) -> list[list[int]]:
    """What each living worker process of a dataset holds, by stage as `Stats.memory` has it."""
    with _lock:
        known = list(_known.values())
    return [one.receiver.memory for one in known if one.home.dataset == dataset]


def is_living(receiver: core.BatchReceiver) -> bool:
    """Return whether the process whose memory it is has not ended."""
    with _lock:
        return any(known.receiver is receiver for known in _known.values())


def _receive(address: tuple[int, bytes, Any], parcel: Any, position: object) -> Batch:
    pid, key, introduction = address
    with _lock:
        known = _known.get(key)
        if known is None:
            _forget_the_dead()
            known = _known[key] = _opened(pid, introduction)
            call_at_end_of(pid, partial(_forget, key))
    return known.batch(_BatchDescriptor(*parcel), position)


def _forget(key: bytes) -> None:
    with _lock:
        _known.pop(key, None)


def _forget_the_dead() -> None:
    """Forget workers whose end the system did not report."""
    for key, known in list(_known.items()):
        try:
            os.kill(known.pid, 0)
        except ProcessLookupError:
            _forget(key)
        except PermissionError:
            continue


def _opened(pid: int, introduction: Any) -> _WorkerMemory:
    if introduction is None:
        raise StorageError(f"Expected a batch of a living process, got one of process {pid}")
    fd = introduction.detach()
    try:
        return _WorkerMemory(pid, core.BatchReceiver(fd))
    finally:
        os.close(fd)
