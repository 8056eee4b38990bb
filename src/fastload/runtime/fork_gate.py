"""Keeps fork() away from threads that run functions of other libraries, such as steps.

A library such as OpenCV has locks that a child of fork() inherits. If another thread holds such a
lock during the fork, the child waits for the lock for ever. So a fork waits until no thread is
within such a function, and until threads that have ended are gone: a library frees the data of a
thread, under a lock, after Python has forgotten the thread.
"""

from __future__ import annotations

import os
import threading
import time

__all__ = ["ForkGate", "gate"]

# A fork waits no longer, because a function may itself wait for the thread that forks.
_MOST_S = 10.0
_POLL_S = 0.0005


class ForkGate:
    """A gate that threads pass to run functions, and that a fork closes for a moment.

    Example:
        with gate:
            decode(image)
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Know no threads and no forks: at first, and in a child of fork()."""
        self._changed = threading.Condition()
        self._inside: set[int] = set()  # threads within a function, by their numbers in Python
        self._native: set[int] = set()  # threads that have been within, by the system's numbers
        self._forks = 0  # that are on their way

    def __enter__(self) -> None:
        """Let this thread run functions, once no fork is on its way."""
        with self._changed:
            self._changed.wait_for(lambda: not self._forks)
            self._inside.add(threading.get_ident())
            self._native.add(threading.get_native_id())

    def __exit__(self, *_: object) -> None:
        """Say that this thread runs no function any more."""
        with self._changed:
            self._inside.discard(threading.get_ident())
            self._changed.notify_all()

    def close(self) -> None:
        """Close the gate before a fork, and wait for the threads that are within or are ending."""
        end = time.monotonic() + _MOST_S
        own = threading.get_ident()
        with self._changed:
            self._forks += 1
            self._changed.wait_for(lambda: self._inside <= {own}, _MOST_S)
            while (ending := self._ending()) and time.monotonic() < end:
                self._changed.wait(_POLL_S)
            self._native -= ending  # numbers that the system has given to threads of others

    def open(self) -> None:
        """Open the gate again after a fork, in the parent."""
        with self._changed:
            self._forks -= 1
            self._changed.notify_all()

    def _ending(self) -> set[int]:
        """Return the threads that have been within, and that Python has forgotten already."""
        alive = {thread.native_id for thread in threading.enumerate()}
        ended = self._native - alive
        there = {number for number in ended if os.path.exists(f"/proc/self/task/{number}")}
        self._native -= ended - there
        return there


gate = ForkGate()

os.register_at_fork(before=gate.close, after_in_parent=gate.open, after_in_child=gate.reset)
