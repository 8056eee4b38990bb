"""DevicePrefetcher: batches on their way to a device while the one before is being used."""

from __future__ import annotations

import functools
import statistics
import time
import weakref
from collections import deque
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import torch

from fastload.batch.batch import Batch, BatchOrigin
from fastload.batch.pinned_memory import RegisteredMemory
from fastload.batch.transfer import PinnedMemory, Transfer, begin_transfer, moved
from fastload.dataset.loaders.stateful import StatefulLoader, place_of

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Mapping

__all__ = ["DevicePrefetcher", "memory_of_batches"]

_Item = TypeVar("_Item")


def memory_of_batches(pin_memory: bool | Literal["auto"]) -> PinnedMemory | None:
    """What batches of this process should lie in; None = ordinary memory.

    pin_memory: True asks for pinned memory, "auto" does so where there is a CUDA device.
    """
    if pin_memory == "auto":
        pin_memory = torch.cuda.is_available()
    return PinnedMemory() if pin_memory else None


@contextmanager
def nvtx_range(name: str) -> Generator[None]:
    """A range of NVIDIA's profilers, where there is a CUDA device."""
    if not _has_cuda():
        yield
        return
    with torch.cuda.nvtx.range(name):
        yield


@functools.cache
def _has_cuda() -> bool:
    return torch.cuda.is_available()


def seconds_to_device(size: int) -> float | None:
    """To copy so many bytes from pinned memory to the current CUDA device; None without one.

    The median of a few runs, each of one block of at most 64 MiB copied again and again.
    """
    if not torch.cuda.is_available():
        return None
    block = min(max(size, 1), 64 << 20)
    host = torch.empty(block, dtype=torch.uint8, pin_memory=True)
    there = torch.empty(block, dtype=torch.uint8, device="cuda")
    seconds = []
    for _ in range(5):
        torch.cuda.synchronize()
        started = time.perf_counter()
        for _ in range(-(-size // block)):
            there.copy_(host, non_blocking=True)
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds)


class DevicePrefetcher(StatefulLoader, Generic[_Item]):
    """Hands out the batches of a loader on a device, and copies the next ones meanwhile.

        for batch in DevicePrefetcher(DataLoader(ds, batch_size=None), "cuda"):
            ...

    Batches go to a CUDA device through pinned memory and on a stream of their own; whatever
    stream is current when a batch is handed out waits for its copy, the host doesn't. The
    tensors of a batch, those of its Raggeds included, then share one block of the device's
    memory, which lives until the last of them dies: `clone()` what you keep for long. They may
    be used on other streams as tensors of the stream that was current: those have to wait for
    it, and to `record_stream`. A batch as the dataset made it goes in one copy: from where it lies,
    if that is pinned memory or that of a worker process, which is locked once. Of others, values in
    pinned memory are copied from there, each by itself.

    On the CPU batches are handed out as they come, and none is read ahead.

    Batches are those of fastload, or what else a pytree can be of tensors, numbers, strings and
    None. What a loader raises is raised after the batches before it. Each iter() ends the pass
    before.

    Args:
        loader: `DataLoader(ds, batch_size=None)` with any workers, a StatefulDataLoader, the
            dataset itself, or any other iterable of batches. Its state is ahead of what is
            handed out, so take that of the prefetcher; it needs one of the first three, or a
            loader with such a `dataset`.
        device: as torch takes it. "cuda" is the current device when the first pass begins.
        depth: batches copied ahead of the one handed out last; at least 1.

    Raises:
        TypeError: an argument is of the wrong type; while iterating, a batch holds something
            else.
        ValueError: depth is less than 1, or there is no such device.
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
        # Weak, so that a pass that nobody holds gives back its memory.
        self._running: weakref.ref[Generator[_Item]] | None = None

    def __repr__(self) -> str:
        loader = type(self._loader).__name__
        return f"DevicePrefetcher({loader}, {str(self._device)!r}, depth={self._depth})"

    def __iter__(self) -> Iterator[_Item]:
        self.close()
        running = self._deliver()
        self._running = weakref.ref(running)
        return running

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Ends the pass; the next one goes on right after what `state` says was handed out.

        Raises:
            SourceChangedError: the files are not those of the state.
            ValueError: it is no state, or an argument that decides the order has changed.
            TypeError: there is no dataset to load it.
        """
        super().load_state_dict(state)
        self.close()

    def close(self) -> None:
        """Ends the pass and drops what was copied ahead; batches stay valid. Idempotent.

        The dataset stays open.
        """
        running = self._running() if self._running is not None else None
        if running is not None:
            running.close()

    def _deliver(self) -> Generator[_Item]:
        self._keep_state()
        if self._way is None:
            self._way = _way_to(self._device, self._depth)
        way = self._way
        with closing(way), _iterator_of(self._loader) as batches:
            # Maps hold on to no batch while it is used.
            yield from map(self._counted, map(way.finish, _read_ahead(way, batches)))

    def _counted(self, batch: _Item) -> _Item:
        # What is no Batch has no place, and state_dict() says so.
        self._last = place_of(batch) if isinstance(batch, Batch) else Batch()
        return batch


def _read_ahead(way: _SideStream | _Direct, batches: Iterator[Any]) -> Iterator[Any]:
    """Batches that were begun, each when `way.depth` more are; before an error, those before it."""
    ahead = deque[Any]()
    try:
        for batch in batches:
            ahead.append(way.begin(batch))
            del batch  # the loader's memory is free as soon as it is copied
            if len(ahead) > way.depth:
                yield ahead.popleft()
    except Exception:
        while ahead:
            yield ahead.popleft()
        raise
    while ahead:
        yield ahead.popleft()


class _Direct:
    """Batches as torch copies them; on the CPU, as they are.

    Args:
        device: none of CUDA's.
        depth: batches begun ahead of the one finished last.
    """

    def __init__(self, device: torch.device, depth: int) -> None:
        self.depth = depth
        self._device = device

    def begin(self, batch: Any) -> Any:
        """The batch on the device."""
        return moved(batch, self._device)

    def finish(self, begun: Any) -> Any:
        """The batch that was begun."""
        return begun

    def close(self) -> None:
        """Nothing is under way."""


@dataclass(frozen=True, slots=True)
class _Begun:
    """A transfer, and the event that its end is."""

    transfer: Transfer
    done: torch.cuda.Event


class _SideStream:
    """Batches that are copied to a CUDA device while its other streams work.

    Three things keep memory from being used anew too early. What a copy reads stays here until
    its event has come. What it writes is allocated on the side stream, so it is reused in that
    stream's order; and it is recorded on the consumer's stream, so not before that is done with
    it either.

    Args:
        device: one of CUDA's; without an index, the current one.
        depth: batches begun ahead of the one finished last.
    """

    def __init__(self, device: torch.device, depth: int) -> None:
        self.depth = depth
        self._device = torch.empty(0, device=device).device  # with its index
        self._stream = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]
        self._allocate = PinnedMemory()
        self._registered = RegisteredMemory(torch.cuda.cudart())  # type: ignore[no-untyped-call]
        self._reading: deque[tuple[torch.cuda.Event, list[torch.Tensor]]] = deque()

    def begin(self, batch: Any) -> _Begun:
        """Has the batch copied; waits while more copies than `depth` are under way."""
        self._release(self.depth)
        with torch.cuda.stream(self._stream):
            transfer, sources = begin_transfer(batch, self._device, self._allocate, self._locked)
            done = self._stream.record_event()
        self._reading.append((done, sources))
        return _Begun(transfer, done)

    def finish(self, begun: _Begun) -> Any:
        """The batch that was begun, for the current stream, which waits for it."""
        consumer = torch.cuda.current_stream(self._device)
        consumer.wait_event(begun.done)
        for target in begun.transfer.targets:
            target.record_stream(consumer)
        if begun.transfer.whole:
            return begun.transfer.batch
        return moved(begun.transfer.batch, self._device)

    def close(self) -> None:
        """Waits for the copies that are under way."""
        self._release(0)
        self._registered.forget_the_dead()

    def _locked(self, origin: BatchOrigin) -> bool:
        return origin.block.is_pinned() or self._registered(origin)

    def _release(self, most: int) -> None:
        """Gives back what was read, all but by the `most` latest copies that are under way."""
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
    """An iterator over the loader, closed at the end if it can be and was made here."""
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
    # Nothing that begins to use CUDA: a rank may choose its device later.
    if checked.type == "cuda" and (checked.index or 0) >= (count := torch.cuda.device_count()):
        raise ValueError(f"Expected one of {count} CUDA devices, got {device!r}")
    return checked
