"""Page-locked (pinned) memory, from which a CUDA device copies: allocated, or locked in place."""

from __future__ import annotations

import contextlib
import itertools
import weakref
from typing import TYPE_CHECKING, Any, Literal

import torch

from fastload.batch.packing import ordinary_memory
from fastload.batch.transport import is_living
from fastload.runtime.user_warnings import warn

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastload.batch.origin import BatchOrigin
    from fastload.runtime.native import core

__all__ = ["PinnedMemory", "RegisteredMemory", "memory_of_batches"]


class PinnedMemory:
    """An allocator of page-locked host memory, or of ordinary memory after the first refusal.

    torch reuses a freed buffer once all copies from the buffer that torch knows of are done.
    """

    def __init__(self) -> None:
        self._refused = False
        self._refusals = itertools.count()

    def __call__(self, size: int) -> torch.Tensor:
        """Allocate a uint8 Tensor of `size` bytes; warn at the first refusal."""
        if torch.is_inference_mode_enabled():  # to enter the other mode takes longer than to ask
            with torch.inference_mode(mode=False):  # a later pass may train on the memory
                return self(size)
        if not self._refused:
            try:
                return torch.empty(size, dtype=torch.uint8, device="cpu", pin_memory=True)
            except RuntimeError as error:
                self._refused = True
                if next(self._refusals) == 0:  # only one of several threads warns
                    warn(
                        f"Expected {size} bytes of pinned memory, got {error!s}: copies to the "
                        "device will not overlap with other work. Less prefetching, smaller "
                        "batches or a higher limit of locked memory (ulimit -l) may help",
                    )
        return ordinary_memory(size)


class RegisteredMemory:
    """The shared memory of worker processes that is page-locked, each segment once.

    Args:
        runtime: CUDA runtime, with cudaHostRegister and cudaHostUnregister.
    """

    def __init__(self, runtime: Any) -> None:
        self._runtime = runtime
        self._segments: dict[int, core.BatchReceiver] = {}  # by address
        self._refused = False
        # Memory must be unlocked before it is unmapped.
        self.close: Callable[[], object] = weakref.finalize(
            self, _unlock_all, self._segments, runtime
        )

    def __call__(self, origin: BatchOrigin) -> bool:
        """Lock the memory of a batch and return True if locked; warn at the first refusal."""
        address, size = getattr(origin.raw, "segment", (0, 0))
        if address in self._segments:
            return True
        if not size or self._refused:
            return False
        error = self._runtime.cudaHostRegister(address, size, 0)
        if int(error):
            self._refused = True
            warn(
                f"Cannot lock {size} bytes of the shared memory of worker processes ({error}): "
                "batches of worker processes are copied once more on their way to the device. A "
                "higher limit of locked memory (ulimit -l) may help",
            )
            return False
        self._segments[address] = origin.raw.receiver
        return True

    def forget_the_dead(self) -> None:
        """Unlock the memory of worker processes that have ended; no copy may be under way."""
        ended = [at for at, receiver in self._segments.items() if not is_living(receiver)]
        for address in ended:
            self._runtime.cudaHostUnregister(address)
            del self._segments[address]


def memory_of_batches(pin_memory: bool | Literal["auto"]) -> PinnedMemory | None:
    """Return the allocator for batches of this process; None = ordinary memory.

    Args:
        pin_memory: True for pinned memory, "auto" for pinned memory if there is a CUDA device and
            this process can use it: a child of a process that has used CUDA can't.
    """
    if pin_memory == "auto":
        in_child = torch.cuda._is_in_bad_fork()  # noqa: SLF001 - torch has no public name for it
        pin_memory = torch.cuda.is_available() and not in_child
    return PinnedMemory() if pin_memory else None


def _unlock_all(segments: dict[int, core.BatchReceiver], runtime: Any) -> None:
    with contextlib.suppress(RuntimeError):  # the driver may be shutting down
        for address in segments:
            runtime.cudaHostUnregister(address)
    segments.clear()
