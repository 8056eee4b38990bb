"""The exit of a worker process that DataLoader spawned."""

from __future__ import annotations

import atexit
import multiprocessing
import os
import threading

__all__ = ["wait_for_queues_at_exit"]

# What a queue still holds is pickled in less; a thread that hangs in a full pipe, which the
# trainer does not read any more, harms nobody.
_TIMEOUT_S = 2.0

_waiting = 0  # the process that does so already


def wait_for_queues_at_exit() -> None:
    """Has the threads that send batches end before the interpreter of this worker does.

    A spawned process ends its interpreter, and that ends a thread that comes back from torch
    without the GIL: before Python 3.14 by unwinding its stack through a destructor, so that the
    process aborts. Other workers end without that, and don't come here. Idempotent.
    """
    global _waiting  # noqa: PLW0603
    if multiprocessing.parent_process() is not None and _waiting != os.getpid():
        _waiting = os.getpid()
        atexit.register(_wait_for_queues)


def _wait_for_queues() -> None:
    """They have been told to end when multiprocessing left the process's function."""
    for thread in threading.enumerate():
        if thread.name == "QueueFeederThread":
            thread.join(_TIMEOUT_S)
