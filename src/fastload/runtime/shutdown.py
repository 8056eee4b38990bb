"""What has to end before the interpreter does.

The end of the interpreter ends a thread that comes back to Python from elsewhere: before Python
3.14 by unwinding its stack, through destructors of C++ or frames of Rust, and the process aborts.
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

__all__ = ["close_at_exit", "wait_for_foreign_threads", "wait_for_queues_at_exit"]

# What a queue still holds is pickled in less; a thread that hangs in a full pipe, which the
# trainer does not read any more, harms nobody.
_QUEUE_S = 2.0
# A thread that waits for the GIL has no frame yet: all get so many chances to take it.
_LOOKS = 10
_LOOK_S = 0.001
_FOREIGN_S = 1.0


class Closing(Protocol):
    """What can be closed."""

    def close(self) -> None:
        """Ends its threads. Idempotent."""


_registered: dict[Callable[[], None], int] = {}  # and the process
_open: WeakSet[Closing] = WeakSet()


def wait_for_queues_at_exit() -> None:
    """Has the threads that send batches end before the interpreter of this worker does.

    Those of a process that was spawned; other workers end without their interpreter's end.
    Idempotent.
    """
    if multiprocessing.parent_process() is not None:
        _at_exit(_wait_for_queues)


def close_at_exit(client: Closing) -> None:
    """Has a client of a store closed, and its threads leave Python, before the interpreter ends."""
    _open.add(client)
    _at_exit(_close)


def wait_for_foreign_threads() -> None:
    """Waits, for a while, until threads that Python has not begun have left it."""
    deadline = time.monotonic() + _FOREIGN_S
    looks = 0
    while looks < _LOOKS and time.monotonic() < deadline:
        own = {thread.ident for thread in threading.enumerate()}
        running = set(sys._current_frames())  # noqa: SLF001 - of Python's documented interface
        looks = 0 if running - own else looks + 1
        time.sleep(_LOOK_S)


def _at_exit(end: Callable[[], None]) -> None:
    if _registered.get(end) != os.getpid():
        _registered[end] = os.getpid()
        atexit.register(end)


def _wait_for_queues() -> None:
    """They have been told to end when multiprocessing left the process's function."""
    for thread in threading.enumerate():
        if thread.name == "QueueFeederThread":
            thread.join(_QUEUE_S)


def _close() -> None:
    for client in list(_open):
        client.close()
    wait_for_foreign_threads()
