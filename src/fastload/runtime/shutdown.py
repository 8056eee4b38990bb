"""Threads and clients that must end before the interpreter does.

Once the interpreter ends, a thread that returns to Python from C++ or Rust is ended too. Before
Python 3.14 this unwinds the thread's stack through destructors of C++ or frames of Rust, and the
process aborts.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Protocol
from weakref import WeakSet

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["close_at_exit", "wait_for_queues_at_exit"]

# Pickling the rest of a queue takes less time than this. A thread may still hang afterwards in
# a full pipe that the trainer no longer reads, which does no harm.
_QUEUE_S = 2.0
# A thread that waits for the GIL has no frame yet, so threads are listed this many times, with a
# pause after each, in which every waiting thread can take the GIL.
_LOOKS = 10
_LOOK_S = 0.001
_FOREIGN_S = 1.0


class Closing(Protocol):
    """An object that can be closed."""

    def close(self) -> None:
        """End the object's threads. Idempotent."""


_registered: dict[Callable[[], None], int] = {}  # with the process that registered the function
_open: WeakSet[Closing] = WeakSet()


def wait_for_queues_at_exit() -> None:
    """Make the interpreter of this worker wait, at its end, for the threads that send batches.

    This matters in a spawned process only: a forked worker exits without ending its interpreter.
    Idempotent.
    """
    if multiprocessing.parent_process() is not None:
        _at_exit(_wait_for_queues)


def close_at_exit(client: Closing) -> None:
    """Close a client of a store, and wait for its threads, before the interpreter ends."""
    _open.add(client)
    _at_exit(_close)


def wait_for_foreign_threads() -> None:
    """Wait, for a limited time, until threads that Python did not start have left Python."""
    deadline = time.monotonic() + _FOREIGN_S
    looks = 0
    while looks < _LOOKS and time.monotonic() < deadline:
        own = {thread.ident for thread in threading.enumerate()}
        running = set(sys._current_frames())  # noqa: SLF001 - documented by Python
        looks = 0 if running - own else looks + 1
        time.sleep(_LOOK_S)


def _at_exit(end: Callable[[], None]) -> None:
    if _registered.get(end) != os.getpid():
        _registered[end] = os.getpid()
        atexit.register(end)


def _wait_for_queues() -> None:
    """Wait for the queue threads, which multiprocessing has already asked to end."""
    for thread in threading.enumerate():
        if thread.name == "QueueFeederThread":
            thread.join(_QUEUE_S)


def _close() -> None:
    for client in list(_open):
        client.close()
    wait_for_foreign_threads()
