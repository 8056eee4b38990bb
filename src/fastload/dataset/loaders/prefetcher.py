"""DevicePrefetcher: copies batches to a device while the consumer uses earlier batches."""

from __future__ import annotations

import os
import weakref
from collections import deque
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

import torch

from fastload.batch.batch import Batch
from fastload.batch.pinned_memory import PinnedMemory, RegisteredMemory
from fastload.batch.transfer import Transfer, begin_transfer, moved
from fastload.dataset.loaders.loader_pass import LoaderPass
from fastload.dataset.loaders.stateful import StatefulLoader, position_only

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Mapping

    from fastload.batch.origin import BatchOrigin

__all__ = ["DevicePrefetcher"]

_Item = TypeVar("_Item")


class DevicePrefetcher(StatefulLoader, Generic[_Item]):
    """A loader that hands out batches on a device, and copies the next batches meanwhile.

    Example:
        device = "cuda" if torch.cuda.is_available() else "cpu"
        for batch in DevicePrefetcher(DataLoader(ds, batch_size=None), device):
            train(batch)

    Batches go to a CUDA device through pinned memory, on a separate stream. When a batch is handed
    out, the stream that is then current waits for the copy; the host does not wait. The tensors of
    a batch, including the tensors of its Raggeds, share one buffer in the device's memory. The
    buffer lives until the last of these tensors dies, so `clone()` tensors that you keep for long.
    To use the tensors on another stream, treat them as tensors of the stream that was current:
    the other stream must wait for that stream, and the tensors need `record_stream`.

    An unchanged batch of the dataset goes in a single copy. The copy reads the batch directly if
    the batch lies in pinned memory, or in the memory of a worker process, which is page-locked
    once. Of any other batch, values in pinned memory are copied directly, one by one.

    On the CPU, batches are handed out as the loader yields them, and no batch is read ahead.

    A batch is a fastload Batch, or any pytree of tensors, numbers, strings and None. An exception
    of the loader is raised after the batches that came before the exception. Each iter() ends the
    pass before: if the iterator of an ended pass is asked for more, it raises RuntimeError.

    Args:
        loader: The loader of the batches: any iterable of batches.
            It may be `DataLoader(ds, batch_size=None)` with any number of workers, a
            StatefulDataLoader, or the dataset itself. The state of the prefetcher needs one of
            these three, or a loader with such a `dataset`. Save the state of the prefetcher: the
            loader's own state is ahead of the batches handed out.
        device: The target device, in any form that torch takes.
            "cuda" means the device that is current when the first pass begins.
        depth: Number of batches copied ahead of the latest batch handed out; at least 1.

    Raises:
        TypeError: An argument has the wrong type. During iteration: a batch holds a value of
            another type.
        ValueError: `depth` is less than 1, or torch has no such device.
    """

    def __init__(
        self, loader: Iterable[_Item], device: torch.device | str | int, depth: int = 2
    ) -> None:
        if isinstance(depth, bool) or not isinstance(depth, int):
            raise TypeError(f"Expected depth as an int, got {depth!r}")
        if depth < 1:
            raise ValueError(f"Expected depth to be at least 1, got {depth}")
        if not hasattr(loader, "__iter__"):
            raise TypeError(f"Expected loader to be iterable, got {type(loader).__name__}")
        super().__init__(loader)
        self._depth = depth
        self._device = _checked(device)
        self._way: _SideStream | _Direct | None = None
        # Weak, so that a pass that nobody holds releases its memory.
        self._running: weakref.ref[LoaderPass[_Item]] | None = None

    def __repr__(self) -> str:
        loader = type(self._loader).__name__
        return f"DevicePrefetcher({loader}, {str(self._device)!r}, depth={self._depth})"

    def __getitem__(self, index: Any) -> NoReturn:
        """Refuse an index, which a DataLoader around the prefetcher would ask for.

        Raises:
            TypeError: Always; the message says what to write instead.
        """
        raise TypeError(
            f"A DevicePrefetcher is read by iteration and has no item [{index!r}]: to use a "
            "DataLoader, wrap the DataLoader: "
            "DevicePrefetcher(DataLoader(ds, batch_size=None), device)"
        )

    def __iter__(self) -> Iterator[_Item]:
        self._end_pass(
            "A second iter() of the DevicePrefetcher",
            "a DevicePrefetcher has one pass at a time. To read the data while a pass is running, "
            "iterate over another one: DevicePrefetcher(copy.copy(dataset), device)",
        )
        running = LoaderPass(self._deliver())
        self._running = weakref.ref(running)
        return running

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """End the pass, and let the next pass continue after the last batch handed out in `state`.

        Args:
            state: the result of `state_dict`.

        Raises:
            SourceChangedError: The files differ from the files of the state.
            ValueError: `state` is not a saved state, or an argument that decides the order has
                changed.
            TypeError: The loader has no fastload dataset that could load the state.
        """
        super().load_state_dict(state)
        self._end_pass("load_state_dict()", "call iter() again to continue from the loaded state")

    def close(self) -> None:
        """End the pass and drop the batches copied ahead. Idempotent.

        Batches that were handed out stay valid, and the dataset stays open. If the iterator of the
        pass is asked for more, it raises RuntimeError.
        """
        self._end_pass("close() of the DevicePrefetcher", "call iter() again to begin another pass")

    def _end_pass(self, cause: str, advice: str) -> None:
        running = self._running() if self._running is not None else None
        if running is not None:
            running.end(cause, advice)

    def _deliver(self) -> Generator[_Item]:
        self._keep_state()
        if self._way is None:
            self._way = _way_to(self._device, self._depth)
        way = self._way
        with closing(way), _iterator_of(self._loader) as batches:
            # Unlike a loop variable, `map` keeps no reference to a batch while it is used.
            yield from map(self._counted, map(way.finish, _read_ahead(way, batches)))

    def _counted(self, batch: _Item) -> _Item:
        # A batch of another type has no position, and state_dict() raises an error that says so.
        self._last = position_only(batch) if isinstance(batch, Batch) else Batch()
        return batch


def _read_ahead(way: _SideStream | _Direct, batches: Iterator[Any]) -> Iterator[Any]:
    """Yield begun transfers, each once `way.depth` more have begun.

    If the loader raises, yield all begun transfers before the exception.
    """
    ahead = deque[Any]()
    try:
        for batch in batches:
            ahead.append(way.begin(batch))
            del batch  # so that the batch's memory is free as soon as the batch is copied
            if len(ahead) > way.depth:
                yield ahead.popleft()
    except Exception:
        while ahead:
            yield ahead.popleft()
        raise
    while ahead:
        yield ahead.popleft()


class _Direct:
    """The way of batches to a device other than CUDA: torch's own copy; on the CPU, none.

    Args:
        device: the device, not a CUDA device.
        depth: number of batches begun ahead of the latest finished batch.
    """

    def __init__(self, device: torch.device, depth: int) -> None:
        self.depth = depth
        self._device = device

    def begin(self, batch: Any) -> Any:
        """Return the batch on the device."""
        return moved(batch, self._device)

    def finish(self, begun: Any) -> Any:
        """Return the batch that `begin` returned."""
        return begun

    def close(self) -> None:
        """Do nothing: no copy is under way."""


@dataclass(frozen=True, slots=True)
class _Begun:
    """A transfer that has begun.

    Attributes:
        transfer: the transfer.
        done: the event that marks the end of the copies.
    """

    transfer: Transfer
    done: torch.cuda.Event


class _SideStream:
    """The way of batches to a CUDA device: copies on a side stream while other streams work.

    Three rules keep memory from being reused too early. The memory that a copy reads is held here
    until the event of the copy has come. The memory that a copy writes is allocated on the side
    stream, so the memory is reused in that stream's order. The written memory is also recorded on
    the consumer's stream, so it is not reused before the consumer's stream has finished with it.

    Args:
        device: a CUDA device; without an index, the current device.
        depth: number of batches begun ahead of the latest finished batch.
    """

    def __init__(self, device: torch.device, depth: int) -> None:
        self.depth = depth
        self._device = torch.empty(0, device=device).device  # with its index
        self._stream = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]
        self._allocate = PinnedMemory()
        self._registered = RegisteredMemory(torch.cuda.cudart())  # type: ignore[no-untyped-call]
        self._reading: deque[tuple[torch.cuda.Event, list[torch.Tensor]]] = deque()

    def begin(self, batch: Any) -> _Begun:
        """Begin to copy a batch; wait while more than `depth` copies are under way."""
        self._release(self.depth)
        with torch.cuda.stream(self._stream):
            transfer, sources = begin_transfer(batch, self._device, self._allocate, self._locked)
            done = self._stream.record_event()
        self._reading.append((done, sources))
        return _Begun(transfer, done)

    def finish(self, begun: _Begun) -> Any:
        """Return the batch of a transfer, and let the current stream wait for the copies."""
        consumer = torch.cuda.current_stream(self._device)
        consumer.wait_event(begun.done)
        for target in begun.transfer.targets:
            target.record_stream(consumer)
        if begun.transfer.whole:
            return begun.transfer.batch
        return moved(begun.transfer.batch, self._device)

    def close(self) -> None:
        """Wait for the copies that are under way."""
        self._release(0)
        self._registered.forget_the_dead()

    def _locked(self, origin: BatchOrigin) -> bool:
        return origin.block.is_pinned() or self._registered(origin)

    def _release(self, most: int) -> None:
        """Release the memory that copies have read, until at most `most` copies are under way."""
        while self._reading:
            done, _ = self._reading[0]
            if len(self._reading) <= most and not done.query():  # type: ignore[no-untyped-call]
                return
            done.synchronize()
            self._reading.popleft()


def _way_to(device: torch.device, depth: int) -> _Direct | _SideStream:
    if device.type == "cuda":
        return _SideStream(device, depth)
    return _Direct(device, 0 if device.type == "cpu" else depth)


@contextmanager
def _iterator_of(loader: Iterable[Any]) -> Iterator[Iterator[Any]]:
    """Yield an iterator over the loader, and close the iterator if it can be closed.

    A loader that is its own iterator is not closed.
    """
    batches = iter(loader)
    try:
        yield batches
    finally:
        if batches is not loader and hasattr(batches, "close"):
            batches.close()


def _checked(device: torch.device | str | int) -> torch.device:
    try:
        checked = torch.device(device)
        if checked.type != "cuda":
            torch.empty(0, device=checked)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise ValueError(f"Expected a device that torch has, got {device!r}: {error}") from error
    # This check must not initialize CUDA: a rank may choose its device later.
    if checked.type == "cuda" and (checked.index or 0) >= (count := torch.cuda.device_count()):
        if not count:
            visible = os.environ.get("CUDA_VISIBLE_DEVICES")
            why = "" if visible is None else f" (CUDA_VISIBLE_DEVICES={visible!r})"
            raise ValueError(
                f"Expected a CUDA device, found none{why}, got {device!r}: write "
                '"cuda" if torch.cuda.is_available() else "cpu"'
            )
        raise ValueError(f"Expected one of {count} CUDA devices, got {device!r}")
    return checked
