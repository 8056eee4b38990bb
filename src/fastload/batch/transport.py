"""The transport of batches from a worker process to the process that trains.

The core of a worker process writes batches to shared memory. The queue carries only a descriptor
that names the memory: a few hundred bytes, however large the batch is. Values that a callable has
put into the batch are copied to shared memory once. Only multiprocessing's pickler sends batches
by descriptor; every other pickle of a Batch contains the values.
"""

from __future__ import annotations

import os
import pickle
import threading
import weakref
from functools import partial
from multiprocessing.reduction import DupFd, ForkingPickler
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, cast

import torch
from torch._utils import ExceptionWrapper

from fastload.batch.assembler import Assembler, Output
from fastload.batch.batch import Batch
from fastload.batch.origin import is_untouched
from fastload.batch.packing import pack, unpack
from fastload.errors import StorageError
from fastload.runtime.child_processes import call_at_end_of, end_with_parent
from fastload.runtime.native import core
from fastload.runtime.user_warnings import warn

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastload.plan.position import BatchPosition

__all__ = ["Destination", "EndedPasses", "Sender", "is_living", "memory_of_workers"]


class Destination(NamedTuple):
    """The destination of a worker process's batches: the dataset in the process that trains.

    Attributes:
        dataset: id of the dataset, the same in all processes.
        warning: warning that the receiver raises once, when it begins to copy batches.
    """

    dataset: str
    warning: str


class EndedPasses:
    """The passes of workers that were ended here, as long as this object lives.

    A batch of such a pass that arrives here raises an error when DataLoader hands it out.

    Args:
        cell: id of the EpochCell that the passes belong to.
        newest: number of the first order whose passes go on.
        cause: the subject of the sentence "... ended this pass".
        advice: what the caller can write instead.
    """

    def __init__(self, cell: str, newest: int, cause: str, advice: str) -> None:
        self._newest = newest
        self._cause = cause
        self._advice = advice
        self._delivered: dict[int, int] = {}  # by order: batches of the pass before the first here
        _ended[cell] = self

    def refused(self, position: BatchPosition) -> RefusedBatch | None:
        """Return what takes the place of an arriving batch; None if its pass goes on."""
        order = position.follows
        if order >= self._newest:
            return None
        before = position.delivered - 1
        self._delivered[order] = min(before, self._delivered.get(order, before))
        return RefusedBatch(lambda: self._error(order))

    def _error(self, order: int) -> RuntimeError:
        delivered = self._delivered[order]
        return RuntimeError(
            f"{self._cause} ended this pass after {delivered} batches: {self._advice}"
        )


class RefusedBatch(ExceptionWrapper):
    """An error that DataLoader gets in place of a batch, and raises when the batch's turn comes.

    Args:
        error: returns the error.
    """

    def __init__(self, error: Callable[[], RuntimeError]) -> None:
        self._error = error

    def reraise(self) -> NoReturn:
        """Raise the error."""
        raise self._error()


_ended: weakref.WeakValueDictionary[str, EndedPasses] = weakref.WeakValueDictionary()


class Sender:
    """The sender of this worker process's batches.

    Args:
        outputs: layouts of the outputs of a batch.
        capacity: bytes of shared memory for batches.
        lend_bytes: bytes of this memory that the receiver may hold. Beyond `lend_bytes`, the
            receiver copies batches.
        home: destination of the batches.

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
        """Return the last sender made in this process; None if this process made no sender."""
        return _senders.get(os.getpid())

    def mark(self, batch: Batch) -> None:
        """Mark a batch, fresh from the core, as one that this sender can send."""
        origin = batch._origin  # noqa: SLF001
        assert origin is not None
        origin.sender = self

    def reduce(self, batch: Batch) -> tuple[Any, ...] | None:
        """Return what multiprocessing pickles for a batch; None if memory or slots run short."""
        origin = batch._origin  # noqa: SLF001
        raws: list[Any] = []
        written: dict[str, Any] = {}
        start = stop = 0
        if origin is not None and origin.sender is self:
            raws, written = [origin.raw], origin.written
            start, stop = origin.raw.extent
        untouched = {
            name: is_untouched(value, written.get(name), start, stop)
            for name, value in batch.items()
        }
        if not any(untouched.values()):
            raws.clear()
        layouts = None
        if not all(untouched.values()):
            others = {name: value for name, value in batch.items() if not untouched[name]}
            block, layouts = self._packed(others)
            raws.append(block)
        copied = self.core.held_bytes > self._lend_bytes
        slots = self.core.send(raws)
        if slots is None:
            return None
        whole = layouts is None and list(untouched) == list(written)
        order = None if whole else list(untouched.items())
        pickled = None if layouts is None else _pickled(layouts)
        descriptor = _BatchDescriptor(slots, order, pickled, copied)
        address = (self._pid, self._key, self._introduction())
        return _receive, (address, tuple(descriptor), batch._position)  # noqa: SLF001

    def _packed(self, values: dict[str, Any]) -> tuple[Any, Any]:
        """Pack values into shared memory; return the memory and the layouts of the values."""
        blocks = []

        def allocate(size: int) -> torch.Tensor:
            blocks.append(self.core.allocate(max(size, 8)))
            return torch.frombuffer(blocks[0], dtype=torch.uint8)[:size]

        _, layouts = pack(values, allocate)
        return blocks[0], layouts

    def _introduction(self) -> Any:
        """Return the file descriptor from which a receiver maps the memory; None once one has."""
        if self.core.met:
            return None
        if self._fd is None:
            try:
                self._fd = DupFd(self.core.fd)
            except (
                RuntimeError
            ) as error:  # the system refuses the thread that multiprocessing needs
                raise OSError(f"Can't share the memory of batches: {error}") from error
        return self._fd


_senders: dict[int, Sender] = {}


class _BatchDescriptor(NamedTuple):
    """The description of a batch that crosses the queue.

    Attributes:
        slots: slots of the shared memory: first the slot of the memory that the core wrote, if
            any value in this memory is left; then the slot of packed values.
        order: names of the outputs in order, each with True if the core wrote the output; None =
            all outputs as the core wrote them.
        layouts: pickle of the layouts of the packed values, or None.
        copied: the receiver must copy the batch, because it may not hold more of the memory.
    """

    slots: list[int]
    order: list[tuple[str, bool]] | None
    layouts: bytes | None
    copied: bool


def _reduced(batch: Batch) -> tuple[Any, ...]:
    sender = Sender.of_process()
    if sender is None:
        return batch.__reduce__()
    # A queue drops an object that it cannot pickle, and the receiver then waits for ever. So
    # everything that may fail is pickled here.
    try:
        reduced = sender.reduce(batch)
        if reduced is None:
            load, arguments = batch.__reduce__()
            reduced = _load_pickled, (load, _pickled(arguments))
    except (OSError, MemoryError) as error:
        message = f"A worker could not send a batch: {type(error).__name__}: {error}"
        return _raise, (RuntimeError(message),)
    except Exception as error:  # noqa: BLE001 - the receiver raises the error
        message = f"Expected a batch that can be sent, got {type(error).__name__}: {error}"
        return _raise, (TypeError(message),)
    return reduced


def _pickled(value: object) -> bytes:
    return bytes(ForkingPickler.dumps(value))


def _load_pickled(load: Callable[..., Batch], arguments: bytes) -> Batch | RefusedBatch:
    return _arrived(load(*pickle.loads(arguments)))  # noqa: S301 - a worker's


def _arrived(batch: Batch) -> Batch | RefusedBatch:
    """Return a batch that has arrived from a worker, or what DataLoader raises in its place."""
    position = batch._position  # noqa: SLF001
    ended = _ended.get(getattr(position, "cell", ""))
    return (ended and ended.refused(cast("BatchPosition", position))) or batch


def _raise(error: Exception) -> NoReturn:
    raise error


ForkingPickler.register(Batch, _reduced)


class _WorkerMemory:
    """The memory of one worker process, mapped in this process as long as the worker lives."""

    def __init__(self, pid: int, receiver: core.BatchReceiver) -> None:
        self.pid = pid
        outputs, self.home = pickle.loads(receiver.description)  # noqa: S301 - a worker's
        self._assemble = Assembler(outputs)
        self.receiver = receiver
        self._warned = False

    def batch(self, descriptor: _BatchDescriptor, position: object) -> Batch:
        """Return the described batch, over the worker's memory or copied from that memory."""
        raws = [self.receiver.take(slot) for slot in descriptor.slots]
        if descriptor.order is None:
            batch = self._assemble(raws[0], position)
        else:
            values: dict[str, Any] = {}
            if any(own for _, own in descriptor.order):
                values.update(self._assemble(raws[0]))
            if descriptor.layouts is not None:
                block = torch.frombuffer(raws[-1], dtype=torch.uint8)
                layouts = pickle.loads(descriptor.layouts)  # noqa: S301 - a worker's
                values.update(unpack((block, layouts)))
            batch = Batch([(name, values[name]) for name, _ in descriptor.order], position)
        if not descriptor.copied:
            return batch
        if not self._warned:
            self._warned = True
            warn(self.home.warning)
        return batch.clone()


_known: dict[bytes, _WorkerMemory] = {}
# Guards `_known`. Reentrant, because the end of a process may be noticed while the lock is held.
_lock = threading.RLock()


def _new_process() -> None:
    """Reset the state in a forked child: the mapped memory and the lock belong to the parent."""
    global _lock  # noqa: PLW0603
    _lock = threading.RLock()
    _known.clear()


os.register_at_fork(after_in_child=_new_process)


def memory_of_workers(dataset: str) -> list[list[int]]:
    """Return the memory of each living worker process of a dataset, by stage as `Stats.memory`."""
    with _lock:
        known = list(_known.values())
    return [worker.receiver.memory for worker in known if worker.home.dataset == dataset]


def is_living(receiver: core.BatchReceiver) -> bool:
    """Return True if the process that owns the receiver's memory has not ended."""
    with _lock:
        return any(known.receiver is receiver for known in _known.values())


def _receive(
    address: tuple[int, bytes, Any], descriptor: Any, position: object
) -> Batch | RefusedBatch:
    pid, key, introduction = address
    with _lock:
        known = _known.get(key)
        if known is None:
            _forget_ended_processes()
            known = _known[key] = _open_memory(pid, introduction)
            call_at_end_of(pid, partial(_forget, key))
    return _arrived(known.batch(_BatchDescriptor(*descriptor), position))


def _forget(key: bytes) -> None:
    with _lock:
        _known.pop(key, None)


def _forget_ended_processes() -> None:
    """Forget worker processes that have ended without a notification from the system."""
    for key, known in list(_known.items()):
        try:
            os.kill(known.pid, 0)
        except ProcessLookupError:
            _forget(key)
        except PermissionError:
            continue


def _open_memory(pid: int, introduction: Any) -> _WorkerMemory:
    if introduction is None:
        raise StorageError(f"Expected a batch of a running process, but process {pid} has ended")
    try:
        fd = introduction.detach()
    except EOFError:  # the worker's thread of multiprocessing failed, and closed the connection
        raise StorageError(
            f"Expected the memory of worker process {pid}, but the process closed the connection. "
            "Its error is in the output of the run: with Too many open files, raise the limit, "
            "ulimit -n, or use fewer workers"
        ) from None
    try:
        return _WorkerMemory(pid, core.BatchReceiver(fd))
    except StorageError as error:
        raise StorageError(
            f"{error} (this process maps the memory of every worker process, which a limit of "
            "virtual memory counts in full: raise the limit, ulimit -v, or use fewer workers)"
        ) from None
    finally:
        os.close(fd)
